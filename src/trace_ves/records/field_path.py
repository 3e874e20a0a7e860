"""Where a value stands in a record that somebody else designed: `qid`, `doc.qid`, `turns.0.text`, `{video}_{qid}`."""

from __future__ import annotations

import re
from typing import Final

from trace_ves.records.record import FieldError, shown

_HOLE: Final = re.compile(r"\{([^{}]+)\}")


def value_at(record: object, path: str) -> object:
    """The value at a path of keys and positions; a key that has dots itself is found too. A `FieldError` if none is."""
    found = _search(record, path)
    if found is _NOWHERE:
        raise FieldError(f"there is no {path!r} in this row{_offered(record)}")
    return found


def text_at(record: object, path: str) -> str:
    """The value at a path as text; a path with braces is a template whose holes are filled with such values."""
    if not _HOLE.search(path):
        return _text(value_at(record, path), path)
    return _HOLE.sub(lambda hole: _text(value_at(record, hole[1]), hole[1]), path)


_NOWHERE: Final = object()


def _search(record: object, path: str) -> object:
    if isinstance(record, dict) and path in record:
        return record[path]
    if isinstance(record, list) and path.isascii() and path.isdigit():
        return record[int(path)] if len(path) < 10 and int(path) < len(record) else _NOWHERE
    for match in re.finditer(r"\.", path):
        first, rest = path[: match.start()], path[match.end() :]
        inner = _search(record, first) if "." not in first or isinstance(record, dict) else _NOWHERE
        if inner is not _NOWHERE and (found := _search(inner, rest)) is not _NOWHERE:
            return found
    return _NOWHERE


def _text(value: object, path: str) -> str:
    """Words as they are and whole numbers as digits; whatever else would be written in more than one way is refused."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise FieldError(f"{path!r} must be text or a whole number, found {shown(value)}")
    return str(value)


def _offered(record: object) -> str:
    if not isinstance(record, dict) or not record:
        return ""
    keys = ", ".join(str(key)[:40] for key in list(record)[:8])
    return f"; it has {keys}{', …' if len(record) > 8 else ''}"
