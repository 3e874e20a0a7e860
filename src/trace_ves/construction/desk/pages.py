"""The pages of the desk as HTML; the templates escape everything."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from markdown_it import MarkdownIt
from markupsafe import Markup

from trace_ves.construction.adjudication import list_sides
from trace_ves.construction.ledger import JUDGEMENT_SLOTS, Stage, human_slot, verification_slot
from trace_ves.construction.next_steps import next_steps
from trace_ves.construction.people import Role, active_names, list_people
from trace_ves.construction.reports import closure_statement, funnel_table, list_facts, make_report
from trace_ves.construction.visual_verification import evidence_to_json, mean_iou, merge_intervals
from trace_ves.core.interval import union
from trace_ves.web.views import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.construction.assignments import Assignment
    from trace_ves.construction.desk.context import SignedInRequest
    from trace_ves.construction.judged_item import JudgedItem
    from trace_ves.construction.judging import Judgements
    from trace_ves.construction.ledger import Entry, Ledger
    from trace_ves.construction.visual_verification import Evidence

JUDGEMENT_NAMES: Final = {
    "verification": "visual verification",
    "without": "leave-one-out",
    "settlement": "adjudication",
    "skip": "skipped",
}


@dataclass(frozen=True, slots=True)
class Day:
    """A person's work of today, by UTC."""

    judged: int
    hours: float

    @property
    def pace(self) -> float | None:
        """Judgements an hour of work; None in the first minute."""
        return self.judged / self.hours if self.hours >= 1 / 60 else None


def own_entries(ledger: Ledger, who: str) -> list[Entry]:
    """A person's present judgements, the oldest first."""
    mine = [each for each in ledger.entries if each.who == who and each.slot.startswith(JUDGEMENT_SLOTS)]
    return [each for each in mine if each in ledger.slot(each.subject, each.slot).entries[-1:]]


def own_judgements(judgements: Judgements, ledger: Ledger, who: str) -> list[dict[str, Any]]:
    """A person's present judgements for their list, the newest first."""
    return [
        {
            "item": entry.subject,
            "question": judgements.items.one(ledger, entry.subject).proposal.text,
            "stage": JUDGEMENT_NAMES[entry.slot.partition("/")[0]],
            "verdict": verdict_text(entry.slot.partition("/")[0], entry.after or {}),
            "at": entry.at,
            "minutes": entry.seconds / 60,
            "can_undo": not judgements.why_no_undo(ledger, entry),
        }
        for entry in reversed(own_entries(ledger, who))
    ]


def verdict_text(kind: str, value: Mapping[str, Any]) -> str:
    """A judgement in words."""
    if kind == "skip":
        return str(value["reason"])
    if kind == "without":
        return "do not decide" if value["answer"] is None else f"decide {value['answer']}"
    kept = value["keep"] if kind == "settlement" else value["accepted"]
    if not kept:
        return f"{'unsure' if value.get('unsure') else 'rejected'}: {value['reason']}"
    count = len(value["evidence"])
    words = "kept" if kind == "settlement" else "accepted"
    answer = f", answer {value['answer']}" if value.get("answer") else ""
    return f"{words} with {count} intervals{answer}" if count else words


def today(ledger: Ledger, who: str, now: float) -> Day:
    """A person's judgements since midnight, by UTC; those that were undone were work too."""
    midnight = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    mine = [
        each
        for each in ledger.entries
        if each.who == who and each.at >= midnight and each.undoes is None and each.slot.startswith(JUDGEMENT_SLOTS)
    ]
    return Day(len(mine), sum(each.seconds for each in mine) / 3600)


RECENT: Final = 12
"""Own judgements that the first page lists."""


def sign_in_page(csrf: str) -> str:
    """The sign-in page."""
    return render("desk/sign_in.html", csrf=csrf, person=None)


def _render(caller: SignedInRequest, template: str, **values: Any) -> str:
    return render(template, csrf=caller.csrf, person=caller.person, **values)


def home_page(caller: SignedInRequest) -> str:
    """The queue of an annotator, or the disagreements that wait for an adjudicator."""
    judgements, person = caller.context.judgements, caller.person
    ledger = judgements.store.ledger()
    is_adjudicator = person.role is Role.ADJUDICATOR
    disputes = [(judged, judged.state.dispute) for judged in judgements.items.all(ledger) if judged.state.dispute]
    own = own_judgements(judgements, ledger, person.name)
    return _render(
        caller,
        "desk/home.html",
        is_adjudicator=is_adjudicator,
        task=judgements.assignment(person),
        kept_hours=judgements.settings.seat_hours,
        left=0 if is_adjudicator else judgements.queue.count_items(person.name),
        disputes=disputes if is_adjudicator else [],
        day=today(ledger, person.name, judgements.store.clock()),
        recent=own[:RECENT],
        judged=len(own),
    )


def judgements_page(caller: SignedInRequest) -> str:
    """All of a person's own judgements."""
    judgements = caller.context.judgements
    own = own_judgements(judgements, judgements.store.ledger(), caller.person.name)
    return _render(caller, "desk/judgements.html", own=own)


def guidelines_page(caller: SignedInRequest) -> str:
    """The project's guidelines. Markdown without HTML, so that nothing in it runs."""
    text = MarkdownIt("commonmark", {"html": False}).enable("table").render(caller.context.project.guidelines())
    guidelines = Markup(text)  # noqa: S704  the renderer escapes everything that is not Markdown
    return _render(caller, "desk/guidelines.html", guidelines=guidelines)


