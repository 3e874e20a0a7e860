"""Tables as plain values: columns, sections, cells and marks, independent of metrics and of output formats."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from typing import Final

MISSING: Final = "--"


class ValueMark(Enum):
    """The rank of a value in its column."""

    PLAIN = "plain"
    BEST = "best"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class Value:
    """One formatted number of a cell."""

    text: str
    plus_minus: str | None = None  # half of its 95% interval
    mark: ValueMark = ValueMark.PLAIN
    ranked: bool = False  # whether `mark_best` ranks it in its column


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, its unit and its group."""

    title: str
    unit: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row; a cell has one or several values, shown as `1.0 / 2.0 / 3.0`."""

    name: str
    cells: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Rows under one heading; an empty heading is not shown."""

    heading: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table, ready to render."""

    key: str
    title: str
    columns: tuple[Column, ...]
    sections: tuple[Section, ...]
    note: str = ""
    first_column: str = "Method"


def as_value(value: float | None, shape: Callable[[float], str] = "{:.1f}".format, half: float | None = None) -> Value:
    """Format a value; None becomes `--`."""
    if value is None:
        return Value(MISSING)
    return Value(shape(value), None if half is None else f"{half:.1f}")


def as_ranked(value: float | None, shape: Callable[[float], str] = "{:.1f}".format) -> Value:
    """Format a value that `mark_best` ranks."""
    return replace(as_value(value, shape), ranked=value is not None)


def transpose(table: Table, first_column: str) -> Table:
    """Swap rows and columns, for a table that would be too wide."""
    rows = [row for section in table.sections for row in section.rows]
    columns = (Column("Questions"), *(Column(row.name) for row in rows))
    transposed = tuple(
        Row(column.title, ((Value(column.unit.removeprefix("n = ")),), *(row.cells[index] for row in rows)))
        for index, column in enumerate(table.columns)
    )
    return replace(table, first_column=first_column, columns=columns, sections=(Section("", transposed),))


def select_columns(table: Table, places: Sequence[int]) -> Table:
    """Keep only the columns at these positions."""
    sections = tuple(
        replace(section, rows=tuple(replace(row, cells=tuple(row.cells[at] for at in places)) for row in section.rows))
        for section in table.sections
    )
    return replace(table, columns=tuple(table.columns[at] for at in places), sections=sections)


def mark_best(parts: tuple[Section, ...]) -> tuple[Section, ...]:
    """Mark the best and second-best ranked value of every column."""
    values_at: dict[tuple[int, int], list[float]] = defaultdict(list)
    for section in parts:
        for row in section.rows:
            for column, cell in enumerate(row.cells):
                for position, value in enumerate(cell):
                    if value.ranked:
                        values_at[column, position].append(float(value.text))
    marks = {place: _marks(values) for place, values in values_at.items()}

    def mark(column: int, cell: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(
            replace(value, mark=marks[column, at].get(float(value.text), value.mark)) if value.ranked else value
            for at, value in enumerate(cell)
        )

    marked = ([replace(row, cells=tuple(map(mark, count(), row.cells))) for row in part.rows] for part in parts)
    return tuple(replace(part, rows=tuple(rows)) for part, rows in zip(parts, marked, strict=True))


def _marks(values: Sequence[float]) -> dict[float, ValueMark]:
    """The marks of the best and second-best value; none if all values are equal."""
    best, *others = sorted(set(values), reverse=True)
    if not others:
        return {}
    second = {others[0]: ValueMark.SECOND} if len(values) > 2 else {}
    return {best: ValueMark.BEST} | second
