"""Mapping files, which describe where the fields of a question are in an annotation file."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

from pydantic import ConfigDict, Field

from trace_ves.benches.importing import (
    Collector,
    UnreadableEvidenceError,
    clock_seconds,
    letter_of_index,
    read_json,
    read_parquet_rows,
    strip_letters,
    video_path,
)
from trace_ves.core.errors import InputError, wrap_os_errors
from trace_ves.core.files import read_csv
from trace_ves.core.jsonl import read_jsonl
from trace_ves.records.base import (
    FieldError,
    Flag,
    JsonObject,
    Name,
    Number,
    Record,
    add_description,
    get_text,
    get_value,
    quote,
)

if TYPE_CHECKING:
    from trace_ves.benches.bench import Bench


Row = dict[str, object]


Format = Literal["json", "jsonl", "csv", "tsv", "parquet"]
Unit = Literal["seconds", "milliseconds", "minutes", "frames", "clock"]
AnswerKind = Literal["letter", "index", "number", "text", "open"]

BENCH_KEYS: Final = frozenset({"id", "video", "duration", "family", "question", "options", "answer", "evidence"})
CONSTANTS: Final = BENCH_KEYS - {"id", "evidence"}
"""Fields of a question that a mapping may set once for all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping(Record):
    """A mapping from the rows of an annotation file to questions.

    A field is a path (`qid`, `doc.qid`, `turns.0.text`) or, for id, video and question, a template
    (`{video_id}_{qid}`).
    """

    __pydantic_config__ = ConfigDict(allow_inf_nan=False, extra="forbid", json_schema_extra=add_description)

    format: Format | None = None
    """The format of the file; the default follows its suffix."""
    rows: str = ""
    """Where the rows are in a JSON file: `data[]`, `videos[].clips[]`, or `{}` for the values of an object, whose keys
    are then in `key`. Fields of an enclosing object are named after its array (`videos.video_uid`), or `parent` if that
    has no name (`[].questions[]`, `{}.location{}`); its key is `parent.key`. A row that is not an object is `value`."""
    several_rows: Flag = False
    """Whether rows with the same id are one question: their evidence is joined, and all other fields must agree."""
    id: Name
    video: Name | None = None
    """The name of the video; folders in it are dropped, and `.mp4` is added if it has no suffix."""
    question: Name | None = None
    options: Name | tuple[Name, ...] | None = None
    """One field with a list, or one field for each option; empty options are left out."""
    options_separator: Name | None = None
    """The separator of options in a single text."""
    answer: Name | None = None
    answer_is: AnswerKind = "letter"
    """`letter` is A; `index` counts from 0; `number` counts from 1; `text` is the text of an option."""
    family: Name | None = None
    duration: Name | None = None
    duration_unit: Unit = "seconds"
    evidence: Name | None = None
    """A field with intervals: pairs, objects, a single pair, `1:05-1:20`, or JSON text of these."""
    evidence_start: Name | None = None
    """Without `evidence`, the field with the start of the row's only interval; with it, the key in each object."""
    evidence_end: Name | None = None
    evidence_unit: Unit = "seconds"
    """The unit of evidence: frame n is at n / fps seconds; `clock` is h:mm:ss or mm:ss, with fractions."""
    fps: Annotated[Number, Field(gt=0)] | Name | None = None
    """Frames per second, if a unit is frames: a number, or the field that contains it."""
    dirty_evidence: Literal["leave-out", "keep"] = "leave-out"
    """Whether a question with reversed evidence, or evidence beyond its video, is left out or kept without evidence."""
    duration_class: Name | None = None
    """The duration class of the video, such as short; results are also reported by class."""
    question_group: Name | None = None
    """The group of the question; a group counts as right only if all its questions are right."""
    accepted: Name | None = None
    """Other accepted wordings of an open answer."""
    keep: tuple[Name, ...] = ()
    """Fields to copy to the bench, under their own names or another (`category=topic_category`)."""
    guess: str = ""
    """What the mapping assumes about an unpublished format; `trace-ves import` prints it."""
    constants: JsonObject = field(default_factory=dict)
    """Values that all questions share, such as a family."""


def read_mapping(path: Path) -> Mapping:
    """Read a mapping file; a problem is an `InputError`."""
    try:
        with wrap_os_errors(path, "read"):
            content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}.") from None
    known = [each.name for each in fields(Mapping)]
    if unknown := [key for key in content if key not in known]:
        raise InputError(f"{path}: {unknown[0]!r} is not a key of a mapping; the keys are {', '.join(known)}.")
    try:
        mapping = Mapping.from_json(content)
    except FieldError as error:
        raise InputError(f"{path}: {error}.") from None
    if problem := _find_contradiction(mapping):
        raise InputError(f"{path}: {problem}.")
    return mapping


