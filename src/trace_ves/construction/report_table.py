"""A build's numbers as people read them: the funnel as a table, and the facts beneath it as words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.construction.reports import FILTERS
from trace_ves.construction.stages import Stage
from trace_ves.report.table import Column, Row, Section, Table, Value, number

if TYPE_CHECKING:
    from trace_ves.construction.reports import Report

NAMES: Final = {
    Stage.PROPOSAL: "1 proposal",
    Stage.VERIFICATION: "2 visual verification",
    Stage.LEAVE_ONE_OUT: "3 leave-one-out",
    Stage.SHORTCUT: "4 shortcut probe",
    Stage.ADJUDICATION: "5 adjudication",
}


def funnel_table(found: Report) -> Table:
    """One row for each stage: what it rejected, what is left, what waits."""
    first = Row(NAMES[Stage.PROPOSAL], tuple((Value(text),) for text in ("", f"{found.proposed:,}", "")))
    rows = [
        Row(
            NAMES[stage],
            tuple(
                (Value(f"{count:,}"),) for count in (found.rejected[stage], found.after[stage], found.waiting[stage])
            ),
        )
        for stage in FILTERS
    ]
    columns = (Column("Rejected"), Column("Left"), Column("Waiting"))
    return Table("funnel", "Candidates", "Stage", columns, (Section("", (first, *rows)),))


def facts(found: Report) -> list[tuple[str, str]]:
    """What else the paper's appendix tells, each with a name."""
    waiting = sum(found.waiting.values())
    return [
        ("accepted", f"{found.accepted:,}" + (f", {waiting:,} still under way" if waiting else "")),
        ("accept rate", _with(number(found.accept_rate), "%")),
        ("settled by an adjudicator", f"{found.settled:,} of the accepted"),
        ("inter-annotator IoU", number(found.iou, "{:.2f}".format).text),
        ("human/model agreement without one interval", _with(number(found.agreement), "%")),
        ("mean time per item and annotator", _with(number(found.minutes_per_item), "minutes")),
        ("time of all people", f"{found.hours:.1f} hours"),
        *(("backbone of " + stage, ", ".join(specs)) for stage, specs in found.backbones.items()),
    ]


def _with(value: Value, unit: str) -> str:
    return value.text if value.text == "--" else f"{value.text} {unit}"
