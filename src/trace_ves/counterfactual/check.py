"""One prediction, answered again from its clips: as they are, without one evidence interval, and without as much else.

The three go out as one batch through the same backbone and the prompt of final answer replay, so that nothing but the
masked frames differs between them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Final

from trace_ves.agent.final_answer_replay import PROMPT
from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.backbone.replies import answer_reply, question_variables, same_answer
from trace_ves.core import Clip, Interval
from trace_ves.counterfactual.masking import Masks, choose, is_evidence, outward
from trace_ves.observer import Observer
from trace_ves.recorded import open_recorded, recorded_bundle, recorded_clip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.core import Frame, Item
    from trace_ves.counterfactual.masking import Mask
    from trace_ves.records import Prediction

CHUNK: Final = 16
"""Moments that are decoded at a time in search of stand-ins."""


@dataclass(frozen=True, slots=True)
class Masked:
    """What was masked, what stood in for it, and what the model said then."""

    span: Interval
    masked: tuple[float, ...]
    stand_ins: tuple[float, ...]
    answer: str | None
    changed: bool

    def to_json(self) -> dict[str, object]:
        """As it stands in the log."""
        return {
            "span": [self.span.start, self.span.end],
            "masked": list(self.masked),
            "stand_ins": list(self.stand_ins),
            "answer": self.answer,
            "changed": self.changed,
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the check found for one question."""

    question_id: str
    answer: str | None
    """The prediction's."""
    replayed: str | None
    """The answer from the same clips, unmasked."""
    evidence: Masked | None = None
    control: Masked | None = None
    observations: tuple[dict[str, object], ...] = ()
    error: str | None = None

    @property
    def reproduced(self) -> bool:
        """Whether the clips alone give the prediction's answer; if not, a change says nothing about the mask."""
        return same_answer(self.answer, self.replayed)

    def to_json(self) -> dict[str, object]:
        """As it stands in the log."""
        return {
            "question_id": self.question_id,
            "answer": self.answer,
            "replayed": self.replayed,
            "evidence": self.evidence.to_json() if self.evidence else None,
            "control": self.control.to_json() if self.control else None,
            "observations": list(self.observations),
            **({"error": self.error} if self.error is not None else {}),
        }


def check(item: Item, prediction: Prediction, path: Path, backbone: Backbone, *, seed: int) -> Outcome:
    """Answer one question three times: unmasked, evidence masked, control masked."""
    with open_recorded(prediction, path) as video:
        observer = Observer(video, backbone)
        clips = tuple(recorded_clip(video, clip) for clip in recorded_bundle(prediction))
        seen = sorted({frame.seconds for clip in clips for frame in clip.frames})
        masks = choose(seen, item.evidence, _draw(seed, item.question.id))
        swaps = [_stand_ins(observer, mask, item, clips) if mask else None for mask in (masks.evidence, masks.control)]
        versions = [clips, *(_masked(clips, swap) for swap in swaps if swap)]
        answers = iter(_answers(observer, item, versions))
        outcome = Outcome(item.question.id, prediction.answer, next(answers))
        evidence, control = (
            _outcome(mask, swap, outcome.replayed, answers) for mask, swap in zip(_pair(masks), swaps, strict=True)
        )
        observations = tuple(observer.log.to_json())
        return replace(outcome, evidence=evidence, control=control, observations=observations)


Swap = dict[float, "Frame"]
"""Which frame stands in for the one of each masked timestamp."""


def _pair(masks: Masks) -> tuple[Mask | None, Mask | None]:
    return masks.evidence, masks.control


def _draw(seed: int, question_id: str) -> Random:
    """Chance that depends on the seed and the question alone, not on the order of work."""
    return Random(hashlib.sha256(f"{seed}:{question_id}".encode()).digest())  # noqa: S311  chance, not a secret


def _stand_ins(observer: Observer, mask: Mask, item: Item, clips: Sequence[Clip]) -> Swap | None:
    """As many frames as are masked, from outside all evidence and not among the clips' own; None if there are not."""
    height = max(clip.strategy.height for clip in clips)
    taken = {frame.seconds for clip in clips for frame in clip.frames}
    found: dict[float, Frame] = {}
    moments = outward(mask, observer.whole)
    while len(found) < len(mask.timestamps) and (chunk := list(islice(moments, CHUNK))):
        for frame in observer.frames_at(chunk, height=height):
            usable = frame.seconds not in taken and not is_evidence(frame.seconds, (*item.evidence, mask.span))
            if usable and len(found) < len(mask.timestamps):
                found[frame.seconds] = frame
    if len(found) < len(mask.timestamps):
        return None
    return dict(zip(mask.timestamps, (found[seconds] for seconds in sorted(found)), strict=True))


def _masked(clips: Sequence[Clip], swap: Swap) -> tuple[Clip, ...]:
    return tuple(_masked_clip(clip, swap) for clip in clips)


def _masked_clip(clip: Clip, swap: Swap) -> Clip:
    """The clip with its stand-ins in order of time; its span follows its frames, so that it tells nothing untrue."""
    if not any(frame.seconds in swap for frame in clip.frames):
        return clip
    frames = sorted((swap.get(frame.seconds, frame) for frame in clip.frames), key=lambda frame: frame.seconds)
    return Clip(Interval(frames[0].seconds, frames[-1].seconds), clip.strategy, tuple(frames))


def _answers(observer: Observer, item: Item, versions: Sequence[tuple[Clip, ...]]) -> Iterator[str | None]:
    question = item.question
    requests = [Request(PROMPT, question_variables(question), answer_reply(question), clips) for clips in versions]
    for reply in observer.ask(requests):
        yield None if isinstance(reply, ModelFault) else reply.answer


def _outcome(
    mask: Mask | None, swap: Swap | None, replayed: str | None, answers: Iterator[str | None]
) -> Masked | None:
    if mask is None or swap is None:
        return None
    answer = next(answers)
    stand_ins = tuple(frame.seconds for frame in swap.values())
    return Masked(mask.span, mask.timestamps, stand_ins, answer, changed=not same_answer(answer, replayed))
