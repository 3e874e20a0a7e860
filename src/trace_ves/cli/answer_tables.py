"""Many answers as a table: on a terminal, and as CSV that a spreadsheet can open without running anything."""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from trace_ves.answers.words import clock
from trace_ves.cli.ranking import WORDS, evidence_of
from trace_ves.core import Termination

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from trace_ves.cli.question_table import TableRow
    from trace_ves.cli.ranking import Ranked
    from trace_ves.records import Prediction

_FORMULA: Final = ("=", "+", "@", "\t", "\r")
"""What a spreadsheet would take for a formula, at the beginning of a cell."""


def print_answers(rows: Sequence[TableRow], lines: Mapping[str, Prediction]) -> None:
    """The rows of a table that are answered, each with its answer."""
    answered = [(row.question, lines[row.question.id]) for row in rows if row.question.id in lines]
    _print_rows(
        ("", "Question", "Answer", "Settled", "Where"),
        [(asked.id, asked.text, _answer(line), _settled(line), _where(line)) for asked, line in answered],
    )


def print_ranking(ranked: Sequence[Ranked]) -> None:
    """The videos in their order, with the places where it was found."""
    _print_rows(
        ("", "Video", "Found", "Answer", "Where"),
        [
            (str(place), row.video, WORDS[row.found], _answer(row.line), _where(row.line) if row.is_found else "")
            for place, row in enumerate(ranked, 1)
        ],
    )


def write_answers(path: Path, rows: Sequence[TableRow], lines: Mapping[str, Prediction]) -> None:
    """The columns that the table had, and the answers beside them."""
    answered = [(row, lines[row.question.id]) for row in rows if row.question.id in lines]
    _write_table(path, [{**row.cells, "id": row.question.id, **_cells(line)} for row, line in answered])


def write_ranking(path: Path, ranked: Sequence[Ranked]) -> None:
    """The ranking, a row for each video."""
    rows = [{"video": row.video, "found": WORDS[row.found]} | _cells(row.line) for row in ranked]
    _write_table(path, [{"rank": place} | cells for place, cells in enumerate(rows, 1)])


def _answer(line: Prediction) -> str:
    if line.error is not None:
        return f"error: {line.error}"
    text = line.extra.get("text")
    letter = f"{line.answer}. " if line.extra.get("options") and line.answer else ""
    return f"{letter}{text}" if isinstance(text, str) else "no answer"


def _settled(line: Prediction) -> str:
    return "yes" if line.termination == Termination.STABLE_PREFIX_FOUND else "no"


def _where(line: Prediction) -> str:
    return ", ".join(f"{clock(span.start)}-{clock(span.end)}" for span in evidence_of(line))


def _print_rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in header:
        table.add_column(name, overflow="fold", justify="left" if name else "right")
    for row in rows:
        table.add_row(*(Text(" ".join(cell.split())) for cell in row))
    console = Console()
    (console if console.is_terminal else Console(width=160)).print(table)


def _cells(line: Prediction) -> dict[str, Any]:
    return {
        "answer": line.answer or "",
        "text": line.extra.get("text") or "",
        "settled": _settled(line),
        "evidence": "; ".join(f"{span.start:.2f}-{span.end:.2f}" for span in evidence_of(line)),
        "frames": line.frames_supplied,
        "error": line.error or "",
    }


def _write_table(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    from trace_ves.core.outputs import write_output

    out = StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    write_output(path, out.getvalue())


def _cell(value: object) -> object:
    """A model's words that a spreadsheet would run as a formula are marked as text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
