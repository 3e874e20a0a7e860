"""The pages of the desk as HTML, from values; everything is escaped by the templates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from markdown_it import MarkdownIt
from markupsafe import Markup

from trace_ves.construction.adjudication import sides
from trace_ves.construction.assignments import evidence_of
from trace_ves.construction.judging import JUDGEMENTS
from trace_ves.construction.people import Role, active, people
from trace_ves.construction.reports import closure_statement, facts, funnel_table, next_steps, report
from trace_ves.construction.stages import Stage, human_slot, verification_slot
from trace_ves.construction.visual_verification import evidence_to_json, mean_iou, merged, union_of
from trace_ves.web.views import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.construction.assignments import Assignment
    from trace_ves.construction.desk.context import SignedInRequest
    from trace_ves.construction.judged_item import JudgedItem
    from trace_ves.construction.judging import Desk
    from trace_ves.construction.ledger import Entry, Ledger
    from trace_ves.construction.people import AnnotatorRecord, Person
    from trace_ves.construction.visual_verification import Evidence

STAGES: Final = {
    "verification": "visual verification",
    "without": "leave-one-out",
    "settlement": "adjudication",
    "skip": "skipped",
}


@dataclass(frozen=True, slots=True)
class OwnJudgement:
    """One of a person's own judgements, as they read it."""

    item: str
    question: str
    stage: str
    verdict: str
    at: float
    minutes: float
    can_undo: bool


@dataclass(frozen=True, slots=True)
class Day:
    """What a person did today, by UTC."""

    judged: int
    hours: float

    @property
    def pace(self) -> float | None:
        """Judgements an hour of work; None before there is enough to tell."""
        return self.judged / self.hours if self.hours >= 1 / 60 else None


def own_entries(ledger: Ledger, who: str) -> list[Entry]:
    """A person's judgements that stand, the oldest first."""
    mine = [each for each in ledger.entries if each.who == who and each.slot.startswith(JUDGEMENTS)]
    return [each for each in mine if each in ledger.slot(each.subject, each.slot).standing[-1:]]


def own_judgements(desk: Desk, ledger: Ledger, who: str) -> list[OwnJudgement]:
    """The same as they are listed, the newest first."""
    return [
        OwnJudgement(
            entry.subject,
            desk.items.one(ledger, entry.subject)[0].proposal.text,
            STAGES[entry.slot.partition("/")[0]],
            verdict_text(entry.slot.partition("/")[0], entry.after or {}),
            entry.at,
            entry.seconds / 60,
            can_undo=not desk.why_no_undo(ledger, entry),
        )
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
    """What a person judged since midnight, by UTC; what they took back was work too."""
    midnight = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    mine = [
        each
        for each in ledger.entries
        if each.who == who and each.at >= midnight and each.undoes is None and each.slot.startswith(JUDGEMENTS)
    ]
    return Day(len(mine), sum(each.seconds for each in mine) / 3600)


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


JUDGED_BY_PEOPLE: Final = (Stage.VERIFICATION, Stage.LEAVE_ONE_OUT)
"""Stages whose items can be assigned."""


@dataclass(frozen=True, slots=True)
class PersonRow:
    """One person as the operator sees them."""

    person: Person
    active_at: float
    judged: int
    last_day: int
    """Judgements of the last 24 hours."""
    record: AnnotatorRecord | None
    holds: tuple[tuple[Assignment, float], ...]
    """What they hold, and when they last worked on it."""


def person_rows(caller: SignedInRequest) -> list[PersonRow]:
    """Everybody who was invited."""
    desk = caller.context.desk
    ledger, now = desk.store.ledger(), desk.store.clock()
    found = report(ledger, desk.items, desk.settings)
    desk.queue.exposures.update(ledger)
    held = desk.queue.held()
    judgements = [each for each in ledger.entries if each.slot.startswith(JUDGEMENTS) and each.undoes is None]
    return [
        PersonRow(
            person,
            desk.queue.exposures.active_at(person.name),
            sum(each.who == person.name for each in judgements),
            sum(each.who == person.name and each.at > now - 86400 for each in judgements),
            found.annotators.get(person.name),
            tuple((assignment, since) for assignment, who, since in held if who == person.name),
        )
        for person in people(ledger)
    ]


def admin_page(caller: SignedInRequest) -> str:
    """Everything an operator needs at once."""
    desk = caller.context.desk
    ledger = desk.store.ledger()
    rows = person_rows(caller)
    holders = {row.person.name for row in rows if row.holds}
    return render(
        "desk/admin.html",
        csrf=caller.csrf,
        person=caller.person,
        rows=rows,
        stuck=desk.queue.stuck(),
        waiting=[judged.id for judged, standing in desk.items.all(ledger) if standing.waits_at in JUDGED_BY_PEOPLE],
        free=[name for name in active(ledger, Role.ANNOTATOR) if name not in holders],
        holders=sorted(holders),
        steps=next_steps(ledger, desk.items, desk.queue, "DIR"),
        found=report(ledger, desk.items, desk.settings),
        last_day=sum(row.last_day for row in rows),
        seat_hours=desk.settings.seat_hours,
        gold_share=desk.settings.gold_share,
    )
