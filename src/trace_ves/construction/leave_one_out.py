"""Stage 3: whether the evidence without one interval still decides the answer, by annotators and by a vision model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.protocol import Backbone, ModelFault
from trace_ves.construction.ledger import Stage
from trace_ves.construction.looking import Looking
from trace_ves.construction.requests import ask_rotated, reply_change
from trace_ves.construction.visual_verification import Evidence
from trace_ves.core import ObservationStrategy, Question
from trace_ves.observer import Observer
from trace_ves.records.base import Flag, Record
from trace_ves.video import open as open_video

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trace_ves.construction.judged_item import JudgedItem
    from trace_ves.construction.project import Project
    from trace_ves.construction.store import Store

PROBE_STAGE: Final = "leave-one-out-probe"
DRAWS: Final = 3  # a partial set decides for the model when it is right in all, with the options in another order each
LOOK: Final = ObservationStrategy(fps=2.0, height=360)
MOST_FRAMES: Final = 24  # frames of each interval, at most


@dataclass(frozen=True, slots=True)
class HumanAnswer(Record):
    """An annotator's answer from the clips without one interval; None if the clips do not decide."""

    evidence: Evidence
    answer: str | None
    looking: Looking | None = None

    def determines(self, gold: str) -> bool:
        """Whether the partial set gave the right option away."""
        return self.answer == gold


@dataclass(frozen=True, slots=True)
class Probe(Record):
    """The model's answers from the clips without one interval."""

    evidence: Evidence
    answers: tuple[str | None, ...]
    determines: Flag


def partial_set(evidence: Evidence, left_out: int) -> Evidence:
    """The evidence without one interval."""
    return evidence[:left_out] + evidence[left_out + 1 :]


def probe(question: Question, gold: str, evidence: Evidence, left_out: int, observer: Observer) -> Probe | ModelFault:
    """Ask the model once per draw, showing only the remaining intervals."""
    clips = tuple(observer.watch(span, LOOK, limit=MOST_FRAMES) for span in partial_set(evidence, left_out))
    answers = ask_rotated(question, PROBE_STAGE, observer, range(DRAWS), clips=clips)
    return answers if isinstance(answers, ModelFault) else Probe(evidence, answers, {gold} == set(answers))


def needs_probe(judged: JudgedItem) -> bool:
    """Whether the model has not answered yet without each interval of an item at this stage."""
    evidence = judged.state.evidence
    return judged.state.waits_at is Stage.LEAVE_ONE_OUT and len(judged.probes_about(evidence)) < len(evidence)


def probe_leave_one_out(
    project: Project,
    store: Store,
    items: Iterable[JudgedItem],
    backbone: Backbone,
    *,
    on_progress: Callable[[int, int], None],
) -> int:
    """Ask the vision model about every partial set that waits for it; returns the number of items."""
    waiting = [judged for judged in items if needs_probe(judged)]
    for done, judged in enumerate(waiting, 1):
        question, state = judged.proposal.question(judged.id), judged.state
        missing = set(range(len(state.evidence))) - judged.probes_about(state.evidence).keys()
        with open_video(project.need_path(judged.proposal.video)) as video:
            for left_out in sorted(missing):
                observer = Observer(video, backbone)
                reply = probe(question, state.answer, state.evidence, left_out, observer)
                store.append([reply_change(judged.id, f"probe/{left_out}", reply, observer)])
        on_progress(done, len(waiting))
    return len(waiting)