def _find_contradiction(mapping: Mapping) -> str | None:
    """The first contradiction in a mapping, as a clause; None if there is none."""
    for name in ("video", "question", *(("options",) if mapping.answer_is != "open" else ()), "answer"):
        if (getattr(mapping, name) is None) == (name not in mapping.constants):
            return f"{name!r} is missing; set {name} = …, or a value for all rows under [constants]"
    if unknown := sorted(set(mapping.constants) - CONSTANTS):
        return f"[constants] has {unknown[0]!r}; it may have {', '.join(sorted(CONSTANTS))}"
    if reserved := [path for path in mapping.keep if _new_name(path) in BENCH_KEYS]:
        return f"{reserved[0]!r} is a field of the bench and cannot be used as a name; choose another"
    if (mapping.evidence_start is None) != (mapping.evidence_end is None):
        return "'evidence_start' and 'evidence_end' need each other"
    has_evidence = mapping.evidence is not None or mapping.evidence_start is not None
    if has_evidence and mapping.duration is None and "duration" not in mapping.constants:
        return "a question with evidence needs the 'duration' of its video"
    units = {mapping.duration_unit, mapping.evidence_unit if has_evidence else "seconds"}
    return "'fps' is missing, and times are in frames" if "frames" in units and mapping.fps is None else None


def read(source: Path, *, mapping_file: Path, strict: bool = False, **places: Any) -> Bench:
    """Read an annotation file with a mapping; `places` replaces fields of the mapping."""
    mapping = replace(read_mapping(mapping_file), **places)
    collector = Collector(strict, evidence_optional=mapping.dirty_evidence == "keep")
    for where, group in _groups(mapping, source):
        collector.add({}, partial(translate, mapping, group), where)
    return replace(collector.bench(source), guess=mapping.guess)


