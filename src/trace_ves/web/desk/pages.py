"""The pages of the desk as HTML, from values; everything is escaped by the templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from markdown_it import MarkdownIt
from markupsafe import Markup

from trace_ves.construction.adjudication import sides
from trace_ves.construction.assignments import evidence_of
from trace_ves.construction.people import Role
from trace_ves.construction.report_table import facts, funnel_table
from trace_ves.construction.reports import closure_statement, report
from trace_ves.construction.stages import Stage, human_slot, verification_slot
from trace_ves.construction.visual_verification import evidence_to_json, mean_iou, merged, union_of
from trace_ves.web.desk.day import own_entries, own_judgements, today
from trace_ves.web.views import render

if TYPE_CHECKING:
    from trace_ves.construction.assignments import Assignment
    from trace_ves.construction.judged_item import JudgedItem
    from trace_ves.construction.visual_verification import Evidence
    from trace_ves.web.desk.context import SignedInRequest

RECENT: Final = 12
"""Own judgements that the first page lists."""


def sign_in_page(csrf: str) -> str:
    """Where one signs in."""
    return render("desk/sign_in.html", csrf=csrf, person=None)


def home_page(caller: SignedInRequest) -> str:
    """The queue of an annotator, or the disagreements that wait for an adjudicator."""
    desk, person = caller.context.desk, caller.person
    ledger = desk.store.ledger()
    is_adjudicator = person.role is Role.ADJUDICATOR
    disputes = [(judged, standing.dispute) for judged, standing in desk.items.all(ledger) if standing.dispute]
    own = own_judgements(desk, ledger, person.name)
    return render(
        "desk/home.html",
        csrf=caller.csrf,
        person=person,
        is_adjudicator=is_adjudicator,
        task=desk.assignment(person),
        kept_hours=desk.settings.seat_hours,
        left=0 if is_adjudicator else desk.queue.items_left(person.name),
        disputes=disputes if is_adjudicator else [],
        day=today(ledger, person.name, desk.store.clock()),
        recent=own[:RECENT],
        judged=len(own),
    )


def judgements_page(caller: SignedInRequest) -> str:
    """All of a person's own judgements."""
    desk = caller.context.desk
    own = own_judgements(desk, desk.store.ledger(), caller.person.name)
    return render("desk/judgements.html", csrf=caller.csrf, person=caller.person, own=own)


def guidelines_page(caller: SignedInRequest) -> str:
    """The project's guidelines. Markdown without HTML, so that nothing in it runs."""
    text = MarkdownIt("commonmark", {"html": False}).enable("table").render(caller.context.project.guidelines())
    guidelines = Markup(text)  # noqa: S704  the renderer escapes everything that is not Markdown
    return render("desk/guidelines.html", csrf=caller.csrf, person=caller.person, guidelines=guidelines)


def task_page(caller: SignedInRequest, task: Assignment) -> str:
    """The one task that an annotator has open."""
    return _verification(caller, task) if task.stage is Stage.VERIFICATION else _partial(caller, task)


def _verification(caller: SignedInRequest, task: Assignment) -> str:
    desk = caller.context.desk
    judged, _ = desk.item(task.item)
    revision = desk.store.ledger().slot(task.item, verification_slot(caller.person.name)).revision
    proposal = judged.proposal
    return render(
        "desk/verify.html",
        csrf=caller.csrf,
        person=caller.person,
        item=task.item,
        proposal=proposal,
        letters=proposal.question(task.item).letters,
        undo_item=_undo_item(caller),
        data=_data(judged, proposal.evidence, desk.watched(caller.person, task.item), revision=revision),
    )


def _partial(caller: SignedInRequest, task: Assignment) -> str:
    """Nothing of the interval that is left out is on this page: neither its time nor its rationale, nor that it is one.

    How many intervals there are would answer a question that counts.
    """
    desk = caller.context.desk
    judged, standing = desk.item(task.item)
    left_out = task.left_out or 0
    revision = desk.store.ledger().slot(task.item, human_slot(caller.person.name, left_out)).revision
    question = judged.proposal.question(task.item)
    parts = [(part, span) for part, span in enumerate(evidence_of(judged, standing)) if part != left_out]
    return render(
        "desk/answer.html",
        csrf=caller.csrf,
        person=caller.person,
        item=task.item,
        question=question,
        left_out=left_out,
        parts=parts,
        undo_item=_undo_item(caller),
        data={
            "item": task.item,
            "revision": revision,
            "left_out": left_out,
            "clips": [{"part": part, "span": [span.start, span.end]} for part, span in parts],
            "watched": desk.watched(caller.person, task.item),
        },
    )


def _undo_item(caller: SignedInRequest) -> str:
    """The item of one's newest judgement, where it can be taken back."""
    desk = caller.context.desk
    ledger = desk.store.ledger()
    newest = own_entries(ledger, caller.person.name)[-1:]
    return newest[0].subject if newest and not desk.why_no_undo(ledger, newest[0]) else ""


def dispute_page(caller: SignedInRequest, item: str) -> str | None:
    """A disagreement side by side; None where there is none about this item."""
    judged, standing = caller.context.desk.item(item)
    dispute = standing.dispute
    if dispute is None:
        return None
    found = sides(judged, dispute)
    accepted = [side.verdict.evidence for side in found if side.verdict and side.verdict.accepted]
    both = accepted if len(accepted) == 2 else []
    alike = bool(both) and len(both[0]) == len(both[1])
    start = merged(*both) if alike else accepted[0] if accepted else dispute.evidence
    return render(
        "desk/settle.html",
        csrf=caller.csrf,
        person=caller.person,
        item=item,
        dispute=dispute,
        proposal=judged.proposal,
        letters=judged.proposal.question(item).letters,
        sides=found,
        iou=mean_iou(*both) if both else 0.0,
        union=union_of(*both) if both else (),
        middle=merged(*both) if alike else (),
        data=_data(
            judged,
            start,
            caller.context.desk.watched(caller.person, item),
            about=list(dispute.about),
            fixed=bool(dispute.evidence),
            sides=[
                {"name": side.name, "spans": evidence_to_json(side.verdict.evidence)}
                for side in found
                if side.verdict and side.verdict.accepted
            ],
        ),
    )


def status_page(caller: SignedInRequest) -> str:
    """The funnel and what is guaranteed, the same numbers as `build status`."""
    desk = caller.context.desk
    found = report(desk.store.ledger(), desk.items, desk.settings)
    return render(
        "desk/status.html",
        csrf=caller.csrf,
        person=caller.person,
        table=funnel_table(found),
        facts=facts(found),
        closure=closure_statement(found),
    )


def _data(judged: JudgedItem, spans: Evidence, watched: list[list[float]], **more: Any) -> dict[str, Any]:
    """What the scripts of a page with a player need to know; `spans` are the intervals to begin with."""
    proposal = judged.proposal
    player = {"id": judged.id, "hasVideo": True, "duration": proposal.duration, "supplied": [], "stages": []}
    intervals = {
        "item": judged.id,
        "evidence": evidence_to_json(proposal.evidence),
        "spans": evidence_to_json(spans),
        "rationales": list(proposal.rationales),
        "answer": proposal.answer,
        "watched": watched,
    }
    return player | intervals | more
