"""Helpers of importers: readers of annotation files, and `Collector`, which turns rows into questions."""

import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from trace_ves.benches.bench import Bench, BenchProblem, refuse_if
from trace_ves.core.errors import FormatError, InputError, MissingExtraError, wrap_os_errors
from trace_ves.core.question import LETTERS
from trace_ves.records.base import FieldError, Name, quote, validate
from trace_ves.records.item import BenchLine, DirtyEvidenceError, Item

Translate = Callable[[dict[str, object]], dict[str, object]]


class UnreadableEvidenceError(DirtyEvidenceError):
    """The evidence of an otherwise valid question cannot be parsed."""

    def __init__(self, record: dict[str, object], reason: str) -> None:
        self.record = record
        super().__init__(reason)


@dataclass(slots=True)
class Collector:
    """Collects questions, and the problems of invalid rows."""

    strict: bool = False
    evidence_optional: bool = False
    """Whether questions with invalid evidence stay in the bench without evidence, to score their answers."""
    items: list[Item] = field(default_factory=list)
    problems: list[BenchProblem] = field(default_factory=list)
    slack: list[str] = field(default_factory=list)
    _ids: set[str] = field(default_factory=set)

    def add_all(self, rows: Iterable[dict[str, object]], translate: Translate, source: Path) -> Bench:
        """Convert every row to the bench format and add it."""
        for number, row in enumerate(rows, start=1):
            self.add(row, translate, f"{source}, row {number}")
        return self.bench(source)

    def bench(self, source: Path) -> Bench:
        """The bench of all collected questions."""
        if not self.items:
            first = f" The first row: {self.problems[0].reason}." if self.problems else ""
            raise InputError(f"{source}: no usable question in this file.{first}")
        return Bench(tuple(self.items), tuple(self.problems), source, tuple(self.slack))

    def add(self, row: dict[str, object], translate: Translate, where: str) -> None:
        """Add one row."""
        record: dict[str, object] = {}
        unreadable: UnreadableEvidenceError | None = None
        try:
            try:
                record = translate(row)
            except UnreadableEvidenceError as error:
                record, unreadable = error.record, error
            name = validate(Name, record.get("id"), "id")
            if name in self._ids:
                raise FieldError("an earlier row has the same id")
            line = BenchLine.from_json(record)
            item = line.item()
            if unreadable is not None:
                raise unreadable
        except DirtyEvidenceError as error:
            self._set_aside(record, str(error), where, keep=self.evidence_optional)
        except FieldError as error:
            self._set_aside(record, str(error), where, keep=False)
        else:
            self._ids.add(name)
            self.items.append(item)
            self.slack += [name] if line.passes_an_end else []

    def _set_aside(self, record: dict[str, object], reason: str, where: str, *, keep: bool) -> None:
        problem = BenchProblem(str(record.get("id", "?")), reason, where, kept=keep)
        refuse_if(self.strict, problem)
        self.problems.append(problem)
        if keep:
            self.items.append(Item.from_json(record | {"evidence": []}))
            self._ids.add(problem.id)


def read_json(path: Path) -> object:
    """Read a JSON file."""
    with wrap_os_errors(path, "read"):
        content = path.read_bytes()
    try:
        return json.loads(content, parse_constant=lambda _: None)
    except json.JSONDecodeError as error:
        raise FormatError(f"not valid JSON: {error.msg}.", path=path, line=error.lineno) from None
    except (UnicodeDecodeError, RecursionError, ValueError):
        raise InputError(f"{path}: not a JSON file in UTF-8.") from None


def read_json_rows(path: Path) -> list[dict[str, object]]:
    """Read a JSON file that contains an array of objects."""
    content = read_json(path)
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise InputError(f"{path}: expected a JSON array of objects; is this the right file?")
    return content


def read_parquet_rows(path: Path) -> list[dict[str, object]]:
    """Read the rows of a parquet file, or of all parquet files in a folder, sorted by name."""
    try:
        # A large, optional dependency without types.
        from pyarrow import ArrowException, parquet  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("Reading parquet files", "parquet") from None
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path}: no parquet file in this folder.")
    rows: list[dict[str, object]] = []
    for file in files:
        try:
            rows += parquet.read_table(file).to_pylist()
        except (OSError, ArrowException, ValueError) as error:
            raise InputError(f"{file}: cannot be read as parquet: {str(error).splitlines()[0]}.") from None
    return rows


VIDEO_SUFFIXES: Final = frozenset({".mp4", ".mkv", ".webm", ".avi", ".mov"})


def video_path(name: object) -> str:
    """The path of a video in a bench; folders in the name are dropped."""
    last = PurePosixPath(validate(Name, name, "video").replace("\\", "/")).name
    if last in {"", ".."}:
        raise FieldError(f"{quote(name)} is not a video name")
    return f"videos/{last}" if PurePosixPath(last).suffix.lower() in VIDEO_SUFFIXES else f"videos/{last}.mp4"


def strip_letters(options: object) -> object:
    """Remove the letters of options such as `A. yes` and `(B) no`, if every option begins with its own letter."""
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        return options
    matches = [re.match(rf"\(?{letter}[.):]\s*", text) for letter, text in zip(LETTERS, options, strict=False)]
    if len(matches) < len(options) or not all(matches):
        return options
    return [text[match.end() :].strip() for match, text in zip(matches, options, strict=True) if match]


def letter_of_index(index: int, count: int) -> str:
    """Convert a 0-based option index to a letter."""
    if not 0 <= index < min(count, len(LETTERS)):
        raise FieldError(f"'answer' must be a 0-based index of one of {count} options, found {quote(index)}")
    return LETTERS[index]


def parse_places(option: str, text: str | None, names: Container[str], form: str) -> dict[str, str]:
    """Parse the value of an option, such as `id=qid,evidence=spans`, to a mapping from names to places in a file."""
    places = {}
    for part in [] if text is None else text.split(","):
        name, equals, place = (word.strip() for word in part.partition("="))
        if not equals or name not in names or not place:
            raise InputError(f"{option} {part.strip()!r}: write {form}.")
        places[name] = place
    return places


def clock_seconds(clock: str) -> float:
    """Convert `mm:ss` or `h:mm:ss`, with or without a fraction, to seconds."""
    total = 0.0
    for part in clock.split(":"):
        total = total * 60 + float(part)
    return total


def pick(row: Mapping[str, object], keys: Sequence[str]) -> dict[str, object]:
    """The entries of a row with these keys, except empty ones."""
    return {key: row[key] for key in keys if row.get(key) not in (None, "")}
