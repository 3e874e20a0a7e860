"""The rows of a foreign file, one object each, wherever in it they stand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from trace_ves.benchmarks.importing import read_json, read_parquet_rows
from trace_ves.core.csv_table import read_csv
from trace_ves.core.errors import InputError
from trace_ves.core.jsonl import read_jsonl
from trace_ves.records.record import FieldError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from trace_ves.benchmarks.mapping.mapping_file import Mapping

    Row = dict[str, object]

ENDINGS: Final = {".json": "json", ".jsonl": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}


def rows(mapping: Mapping, source: Path) -> Iterator[tuple[str, Row]]:
    """Every row, with the words for where it stands."""
    kind = mapping.format or ENDINGS.get(source.suffix.lower()) or ("parquet" if source.is_dir() else None)
    if kind is None:
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
        for row in _descend(content, steps, {}):
            if not isinstance(row, dict):
                raise FieldError(f"a row must be an object, found {shown(row)}")
            yield row
    except FieldError as error:
        raise InputError(f"{where}: {error}; say where the rows stand in the mapping, with rows = ….") from None


def _descend(content: object, steps: list[str], above: Row) -> Iterator[object]:
    if not steps:
        yield content | above if isinstance(content, dict) else content
        return
    match = re.fullmatch(r"([^\[\]{}]*)(\[\]|\{\})", steps[0])
    if match is None:
        raise FieldError(f"{steps[0]!r} is no place of rows, which ends with [] or {{}}, such as videos[].clips[]")
    name, kind, inner = match[1], match[2], content
    for key in name.split(".") if name else ():
        inner = inner.get(key) if isinstance(inner, dict) else None
    word = name.rpartition(".")[2]
    for key, entry in _entries(inner, kind):
        known = above | ({word: entry} if word and len(steps) > 1 else {}) | ({"key": key} if kind == "{}" else {})
        yield from _descend(entry, steps[1:], known)


def _entries(inner: object, kind: str) -> Iterable[tuple[object, object]]:
    """The entries of an array or an object; what lacks its array has none."""
    if inner is None:
        return ()
    if kind == "[]" and isinstance(inner, list):
        return enumerate(inner)
    if kind == "{}" and isinstance(inner, dict):
        return inner.items()
    raise FieldError(f"expected {'an array' if kind == '[]' else 'an object'}, found {shown(inner)}")
