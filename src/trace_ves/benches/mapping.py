"""Any annotations as a bench: a mapping file says where each field of a question is in your table."""

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
    bare_options,
    clock_seconds,
    letter_of_index,
    read_json,
    read_parquet_rows,
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
    described,
    shown,
    text_at,
    value_at,
)

if TYPE_CHECKING:
    from trace_ves.benches.bench import Bench


Row = dict[str, object]


Format = Literal["json", "jsonl", "csv", "tsv", "parquet"]
Unit = Literal["seconds", "milliseconds", "minutes", "frames", "clock"]
AnswerKind = Literal["letter", "index", "number", "text", "open"]

BENCH_KEYS: Final = frozenset({"id", "video", "duration", "family", "question", "options", "answer", "evidence"})
CONSTANTS: Final = BENCH_KEYS - {"id", "evidence"}
"""Fields of a question that a mapping may give one value for all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping(Record):
    """A mapping from the rows of a foreign file to questions.

    A field is named by a path (`qid`, `doc.qid`, `turns.0.text`) or, for id, video and question, put together by a
    template (`{video_id}_{qid}`).
    """

    __pydantic_config__ = ConfigDict(allow_inf_nan=False, extra="forbid", json_schema_extra=described)

    format: Format | None = None
    """What the file is; by its ending where this is absent."""
    rows: str = ""
    """Where the rows are in a JSON file: `data[]`, `videos[].clips[]`, or `{}` for the values of an object, whose key
    is `key`. What lies above a row has the last word of its place (`videos.video_uid`), or `parent` where it has none
    (`[].questions[]`, `{}.location{}`); its own key is `parent.key`. A row that is not an object is `value`."""
    several_rows: Flag = False
    """Rows with one id are one question: their evidence is put together, and everything else must agree."""
    id: Name
    video: Name | None = None
    """The name of the video; folders in it are dropped, and `.mp4` is added where it has no ending."""
    question: Name | None = None
    options: Name | tuple[Name, ...] | None = None
    """One field with a list, or a field for each option; empty ones are left out."""
    options_separator: Name | None = None
    """The separator between options given as one text."""
    answer: Name | None = None
    answer_is: AnswerKind = "letter"
    """`letter` A; `index` counts from 0; `number` counts from 1; `text` has the words of an option."""
    family: Name | None = None
    duration: Name | None = None
    duration_unit: Unit = "seconds"
    evidence: Name | None = None
    """A field with intervals: pairs, objects, a single pair, `1:05-1:20`, or JSON text of these."""
    evidence_start: Name | None = None
    """Without `evidence`, the field where a row's one interval starts; with it, the key in each object."""
    evidence_end: Name | None = None
    evidence_unit: Unit = "seconds"
    """Frame n is shown at n / fps seconds; `clock` is h:mm:ss or mm:ss, with fractions."""
    fps: Annotated[Number, Field(gt=0)] | Name | None = None
    """Frames in a second where a unit is frames: a number, or the field that has it."""
    dirty_evidence: Literal["leave-out", "keep"] = "leave-out"
    """Whether a question whose evidence is reversed or beyond its video goes, or stays without evidence."""
    duration_class: Name | None = None
    """The duration class of the video in words, such as short; results are reported by it."""
    question_group: Name | None = None
    """What questions have in common that count as right only together."""
    accepted: Name | None = None
    """Other wordings of an open answer that are right."""
    keep: tuple[Name, ...] = ()
    """Fields that stay in the bench under their own names, or under another as `category=topic_category`."""
    guess: str = ""
    """What the mapping assumes about a format that its author has not seen; `trace-ves import` prints it."""
    constants: JsonObject = field(default_factory=dict)
    """Values that all questions share, such as a family; a dataset of moments has constant options."""


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
    if fault := _fault(mapping):
        raise InputError(f"{path}: {fault}.")
    return mapping


