"""The mapping file: which column is which field, and what its values mean. Typed by a person, checked whole."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field

from trace_ves.core.errors import InputError
from trace_ves.records.record import FieldError, Flag, JsonObject, Name, Number, Record, described

if TYPE_CHECKING:
    from pathlib import Path

Format = Literal["json", "jsonl", "csv", "tsv", "parquet"]
Unit = Literal["seconds", "milliseconds", "minutes", "frames", "clock"]
AnswerKind = Literal["letter", "index", "number", "text"]

BENCH_KEYS = frozenset({"id", "video", "duration", "family", "question", "options", "answer", "evidence"})
CONSTANTS = frozenset({"video", "duration", "family", "question", "options", "answer"})
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
    """Where the rows stand in a JSON file: `data[]`, `videos[].clips[]`, or `{}` for the values of an object, whose key
    is `key`. What lies above a row can be named by the last word of its place: `videos.video_uid`."""
    several_rows: Flag = False
    """Rows with one id are one question: their evidence is put together, and everything else must agree."""
    id: Name
    video: Name | None = None
    """The name of the video; folders in it are dropped, and `.mp4` is added where it has no ending."""
    question: Name | None = None
    options: Name | tuple[Name, ...] | None = None
    """One field with a list, or a field for each option; empty ones are left out."""
    options_separator: Name | None = None
    """What stands between the options where they are one text."""
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
    keep: tuple[Name, ...] = ()
    """Fields that stay in the bench under their own names."""
    constants: JsonObject = field(default_factory=dict)
    """Values that all questions share, such as a family; a dataset of moments alone has constant options."""


def read_mapping(path: Path) -> Mapping:
    """Read a mapping file; whatever is wrong with it is a sentence."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}.") from None
    known = [each.name for each in fields(Mapping)]
    if unknown := [key for key in content if key not in known]:
        raise InputError(f"{path}: {unknown[0]!r} is no key of a mapping; there are {', '.join(known)}.")
    try:
        mapping = Mapping.from_json(content)
    except FieldError as error:
        raise InputError(f"{path}: {error}.") from None
    if fault := _fault(mapping):
        raise InputError(f"{path}: {fault}.")
    return mapping


def _fault(mapping: Mapping) -> str | None:
    """The first thing that does not fit together in a mapping, as a clause."""
    return next((fault for rule in _RULES if (fault := rule(mapping)) is not None), None)


def _needed(mapping: Mapping) -> str | None:
    for name in ("video", "question", "options", "answer"):
        if (getattr(mapping, name) is None) == (name not in mapping.constants):
            return f"say where {name!r} stands, either with {name} = … or once for all rows under [constants]"
    return None


def _names(mapping: Mapping) -> str | None:
    if unknown := sorted(set(mapping.constants) - CONSTANTS):
        return f"[constants] has {unknown[0]!r}; there are {', '.join(sorted(CONSTANTS))}"
    if taken := [path for path in mapping.keep if path.rpartition(".")[2] in BENCH_KEYS]:
        return f"{taken[0]!r} cannot be kept: that is the name of a field of the bench"
    return None


def _times(mapping: Mapping) -> str | None:
    if (mapping.evidence_start is None) != (mapping.evidence_end is None):
        return "'evidence_start' and 'evidence_end' belong together"
    has_evidence = mapping.evidence is not None or mapping.evidence_start is not None
    if has_evidence and mapping.duration is None and "duration" not in mapping.constants:
        return "a question with evidence needs the 'duration' of its video"
    units = {mapping.duration_unit, mapping.evidence_unit if has_evidence else "seconds"}
    return "'fps' is missing, and times are in frames" if "frames" in units and mapping.fps is None else None


_RULES = (_needed, _names, _times)