def _groups(mapping: Mapping, source: Path) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each question: one row, or all rows with its id."""
    groups: dict[str, tuple[str, list[Row]]] = {}
    for where, row in read_rows(mapping, source):
        try:
            name = get_text(row, mapping.id) if mapping.several_rows else where
        except FieldError:
            name = where  # the row is left out later, with a reason
        groups.setdefault(name, (where, []))[1].append(row)
        if not mapping.several_rows:
            yield groups.pop(name)
    yield from groups.values()


def translate(mapping: Mapping, group: list[Row], _: Row) -> Row:
    """Make a bench line from all rows of one question; their evidence is joined without duplicates."""
    first, *others = (_fields(mapping, row) for row in group)
    for other in others:
        for key in sorted(first.keys() | other.keys()):
            if first.get(key) != other.get(key):
                raise FieldError(f"its rows differ in {key!r}: {quote(first.get(key))} and {quote(other.get(key))}")
    try:
        evidence = {tuple(interval): interval for row in group for interval in parse_intervals(mapping, row)}
    except FieldError as error:
        raise UnreadableEvidenceError(first, str(error)) from None
    return first | {"evidence": list(evidence.values())}


def _fields(mapping: Mapping, row: Row) -> Row:
    """The fields of a bench line, except the evidence."""
    constants = mapping.constants
    is_open = mapping.answer_is == "open"
    optional = {"duration_group": mapping.duration_class, "question_group": mapping.question_group}
    extra: Row = {key: get_text(row, path) for key, path in optional.items() if path is not None}
    for path in mapping.keep:
        with suppress(FieldError):  # the field is optional
            extra[_new_name(path)] = get_value(row, path.rpartition("=")[2])
    if is_open:
        options: object = []
        accepted = parse_json_text(get_value(row, mapping.accepted)) if mapping.accepted else []
        extra["accepted"] = accepted if isinstance(accepted, list) else [accepted]
    else:
        options = constants["options"] if mapping.options is None else parse_options(mapping, row)
    return {
        "id": get_text(row, mapping.id),
        "video": video_path(constants["video"] if mapping.video is None else get_text(row, mapping.video)),
        "duration": _duration(mapping, row),
        "family": constants.get("family", "") if mapping.family is None else get_text(row, mapping.family),
        "question": constants["question"] if mapping.question is None else get_text(row, mapping.question),
        "options": options,
        "answer": constants["answer"] if mapping.answer is None else parse_answer(mapping, row, options),
        "evidence": [],
        **{key: value for key, value in extra.items() if value not in (None, "")},
    }


def _new_name(path: str) -> str:
    """The name of a field of `keep` in the bench: the one before the equals sign, else the last word of its path."""
    name, equals, _ = path.rpartition("=")
    return name if equals else path.rpartition(".")[2]


def read_rows(mapping: Mapping, source: Path) -> Iterator[tuple[str, Row]]:
    """Yield every row and its location in the file."""
    kind = mapping.format or ("parquet" if source.is_dir() else source.suffix.lower().removeprefix("."))
    if kind not in get_args(Format):
        raise InputError(f'{source}: set its format in the mapping: format = "json", jsonl, csv, tsv or parquet.')
    if kind == "jsonl":
        for line in read_jsonl(source):
            where = f"{source}:{line.number}"
            for row in _rows_at(line.record, mapping.rows, where):
                yield where, row
        return
    rows: Iterable[Row]
    if kind == "json":
        content = read_json(source)
        rows = _rows_at(content, mapping.rows or ("[]" if isinstance(content, list) else ""), str(source))
    elif kind == "parquet":
        rows = read_parquet_rows(source)
    else:
        rows = read_csv(source, "\t" if kind == "tsv" else ",")
    for number, row in enumerate(rows, start=1):
        yield f"{source}, row {number}", row


def _rows_at(content: object, place: str, where: str) -> Iterator[Row]:
    """Yield the rows at a place such as `videos[].clips[]`, with enclosing objects under the names of their arrays."""
    steps = [step for step in re.split(r"(?<=[\]}])\.", place) if step]
    try:
        yield from _descend(content, steps, {})
    except FieldError as error:
        raise InputError(f"{where}: {error}; set the place of the rows in the mapping, with rows = ….") from None


def _descend(content: object, steps: list[str], enclosing: Row) -> Iterator[Row]:
    if not steps:
        if not enclosing and not isinstance(content, dict):
            raise FieldError(f"a row must be an object, found {quote(content)}")
        yield content | enclosing if isinstance(content, dict) else {"value": content} | enclosing
        return
    match = re.fullmatch(r"([^\[\]{}]*)(\[\]|\{\})", steps[0])
    if match is None:
        raise FieldError(f"{steps[0]!r} is not a place of rows; it must end with [] or {{}}, such as videos[].clips[]")
    name, kind, inner = match[1], match[2], content
    for key in name.split(".") if name else ():
        inner = inner.get(key) if isinstance(inner, dict) else None
    word = name.rpartition(".")[2]
    for key, entry in _entries(inner, kind):
        of_key: Row = {"key": key} if kind == "{}" else {}
        fields = enclosing | of_key
        if len(steps) > 1:
            fields |= {word or "parent": entry | of_key if isinstance(entry, dict) else entry}
        yield from _descend(entry, steps[1:], fields)


def _entries(inner: object, kind: str) -> Iterable[tuple[object, object]]:
    """The entries of an array or an object; none if it is missing."""
    if inner is None:
        return ()
    if kind == "[]" and isinstance(inner, list):
        return enumerate(inner)
    if kind == "{}" and isinstance(inner, dict):
        return inner.items()
    raise FieldError(f"expected {'an array' if kind == '[]' else 'an object'}, found {quote(inner)}")


SCALE: Final = {"seconds": 1.0, "milliseconds": 0.001, "minutes": 60.0}
_CLOCK: Final = re.compile(r"(?:\d{1,4}:)?\d{1,4}:\d{1,2}(?:\.\d{1,9})?")


def to_seconds(value: object, unit: Unit, fps: float | None, key: str) -> float:
    """Convert a time to seconds."""
    if unit == "clock":
        if not isinstance(value, str) or not _CLOCK.fullmatch(value.strip()):
            raise FieldError(f"{key!r} must be a time such as 1:05 or 0:01:05.2, found {quote(value)}")
        return clock_seconds(value.strip())
    time = parse_number(value, key)
    return time / fps if unit == "frames" and fps else time * SCALE.get(unit, 1.0)


def parse_number(value: object, key: str) -> float:
    """Parse a finite number, which may be a string."""
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError
        parsed = float(value)
    except (ValueError, OverflowError):
        raise FieldError(f"{key!r} must be a number, found {quote(value)}") from None
    if not math.isfinite(parsed):
        raise FieldError(f"{key!r} must be a finite number, found {quote(value)}")
    return parsed


def frame_rate(mapping: Mapping, row: Row) -> float | None:
    """Frames per second; None if the mapping has no `fps`."""
    if not isinstance(mapping.fps, str):
        return mapping.fps
    rate = parse_number(get_value(row, mapping.fps), mapping.fps)
    if rate <= 0:
        raise FieldError(f"{mapping.fps!r} must be more than 0, found {quote(rate)}")
    return rate


def parse_intervals(mapping: Mapping, row: Row) -> list[list[float]]:
    """Parse the evidence intervals of one row, in seconds."""
    fps = frame_rate(mapping, row) if mapping.evidence_unit == "frames" else None

    def pair(ends: tuple[object, object]) -> list[float]:
        return [to_seconds(end, mapping.evidence_unit, fps, mapping.evidence or "evidence") for end in ends]

    if mapping.evidence is None:
        if mapping.evidence_start is None or mapping.evidence_end is None:
            return []
        ends = get_value(row, mapping.evidence_start), get_value(row, mapping.evidence_end)
        return [] if all(end in (None, "") for end in ends) else [pair(ends)]
    value = parse_json_text(get_value(row, mapping.evidence))
    if value in (None, "", []):
        return []
    single = isinstance(value, (str, dict)) or (isinstance(value, list) and not isinstance(value[0], (list, dict, str)))
    if isinstance(value, list) and len(value) == 2 and all(isinstance(end, str) for end in value):
        single = "-" not in value[0]  # two times, not two intervals
    return [pair(_ends(mapping, each)) for each in ([value] if single or not isinstance(value, list) else value)]


def _ends(mapping: Mapping, interval: object) -> tuple[object, object]:
    """The ends of an interval, which may be an object, a string or a pair."""
    if isinstance(interval, dict):
        keys = (mapping.evidence_start or "start", mapping.evidence_end or "end")
        return get_value(interval, keys[0]), get_value(interval, keys[1])
    if isinstance(interval, str):
        first, dash, last = interval.partition("-")
        if dash:
            return first, last
    if isinstance(interval, list) and len(interval) == 2:
        return interval[0], interval[1]
    raise FieldError(f"an evidence interval needs a start and an end, found {quote(interval)}")


def parse_options(mapping: Mapping, row: Row) -> object:
    """Parse the options of a row, without letters."""
    if isinstance(mapping.options, tuple):
        values = [get_value(row, name) for name in mapping.options]
        return strip_letters([_text(each) for each in values if each not in (None, "")])
    value = get_value(row, mapping.options or "options")
    if isinstance(value, str) and mapping.options_separator:
        value = [part.strip() for part in value.split(mapping.options_separator)]
    value = parse_json_text(value)
    if isinstance(value, dict):  # {"A": "…", "B": "…"}
        value = [value[key] for key in sorted(value)]
    return strip_letters([_text(each) for each in value]) if isinstance(value, list) else value


def _text(value: object) -> object:
    """Convert a number to text; other values stay."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def parse_answer(mapping: Mapping, row: Row, options: object) -> object:
    """The letter of the right option, by `answer_is`."""
    value = get_value(row, mapping.answer or "answer")
    if not isinstance(options, list) or mapping.answer_is == "open":
        return _text(value)
    if mapping.answer_is == "letter":
        match = re.fullmatch(r"\W*([A-Za-z])\W*", value) if isinstance(value, str) else None
        return match[1].upper() if match else value
    if mapping.answer_is == "text":
        text = _text(value)
        if options.count(text) != 1:
            raise FieldError(f"the answer {quote(value)} is not exactly one of the options")
        return letter_of_index(options.index(text), len(options))
    place = parse_number(value, "answer")
    if not place.is_integer():
        raise FieldError(f"'answer' must be a whole number, found {quote(value)}")
    return letter_of_index(int(place) - (mapping.answer_is == "number"), len(options))


def parse_json_text(value: object) -> object:
    """Parse a list or object stored as JSON text; other values stay."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        parsed: object = json.loads(value)
    except (ValueError, RecursionError):
        raise FieldError(f"expected a list, found the text {quote(value)}") from None
    return parsed


def _duration(mapping: Mapping, row: Row) -> object:
    if mapping.duration is None:
        return mapping.constants.get("duration")
    value = get_value(row, mapping.duration)
    if value in (None, ""):
        return None
    fps = frame_rate(mapping, row) if mapping.duration_unit == "frames" else None
    return to_seconds(value, mapping.duration_unit, fps, mapping.duration)