def _fault(mapping: Mapping) -> str | None:
    """The first contradiction in a mapping, as a clause."""
    for name in ("video", "question", *(("options",) if mapping.answer_is != "open" else ()), "answer"):
        if (getattr(mapping, name) is None) == (name not in mapping.constants):
            return f"say where {name!r} is, either with {name} = … or once for all rows under [constants]"
    if unknown := sorted(set(mapping.constants) - CONSTANTS):
        return f"[constants] has {unknown[0]!r}; there are {', '.join(sorted(CONSTANTS))}"
    if taken := [path for path in mapping.keep if _kept_name(path) in BENCH_KEYS]:
        return f"{taken[0]!r} is a field of the bench and cannot be used as a name; choose another"
    if (mapping.evidence_start is None) != (mapping.evidence_end is None):
        return "'evidence_start' and 'evidence_end' belong together"
    has_evidence = mapping.evidence is not None or mapping.evidence_start is not None
    if has_evidence and mapping.duration is None and "duration" not in mapping.constants:
        return "a question with evidence needs the 'duration' of its video"
    units = {mapping.duration_unit, mapping.evidence_unit if has_evidence else "seconds"}
    return "'fps' is missing, and times are in frames" if "frames" in units and mapping.fps is None else None


def read(source: Path, *, mapping_file: Path, strict: bool = False, **places: Any) -> Bench:
    """Read a file of annotations as its mapping says, except for fields whose place is given."""
    mapping = replace(read_mapping(mapping_file), **places)
    collector = Collector(strict, evidence_optional=mapping.dirty_evidence == "keep")
    for where, group in _groups(mapping, source):
        collector.add({}, partial(translate, mapping, group), where)
    return replace(collector.bench(source), guess=mapping.guess)


