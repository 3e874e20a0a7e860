"""Rows become questions as a mapping says; what is no clean question is set aside with its reason."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trace_ves.benchmarks.importing import Collector, UnreadableEvidenceError, video_path
from trace_ves.benchmarks.mapping.mapping_file import read_mapping
from trace_ves.benchmarks.mapping.rows import rows
from trace_ves.benchmarks.mapping.values import frame_rate, intervals, letter, option_list, seconds
from trace_ves.records.field_path import text_at, value_at
from trace_ves.records.record import FieldError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trace_ves.benchmarks.bench import Bench
    from trace_ves.benchmarks.mapping.mapping_file import Mapping
    from trace_ves.benchmarks.mapping.rows import Row


def read(source: Path, *, mapping_file: Path, strict: bool = False) -> Bench:
    """Read a file of annotations as its mapping says."""
    mapping = read_mapping(mapping_file)
    collector = Collector(strict, evidence_optional=mapping.dirty_evidence == "keep")
    for where, group in _groups(mapping, source):
        collector.add({}, partial(_question, mapping, group), where)
    return collector.bench(source)


def _groups(mapping: Mapping, source: Path) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each question: one, or all with its id."""
    groups: dict[str, tuple[str, list[Row]]] = {}
    for where, row in rows(mapping, source):
        try:
            name = text_at(row, mapping.id) if mapping.several_rows else where
        except FieldError:
            name = where  # it will be set aside with its reason
        groups.setdefault(name, (where, []))[1].append(row)
        if not mapping.several_rows:
            yield groups.pop(name)
    yield from groups.values()


def _question(mapping: Mapping, group: list[Row], _: Row) -> Row:
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
    """The fields of a bench line but for the evidence."""
    fixed = mapping.constants
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
        **_kept(mapping, row),
    }


def _duration(mapping: Mapping, row: Row) -> object:
    if mapping.duration is None:
        return mapping.constants.get("duration")
    value = value_at(row, mapping.duration)
    if value in (None, ""):
        return None
    fps = frame_rate(mapping, row) if mapping.duration_unit == "frames" else None
    return seconds(value, mapping.duration_unit, fps, mapping.duration)


def _kept(mapping: Mapping, row: Row) -> Row:
    """What stays under its own name, where the row has it."""
    found = {}
    for path in mapping.keep:
        value = value_at(row, path)
        if value not in (None, ""):
            found[path.rpartition(".")[2]] = value
    return found
