"""Tables as Markdown, for a page or an issue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.report.table import Mark, Table, Value
from trace_ves.report.tables import tables
from trace_ves.report.terminal import printable

if TYPE_CHECKING:
    from trace_ves.ves.report import AuditReport

MARKS: Final = {Mark.PLAIN: "{}", Mark.BEST: "**{}**", Mark.SECOND: "<u>{}</u>"}


def report_markdown(report: AuditReport) -> str:
    """Every table of a report, and its signature."""
    parts = [markdown_table(table) for table in tables(report)]
    return "\n".join([*parts, *(f"- {escaped(warning)}" for warning in report.warnings), f"`{report.signature}`", ""])


def markdown_table(table: Table) -> str:
    """One table under its title."""
    heads = [" ".join(filter(None, (column.group, column.title, column.unit))) for column in table.columns]
    lines = [
        f"### {escaped(table.title)}",
        "",
        _line([table.first_column, *map(escaped, heads)]),
        "|:---|" + "---:|" * len(heads),
    ]
    for section in table.sections:
        if section.heading:
            lines.append(_line([f"*{escaped(section.heading)}*", *[""] * len(heads)]))
        lines += [_line([escaped(row.name), *map(_cell, row.cells)]) for row in section.rows]
    return "\n".join([*lines, "", *([escaped(table.note), ""] if table.note else [])])


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(cell: tuple[Value, ...]) -> str:
    return " / ".join(
        MARKS[value.mark].format(value.text) + (f" ±{value.plus_minus}" if value.plus_minus is not None else "")
        for value in cell
    )


def escaped(text: str) -> str:
    """Text from a file that must not turn into markup."""
    safe = printable(text).replace("\\", "\\\\")
    for character in "|*_`<>[]":
        safe = safe.replace(character, f"\\{character}")
    return safe
