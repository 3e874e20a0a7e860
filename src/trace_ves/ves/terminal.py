"""Tables for a terminal, by rich; `print(report)` shows the same text without colour."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from io import StringIO
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from trace_ves.core.display import TRACE_TERMINAL, is_trace
from trace_ves.ves.table import Table, Value, ValueMark, select_columns
from trace_ves.ves.tables import tables

if TYPE_CHECKING:
    from trace_ves.ves.report import AuditReport

STYLES: Final = {ValueMark.PLAIN: "", ValueMark.BEST: "bold", ValueMark.SECOND: "underline"}
PLAIN_WIDTH: Final = 120
WIDEST: Final = 10_000  # columns of the imaginary terminal in which tables are measured


def print_report(report: AuditReport, console: Console) -> None:
    """Print every table of a report, its warnings and its signature."""
    for table in tables(report):
        print_table(table, console)
    for warning in report.warnings:
        console.print(Text(f"warning: {printable(warning)}", style="yellow"), soft_wrap=True)
    console.print(Text(report.signature, style="dim"), soft_wrap=True)


def print_table(table: Table, console: Console) -> None:
    """Print a table and its note. In a narrow terminal, first headings are folded, then the table is split."""
    for part in _split_to_width(table, console) if console.is_terminal else [table]:
        if part.title != table.title:
            console.print()
        rendered = rich_table(part)
        if _width(rendered, console) > console.width:
            rendered = rich_table(part, narrow=console.width)
        rendered.width = _width(rendered, console)
        if console.is_terminal:
            rendered.title = Text("\n".join(wrap(printable(part.title), console.width)))
        console.print(rendered, soft_wrap=True)
    if table.note:
        console.print(Text(table.note, style="dim"))
    console.print()


def _split_to_width(table: Table, console: Console) -> list[Table]:
    """Split a table by columns into as few parts as fit the terminal, each with the names of the rows."""
    parts: list[Table] = []
    first, count = 0, len(table.columns)
    while first < count:
        after = count
        while (
            after > first + 1
            and _width(rich_table(_columns(table, first, after), narrow=console.width), console) > console.width
        ):
            after -= 1
        parts.append(_columns(table, first, after))
        first = after
    return parts or [table]


def _columns(table: Table, first: int, after: int) -> Table:
    """Some columns of a table."""
    if (first, after) == (0, len(table.columns)):
        return table
    title = table.title if first == 0 else f"{table.title} (continued)"
    return replace(select_columns(table, range(first, after)), title=title)


def _width(rendered: RichTable, console: Console) -> int:
    return Measurement.get(console, console.options.update(max_width=WIDEST), rendered).maximum


def report_text(report: AuditReport) -> str:
    """The report as plain text."""
    out = StringIO()
    print_report(report, Console(file=out, width=PLAIN_WIDTH, no_color=True, force_terminal=False))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))


LONGEST_HEADING: Final = 28


def rich_table(table: Table, *, narrow: int | None = None) -> RichTable:
    """Convert a table for rich; if `narrow`, headings fold and names take at most half of that width."""
    rendered = RichTable(
        title=Text(printable(table.title)), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False
    )
    has_groups = any(column.group for column in table.columns)
    names = [printable(row.name) for section in table.sections for row in section.rows]
    rendered.add_column(
        Text(("\n\n" if has_groups else "\n") + table.first_column),
        max_width=min(max(map(cell_len, [table.first_column, *names])), max(narrow // 2, 12)) if narrow else None,
        overflow="fold",
    )
    last_group = ""
    for column in table.columns:
        group = [column.group if column.group != last_group else ""] if has_groups else []
        last_group = column.group
        lines = [_shorten(printable(line)) for line in (*group, column.title, column.unit)]
        rendered.add_column(Text("\n".join(lines)), justify="right")
    widths = _part_widths(table)
    for section in table.sections:
        rendered.add_section()
        if section.heading:
            rendered.add_row(Text(printable(section.heading), style="italic"))
        for row in section.rows:
            cells = (_cell(cell, column, widths) for column, cell in enumerate(row.cells))
            rendered.add_row(Text(printable(row.name), style=TRACE_TERMINAL if is_trace(row.name) else ""), *cells)
    return rendered


def _shorten(heading: str) -> str:
    """Cut the middle of a heading that is too long for a column."""
    half = LONGEST_HEADING // 2 - 1
    return heading if len(heading) <= LONGEST_HEADING else f"{heading[:half]}…{heading[-half:]}"


def _part_widths(table: Table) -> dict[tuple[int, int], int]:
    """The widest text by column and position in its cells, to align the slashes."""
    widths: dict[tuple[int, int], int] = defaultdict(int)
    for row in (row for section in table.sections for row in section.rows):
        for column, cell in enumerate(row.cells):
            for position, value in enumerate(cell if len(cell) > 1 else ()):
                widths[column, position] = max(widths[column, position], len(value.text))
    return widths


def _cell(cell: tuple[Value, ...], column: int, widths: dict[tuple[int, int], int]) -> Text:
    text = Text()
    for position, value in enumerate(cell):
        if position:
            text.append(" / ")
        if len(cell) > 1:
            text.append(" " * (widths[column, position] - len(value.text)))
        text.append(value.text, style=STYLES[value.mark])
        if value.plus_minus is not None:
            text.append(f" ±{value.plus_minus}", style="dim")
    return text


def printable(text: str) -> str:
    """Replace unprintable characters, which could move the cursor or change colours."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
