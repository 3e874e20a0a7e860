"""The operator's page: people and their work, invitations, what is held or stuck, how fast it goes, what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.construction.judging import JUDGEMENTS
from trace_ves.construction.next_step import next_steps
from trace_ves.construction.people import Role, active, people
from trace_ves.construction.reports import report
from trace_ves.construction.stages import Stage
from trace_ves.web.views import render

if TYPE_CHECKING:
    from trace_ves.construction.annotator_record import AnnotatorRecord
    from trace_ves.construction.assignments import Assignment
    from trace_ves.construction.people import Person
    from trace_ves.web.desk.context import SignedInRequest


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
