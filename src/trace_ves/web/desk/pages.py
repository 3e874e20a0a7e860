"""The pages of the desk as HTML, from values; everything is escaped by the templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.adjudication import sides
from trace_ves.construction.judging import JUDGEMENTS
from trace_ves.construction.people import Role
from trace_ves.construction.report_table import facts, funnel_table
from trace_ves.construction.reports import closure_statement, report
from trace_ves.construction.stages import Stage, human_slot, verification_slot
from trace_ves.construction.visual_verification import evidence_to_json, merged
from trace_ves.web.views import render

if TYPE_CHECKING:
    from trace_ves.construction.candidate import Candidate
    from trace_ves.construction.queue import Task
    from trace_ves.web.desk.context import Visit
    from trace_ves.web.desk.sessions import Session

RECENT: Final = 12
"""Own judgements that the first page lists."""
STAGE_NAMES: Final = {"verification": "visual verification", "without": "leave-one-out", "settlement": "adjudication"}


def sign_in_page(session: Session) -> str:
    """Where one signs in."""
    return render("desk/sign_in.html", csrf=session.csrf, person=None)


def home_page(visited: Visit) -> str:
    """The queue of an annotator, or the disagreements that wait for an adjudicator."""
    desk, person = visited.room.desk, visited.person
    ledger = desk.store.ledger()
    placed = desk.board.all(ledger)
    mine = [
        entry
        for entry in ledger.entries
        if entry.who == person.name and entry.slot.startswith(JUDGEMENTS) and entry.undoes is None
    ]
    open_ones = [entry for entry in mine if entry in ledger.slot(entry.subject, entry.slot).standing[-1:]]
    recent = [
        {"item": entry.subject, "at": entry.at, "stage": STAGE_NAMES[entry.slot.partition("/")[0]]}
        for entry in reversed(open_ones[-RECENT:])
    ]
    disputes = [(candidate, standing.dispute) for candidate, standing in placed if standing.dispute]
    return render(
        "desk/home.html",
        csrf=visited.csrf,
        person=person,
        is_adjudicator=person.role is Role.ADJUDICATOR,
        task=desk.task(person),
        disputes=disputes if person.role is Role.ADJUDICATOR else [],
        recent=recent,
        judged=len({entry.subject for entry in open_ones}),
    )


def task_page(visited: Visit, task: Task) -> str:
    """The one task that an annotator has open."""
    return _verification(visited, task) if task.stage is Stage.VERIFICATION else _partial(visited, task)


def _verification(visited: Visit, task: Task) -> str:
    desk = visited.room.desk
    candidate, _ = desk.placed(task.item)
    revision = desk.store.ledger().slot(task.item, verification_slot(visited.person.name)).revision
    proposal = candidate.proposal
    return render(
        "desk/verify.html",
        csrf=visited.csrf,
        person=visited.person,
        item=task.item,
        proposal=proposal,
        letters=proposal.question(task.item).letters,
        spans=evidence_to_json(proposal.evidence),
        data=_data(candidate, revision=revision),
    )


def _partial(visited: Visit, task: Task) -> str:
    """Nothing of the interval that is left out stands on this page: neither its time nor its rationale."""
    desk = visited.room.desk
    candidate, standing = desk.placed(task.item)
    left_out = task.left_out or 0
    revision = desk.store.ledger().slot(task.item, human_slot(visited.person.name, left_out)).revision
    question = candidate.proposal.question(task.item)
    parts = [(part, span) for part, span in enumerate(standing.evidence) if part != left_out]
    answered = candidate.answers_of(visited.person.name, standing.evidence)
    return render(
        "desk/answer.html",
        csrf=visited.csrf,
        person=visited.person,
        item=task.item,
        question=question,
        left_out=left_out,
        parts=parts,
        place=(len(answered) + 1, len(standing.evidence)),
        data={"item": task.item, "revision": revision, "left_out": left_out},
    )


def dispute_page(visited: Visit, item: str) -> str | None:
    """A disagreement side by side; None where there is none about this item."""
    candidate, standing = visited.room.desk.placed(item)
    dispute = standing.dispute
    if dispute is None:
        return None
    found = sides(candidate, dispute)
    accepted = [side.verdict.evidence for side in found if side.verdict and side.verdict.accepted]
    start = merged(accepted[0], accepted[-1]) if accepted else dispute.evidence
    return render(
        "desk/settle.html",
        csrf=visited.csrf,
        person=visited.person,
        item=item,
        dispute=dispute,
        proposal=candidate.proposal,
        letters=candidate.proposal.question(item).letters,
        sides=found,
        spans=evidence_to_json(start),
        data=_data(candidate, about=list(dispute.about), fixed=bool(dispute.evidence)),
    )


def status_page(visited: Visit) -> str:
    """The funnel and what is guaranteed, the same numbers as `build status`."""
    found = report(visited.room.desk.store.ledger(), visited.room.desk.board)
    return render(
        "desk/status.html",
        csrf=visited.csrf,
        person=visited.person,
        table=funnel_table(found),
        facts=facts(found),
        closure=closure_statement(found),
    )


def _data(candidate: Candidate, **more: Any) -> dict[str, Any]:
    """What the scripts of a page with a player need to know."""
    proposal = candidate.proposal
    player = {"id": candidate.id, "hasVideo": True, "duration": proposal.duration, "supplied": [], "stages": []}
    return player | {"evidence": evidence_to_json(proposal.evidence), "item": candidate.id} | more