def _groups(mapping: Mapping, source: Path) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each question: one, or all with its id."""
    groups: dict[str, tuple[str, list[Row]]] = {}
    for where, row in read_rows(mapping, source):
        try:
            name = text_at(row, mapping.id) if mapping.several_rows else where
        except FieldError:
            name = where  # it will be set aside with its reason
        groups.setdefault(name, (where, []))[1].append(row)
        if not mapping.several_rows:
            yield groups.pop(name)
    yield from groups.values()


def translate(mapping: Mapping, group: list[Row], _: Row) -> Row:
    """The fields of a bench line from all rows of one question; their evidence is put together, each interval once."""
    first, *others = (_fields(mapping, row) for row in group)
    for other in others:
        for key in sorted(first.keys() | other.keys()):
            if first.get(key) != other.get(key):
                raise FieldError(f"its rows differ in {key!r}: {shown(first.get(key))} and {shown(other.get(key))}")
    try:
        evidence = {tuple(interval): interval for row in group for interval in intervals(mapping, row)}
    except FieldError as error:
        raise UnreadableEvidenceError(first, str(error)) from None
    return first | {"evidence": list(evidence.values())}


def _fields(mapping: Mapping, row: Row) -> Row:
    """The fields of a bench line, except the evidence."""
    fixed = mapping.constants
    is_open = mapping.answer_is == "open"
    named = {"duration_group": mapping.duration_class, "question_group": mapping.question_group}
    more: Row = {key: text_at(row, path) for key, path in named.items() if path is not None}
    for path in mapping.keep:
        with suppress(FieldError):  # a row may lack it
            more[_kept_name(path)] = value_at(row, path.rpartition("=")[2])
    if is_open:
        options: object = []
        accepted = from_json_text(value_at(row, mapping.accepted)) if mapping.accepted else []
        more["accepted"] = accepted if isinstance(accepted, list) else [accepted]
    else:
        options = fixed["options"] if mapping.options is None else option_list(mapping, row)
    return {
        "id": text_at(row, mapping.id),
        "video": video_path(fixed["video"] if mapping.video is None else text_at(row, mapping.video)),
        "duration": _duration(mapping, row),
        "family": fixed.get("family", "") if mapping.family is None else text_at(row, mapping.family),
        "question": fixed["question"] if mapping.question is None else text_at(row, mapping.question),
        "options": options,
        "answer": fixed["answer"] if mapping.answer is None else letter(mapping, row, options),
        "evidence": [],
        **{key: value for key, value in more.items() if value not in (None, "")},
    }


def _kept_name(path: str) -> str:
    """The name of a field that stays: the one before the equals sign, else the last word of its path."""
    name, equals, _ = path.rpartition("=")
    return name if equals else path.rpartition(".")[2]


def read_rows(mapping: Mapping, source: Path) -> Iterator[tuple[str, Row]]:
    """Every row and where it is in the file."""
    kind = mapping.format or ("parquet" if source.is_dir() else source.suffix.lower().removeprefix("."))
    if kind not in get_args(Format):
        raise InputError(f'{source}: say what it is in the mapping: format = "json", jsonl, csv, tsv or parquet.')
    if kind == "jsonl":
        for line in read_jsonl(source):
            where = f"{source}:{line.number}"
            for row in _rows_at(line.record, mapping.rows, where):
                yield where, row
        return
    found: Iterable[Row]
    if kind == "json":
        content = read_json(source)
        found = _rows_at(content, mapping.rows or ("[]" if isinstance(content, list) else ""), str(source))
    elif kind == "parquet":
        found = read_parquet_rows(source)
    else:
        found = read_csv(source, "\t" if kind == "tsv" else ",")
    for number, row in enumerate(found, start=1):
        yield f"{source}, row {number}", row


def _rows_at(content: object, place: str, where: str) -> Iterator[Row]:
    """The rows at a place such as `videos[].clips[]`; each knows what lies above it, under the name of its array."""
    steps = [step for step in re.split(r"(?<=[\]}])\.", place) if step]
    try:
        yield from _descend(content, steps, {})
    except FieldError as error:
        raise InputError(f"{where}: {error}; say where the rows are in the mapping, with rows = ….") from None


def _descend(content: object, steps: list[str], above: Row) -> Iterator[Row]:
    if not steps:
        if not above and not isinstance(content, dict):
            raise FieldError(f"a row must be an object, found {shown(content)}")
        yield content | above if isinstance(content, dict) else {"value": content} | above
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
        known = above | of_key
        if len(steps) > 1:
            known |= {word or "parent": entry | of_key if isinstance(entry, dict) else entry}
        yield from _descend(entry, steps[1:], known)


def _entries(inner: object, kind: str) -> Iterable[tuple[object, object]]:
    """The entries of an array or an object; none if it is missing."""
    if inner is None:
        return ()
    if kind == "[]" and isinstance(inner, list):
        return enumerate(inner)
    if kind == "{}" and isinstance(inner, dict):
        return inner.items()
    raise FieldError(f"expected {'an array' if kind == '[]' else 'an object'}, found {shown(inner)}")


SCALE: Final = {"seconds": 1.0, "milliseconds": 0.001, "minutes": 60.0}
_CLOCK: Final = re.compile(r"(?:\d{1,4}:)?\d{1,4}:\d{1,2}(?:\.\d{1,9})?")


def seconds(value: object, unit: Unit, fps: float | None, key: str) -> float:
    """Convert a time to seconds."""
    if unit == "clock":
        if not isinstance(value, str) or not _CLOCK.fullmatch(value.strip()):
            raise FieldError(f"{key!r} must be a time such as 1:05 or 0:01:05.2, found {shown(value)}")
        return clock_seconds(value.strip())
    found = number(value, key)
    return found / fps if unit == "frames" and fps else found * SCALE.get(unit, 1.0)


def number(value: object, key: str) -> float:
    """A finite number, also as text."""
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError
        found = float(value)
    except (ValueError, OverflowError):
        raise FieldError(f"{key!r} must be a number, found {shown(value)}") from None
    if not math.isfinite(found):
        raise FieldError(f"{key!r} must be a finite number, found {shown(value)}")
    return found


def frame_rate(mapping: Mapping, row: Row) -> float | None:
    """Frames per second, if the mapping states it."""
    if not isinstance(mapping.fps, str):
        return mapping.fps
    rate = number(value_at(row, mapping.fps), mapping.fps)
    if rate <= 0:
        raise FieldError(f"{mapping.fps!r} must be more than 0, found {shown(rate)}")
    return rate


def intervals(mapping: Mapping, row: Row) -> list[list[float]]:
    """The evidence intervals of one row, in seconds."""
    fps = frame_rate(mapping, row) if mapping.evidence_unit == "frames" else None

    def pair(ends: tuple[object, object]) -> list[float]:
        return [seconds(end, mapping.evidence_unit, fps, mapping.evidence or "evidence") for end in ends]

    if mapping.evidence is None:
        if mapping.evidence_start is None or mapping.evidence_end is None:
            return []
        ends = value_at(row, mapping.evidence_start), value_at(row, mapping.evidence_end)
        return [] if all(end in (None, "") for end in ends) else [pair(ends)]
    value = from_json_text(value_at(row, mapping.evidence))
    if value in (None, "", []):
        return []
    single = isinstance(value, (str, dict)) or (isinstance(value, list) and not isinstance(value[0], (list, dict, str)))
    if isinstance(value, list) and len(value) == 2 and all(isinstance(end, str) for end in value):
        single = "-" not in value[0]  # two times, not two intervals
    return [pair(_ends(mapping, each)) for each in ([value] if single or not isinstance(value, list) else value)]


def _ends(mapping: Mapping, interval: object) -> tuple[object, object]:
    """The two ends of an interval in any of its forms."""
    if isinstance(interval, dict):
        keys = (mapping.evidence_start or "start", mapping.evidence_end or "end")
        return value_at(interval, keys[0]), value_at(interval, keys[1])
    if isinstance(interval, str):
        first, dash, last = interval.partition("-")
        if dash:
            return first, last
    if isinstance(interval, list) and len(interval) == 2:
        return interval[0], interval[1]
    raise FieldError(f"an evidence interval needs a start and an end, found {shown(interval)}")


def option_list(mapping: Mapping, row: Row) -> object:
    """The options of a row without their letters."""
    if isinstance(mapping.options, tuple):
        found = [value_at(row, name) for name in mapping.options]
        return bare_options([_words(each) for each in found if each not in (None, "")])
    value = value_at(row, mapping.options or "options")
    if isinstance(value, str) and mapping.options_separator:
        value = [part.strip() for part in value.split(mapping.options_separator)]
    value = from_json_text(value)
    if isinstance(value, dict):  # {"A": "…", "B": "…"}
        value = [value[key] for key in sorted(value)]
    return bare_options([_words(each) for each in value]) if isinstance(value, list) else value


def _words(value: object) -> object:
    """A number as the words of an option; anything else as it is."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def letter(mapping: Mapping, row: Row, options: object) -> object:
    """The letter of the right option, as `answer_is` says."""
    value = value_at(row, mapping.answer or "answer")
    if not isinstance(options, list) or mapping.answer_is == "open":
        return _words(value)
    if mapping.answer_is == "letter":
        match = re.fullmatch(r"\W*([A-Za-z])\W*", value) if isinstance(value, str) else None
        return match[1].upper() if match else value
    if mapping.answer_is == "text":
        words = _words(value)
        if options.count(words) != 1:
            raise FieldError(f"the answer {shown(value)} is not exactly one of the options")
        return letter_of_index(options.index(words), len(options))
    place = number(value, "answer")
    if not place.is_integer():
        raise FieldError(f"'answer' must be a whole number, found {shown(value)}")
    return letter_of_index(int(place) - (mapping.answer_is == "number"), len(options))


def from_json_text(value: object) -> object:
    """A list or object in a column of text; other text stays text."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        found: object = json.loads(value)
    except (ValueError, RecursionError):
        raise FieldError(f"expected a list, found the text {shown(value)}") from None
    return found


def _duration(mapping: Mapping, row: Row) -> object:
    if mapping.duration is None:
        return mapping.constants.get("duration")
    value = value_at(row, mapping.duration)
    if value in (None, ""):
        return None
    fps = frame_rate(mapping, row) if mapping.duration_unit == "frames" else None
    return seconds(value, mapping.duration_unit, fps, mapping.duration)
