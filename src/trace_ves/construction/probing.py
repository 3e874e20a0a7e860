"""Runs the models of stages 3 and 4 over every item that waits for them; each finished answer is kept at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.backbone.protocol import ModelFault
from trace_ves.construction.exposure import model_of
from trace_ves.construction.judged_item import ItemIndex
from trace_ves.construction.leave_one_out import Probe, probe
from trace_ves.construction.ledger import Change
from trace_ves.construction.proposal import CAPTION_STAGE, MACHINE, PROPOSAL_STAGE, NoFootage, gist_of
from trace_ves.construction.requests import calls_in, calls_of
from trace_ves.construction.shortcut_probe import Shortcut, probe_gist, probe_words
from trace_ves.construction.stages import GIST_SLOT, LANGUAGE_SLOT, Stage, probe_slot
from trace_ves.observer import Observer
from trace_ves.video import open as open_video

if TYPE_CHECKING:
    from collections.abc import Callable

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.construction.judged_item import JudgedItem
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.project import Project
    from trace_ves.construction.store import Store


def probe_leave_one_out(
    project: Project, store: Store, backbone: Backbone, *, on_progress: Callable[[int, int], None]
) -> int:
    """Ask the vision model about every partial set that waits; the number of items that were asked about."""
    waiting = [
        (judged, standing.evidence, standing.answer)
        for judged, standing in ItemIndex().all(store.ledger())
        if standing.waits_at is Stage.LEAVE_ONE_OUT
        and len(judged.probes_of(standing.evidence)) < len(standing.evidence)
    ]
    for done, (judged, evidence, answer) in enumerate(waiting):
        question = judged.proposal.question(judged.id)
        known = judged.probes_of(evidence)
        with open_video(project.need_path(judged.proposal.video)) as video:
            for left_out in range(len(evidence)):
                if left_out in known:
                    continue
                observer = Observer(video, backbone)
                found = probe(question, answer, evidence, left_out, observer)
                _keep(store, judged, probe_slot(left_out), found, observer)
        on_progress(done + 1, len(waiting))
    return len(waiting)


def dependence_warning(ledger: Ledger, spec: str) -> str | None:
    """What to tell a person whose probe is not independent of the proposals; None where it is."""
    proposed = {used for used, call in calls_in(ledger) if call.stage in {CAPTION_STAGE, PROPOSAL_STAGE}}
    if model_of(spec) not in map(model_of, proposed):
        return None
    return f"{spec} helped to propose these items; the leave-one-out probe should be an independent model"


def probe_shortcuts(
    store: Store, language: Backbone, gist: Backbone, *, on_progress: Callable[[int, int], None]
) -> tuple[int, int]:
    """Ask both models about every item that waits; how many items were asked about, and how many lack a summary."""
    ledger = store.ledger()
    waiting = [
        (judged, standing.answer) for judged, standing in ItemIndex().all(ledger) if standing.waits_at is Stage.SHORTCUT
    ]
    lacking = 0
    for done, (judged, gold) in enumerate(waiting):
        question = judged.proposal.question(judged.id)
        if judged.language is None:
            observer = Observer(NoFootage(), language)
            _keep(store, judged, LANGUAGE_SLOT, probe_words(question, gold, observer), observer)
        summary = gist_of(ledger, judged.proposal.video)
        if summary is None:
            lacking += 1
        elif judged.gist is None:
            observer = Observer(NoFootage(), gist)
            _keep(store, judged, GIST_SLOT, probe_gist(question, gold, summary, observer), observer)
        on_progress(done + 1, len(waiting))
    return len(waiting), lacking


def _keep(
    store: Store, judged: JudgedItem, slot: str, found: Probe | Shortcut | ModelFault, observer: Observer
) -> None:
    """Note what was answered and what it cost; a fault is noted beside, so that the next run asks again."""
    calls = calls_of(observer, observer.backbone)
    if isinstance(found, ModelFault):
        change = Change(judged.id, f"fault/{slot}", MACHINE, {"fault": found.reason}, calls=calls)
    else:
        change = Change(judged.id, slot, MACHINE, found.to_json(), calls=calls)
    store.append([change])
