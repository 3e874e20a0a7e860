"""JSON as its standard has it: no NaN, no key twice in one object. Whatever else is wrong is a `ValueError`."""

from __future__ import annotations

import json
import math
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable


class StrictJsonError(ValueError):
    """JSON that Python would accept and the standard does not; the message follows "the text has"."""


def parse_object(raw: bytes) -> dict[str, object]:
    """One JSON object, strictly: no NaN, no key twice, no lone surrogates. Anything else is a `ValueError`.

    A compiled parser reads what is plainly right, at a third of the time; the slow one reads the rest, and says what
    is wrong.
    """
    quick = _plainly_right(raw)
    if quick is not None:
        return quick
    try:
        text = raw.decode("utf-8")
        value: object = DECODER.decode(text)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except StrictJsonError as error:
        raise ValueError(f"it has {error}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg} at column {error.colno}") from None
    except UnicodeError:
        raise ValueError("not valid UTF-8 text") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {json_type(value)}")
    return value


def _plainly_right(raw: bytes) -> dict[str, object] | None:
    """The object, if the compiled parser takes it and every colon is accounted for; None leaves it to the slow one.

    That parser takes nothing that the slow one refuses, but for a key that stands twice: the later value wins. Every
    key has its own colon in the text, so where keys and the colons inside strings add up to all of them, no key was
    lost. Not looking into a part only makes the sum too small.
    """
    try:
        value = _compiled_parser()(raw, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    colons = raw.count(b":")
    if len(value) == colons:
        return value
    is_escaped = b"\\" in raw  # a colon that was written \u003a is none in the text
    return value if _colons(value, in_strings=not is_escaped) == colons else None


@cache
def _compiled_parser() -> Callable[..., Any]:
    from pydantic_core import from_json  # noqa: PLC0415  only where something is read

    return from_json


def _colons(value: dict[str, Any], *, in_strings: bool) -> int:
    """Colons that the text of this object must have had: one for each key, and those of its strings."""
    found = 0
    strings: list[str] = []
    todo: list[Any] = [value]
    while todo:
        each = todo.pop()
        kind = type(each)
        if kind is dict:
            found += len(each)
            strings += each
            todo += each.values()
        elif kind is str:
            strings.append(each)
        elif kind is list and each and not isinstance(each[0], (int, float)):  # those are long
            todo += each
    return found + "".join(strings).count(":") if in_strings else found


def json_type(value: object) -> str:
    """What JSON calls the type of this value, with its article."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise StrictJsonError(f"the key {twice[:80]!r} twice in one object")
    return record


def _refuse_constant(name: str) -> NoReturn:
    raise StrictJsonError(f"{name}, which is not a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise StrictJsonError(f"the number {digits[:40]}, which is too large")
    return value


DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
FINITE_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_constant=_refuse_constant, parse_float=_finite
)
"""Also refuses 1e999; slower, as every number passes through Python."""
