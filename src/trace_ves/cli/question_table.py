"""A table of questions about one video, CSV or JSON lines, and tables of answers, printed or as CSV."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Final

from trace_ves.core import FormatError, InputError, Question
from trace_ves.core.jsonl import read_jsonl
from trace_ves.core.question import LETTERS
from trace_ves.runs.asking import make_question

SEPARATOR: Final = "|"  # between the options of one cell
_FORMULA: Final = ("=", "+", "@", "\t", "\r")  # a spreadsheet reads a cell that starts with one as a formula


@dataclass(frozen=True, slots=True)
class TableRow:
    """One question and its row."""

    question: Question
    cells: Mapping[str, str] = field(default_factory=dict)  # the original row, written next to the answer


def read_questions(file: Path, video: str) -> list[TableRow]:
    """Read the questions of a table about one video; a bad row is a `FormatError`.

    The column `id` is optional; its default is the row's number. Options are in a column `options`, separated by bars,
    or in columns A, B, C, …; a question without options is open.
    """
    if file.suffix.lower() in {".jsonl", ".ndjson"}:
        lines: Iterator[tuple[int, Mapping[str, object]]] = ((line.number, line.record) for line in read_jsonl(file))
    else:
        lines = _csv_rows(file)
    rows: dict[str, TableRow] = {}
    for number, (line, cells) in enumerate(lines, 1):
        try:
            if None in cells:
                raise InputError(
                    "the row has more cells than the header; put quotes around a cell that contains a separator."
                )
            name = str(cells.get("id") or number).strip() or str(number)
            if name in rows:
                raise InputError(f"the id {name!r} appears twice; ids must be unique.")
            question = make_question(video, _text(cells, "question"), _options(cells))
        except InputError as error:
            raise FormatError(str(error), path=file, line=line) from None
        plain = {key: str(value) for key, value in cells.items() if isinstance(value, str | int | float)}
        rows[name] = TableRow(Question(name, video, question.text, question.options), plain)
    if not rows:
        raise InputError(f"{file}: the table has no questions.")
    return list(rows.values())


def _csv_rows(file: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield each row with its line number; the separator is the one most frequent in the header."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            header = stream.readline()
            stream.seek(0)
            reader = csv.DictReader(stream, delimiter=max(",;\t", key=header.count), strict=True)
            if "question" not in (reader.fieldnames or ()):
                raise FormatError(
                    "the first row must name the columns: `question`, and optionally `id` and `options` "
                    f"(separated by {SEPARATOR}), or A, B, C, ….",
                    path=file,
                    line=1,
                )
            for row in reader:
                yield reader.line_num, {key: value or "" for key, value in row.items()}
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: not UTF-8 text; save the table as CSV UTF-8.") from None
    except csv.Error as error:
        raise FormatError(f"not a row of CSV ({error}).", path=file) from None


def _text(cells: Mapping[str, object], key: str) -> str:
    value = cells.get(key, "")
    if not isinstance(value, str):
        raise InputError(f"the key {key!r} must be a string.")
    return value


def _options(cells: Mapping[str, object]) -> tuple[str, ...]:
    cell = cells.get("options")
    if isinstance(cell, list) and all(isinstance(each, str) for each in cell):
        return tuple(cell)
    if isinstance(cell, str) and cell.strip():
        return tuple(cell.split(SEPARATOR))
    if cell not in (None, ""):
        raise InputError("the key 'options' must be a list of strings.")
    lettered = [_text(cells, letter) for letter in LETTERS if letter in cells]
    while lettered and not lettered[-1].strip():
        lettered.pop()  # rows may have fewer options than the table has columns
    return tuple(lettered)


def print_rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table as wide as the terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from trace_ves.cli.progress import output_console

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in header:
        table.add_column(name, overflow="fold", justify="left" if name else "right")
    for row in rows:
        table.add_row(*(Text(" ".join(cell.split())) for cell in row))
    output_console(160).print(table)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a CSV file; cells that a spreadsheet would read as formulas are marked as text."""
    from trace_ves.core.files import write_output

    out = StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, lineterminator="\n", restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {name: f"'{value}" if str(value).startswith(_FORMULA) else value for name, value in row.items()}
        )
    write_output(path, out.getvalue())