def task_page(caller: SignedInRequest, task: Assignment) -> str:
    """The assignment that an annotator holds."""
    return _verification(caller, task) if task.stage is Stage.VERIFICATION else _partial(caller, task)


def _verification(caller: SignedInRequest, task: Assignment) -> str:
    judgements = caller.context.judgements
    judged = judgements.item(task.item)
    revision = judgements.store.ledger().slot(task.item, verification_slot(caller.person.name)).revision
    proposal = judged.proposal
    return _render(
        caller,
        "desk/verify.html",
        item=task.item,
        proposal=proposal,
        letters=proposal.question(task.item).letters,
        undo_item=_undo_item(caller),
        data=_data(judged, proposal.evidence, judgements.watched(caller.person, task.item), revision=revision),
    )


def _partial(caller: SignedInRequest, task: Assignment) -> str:
    """This page shows nothing of the interval that is left out: not its time, not its rationale, not that there is one.

    The number of intervals would answer a question that counts.
    """
    judgements = caller.context.judgements
    judged = judgements.item(task.item)
    left_out = task.left_out or 0
    revision = judgements.store.ledger().slot(task.item, human_slot(caller.person.name, left_out)).revision
    question = judged.proposal.question(task.item)
    parts = [(part, span) for part, span in enumerate(judged.partial_evidence) if part != left_out]
    return _render(
        caller,
        "desk/answer.html",
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
            "watched": judgements.watched(caller.person, task.item),
        },
    )


def _undo_item(caller: SignedInRequest) -> str:
    """The item of the caller's newest judgement; empty if it cannot be undone."""
    judgements = caller.context.judgements
    ledger = judgements.store.ledger()
    newest = own_entries(ledger, caller.person.name)[-1:]
    return newest[0].subject if newest and not judgements.why_no_undo(ledger, newest[0]) else ""


def dispute_page(caller: SignedInRequest, item: str) -> str | None:
    """A disagreement side by side; None if there is none about this item."""
    judged = caller.context.judgements.item(item)
    dispute = judged.state.dispute
    if dispute is None:
        return None
    sides = list_sides(judged, dispute)
    accepted = [side.verdict.evidence for side in sides if side.verdict and side.verdict.accepted]
    both = accepted if len(accepted) == 2 else []
    alike = bool(both) and len(both[0]) == len(both[1])
    start = merge_intervals(*both) if alike else accepted[0] if accepted else dispute.evidence
    return _render(
        caller,
        "desk/settle.html",
        item=item,
        dispute=dispute,
        proposal=judged.proposal,
        letters=judged.proposal.question(item).letters,
        sides=sides,
        iou=mean_iou(*both) if both else 0.0,
        union=union((*both[0], *both[1])) if both else (),
        middle=merge_intervals(*both) if alike else (),
        data=_data(
            judged,
            start,
            caller.context.judgements.watched(caller.person, item),
            about=list(dispute.about),
            fixed=bool(dispute.evidence),
            sides=[
                {"name": side.name, "spans": evidence_to_json(side.verdict.evidence)}
                for side in sides
                if side.verdict and side.verdict.accepted
            ],
        ),
    )


def status_page(caller: SignedInRequest) -> str:
    """The funnel and what is guaranteed, the same numbers as `build status`."""
    judgements = caller.context.judgements
    report = make_report(judgements.store.ledger(), judgements.items, judgements.settings)
    return _render(
        caller,
        "desk/status.html",
        table=funnel_table(report),
        facts=list_facts(report),
        closure=closure_statement(report),
    )


def _data(judged: JudgedItem, spans: Evidence, watched: list[list[float]], **more: Any) -> dict[str, Any]:
    """The data of a page with a player for its scripts; `spans` are the intervals to begin with."""
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


def admin_page(caller: SignedInRequest) -> str:
    """The operator's page: next steps, people, assignments, stuck items."""
    judgements = caller.context.judgements
    queue, ledger, now = judgements.queue, judgements.store.ledger(), judgements.store.clock()
    report = make_report(ledger, judgements.items, judgements.settings)
    queue.exposures.update(ledger)
    held = queue.held()
    entries = [each for each in ledger.entries if each.slot.startswith(JUDGEMENT_SLOTS) and each.undoes is None]
    rows = [
        {
            "person": person,
            "active_at": queue.exposures.active_at(person.name),
            "judged": sum(each.who == person.name for each in entries),
            "last_day": sum(each.who == person.name and each.at > now - 86400 for each in entries),
            "record": report.annotators.get(person.name),
            "holds": [(assignment, since) for assignment, who, since in held if who == person.name],
        }
        for person in list_people(ledger)
    ]
    holders = {who for _, who, _ in held}
    return _render(
        caller,
        "desk/admin.html",
        rows=rows,
        stuck=queue.stuck(),
        waiting=[
            judged.id
            for judged in judgements.items.all(ledger)
            if judged.state.waits_at in {Stage.VERIFICATION, Stage.LEAVE_ONE_OUT}
        ],
        free=[name for name in active_names(ledger, Role.ANNOTATOR) if name not in holders],
        holders=sorted(holders),
        steps=next_steps(ledger, judgements.items, queue, "DIR"),
        found=report,
        last_day=sum(each.at > now - 86400 for each in entries),
        seat_hours=judgements.settings.seat_hours,
        gold_share=judgements.settings.gold_share,
    )
