"""Reading values out of untrusted JSON objects: each function gives the typed value or says what is wrong with it.

Knows neither files nor lines; whoever does turns a `FieldError` into a `FormatError`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeVar

from trace_ves.core.strict_json import json_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_SHOWN_CHARACTERS: Final = 60

T = TypeVar("T")


class FieldError(ValueError):
    """A value of a record breaks its format; the message is a clause without file or line."""


class DirtyEvidenceError(FieldError):
    """A record is well-formed, but its evidence intervals are none: reversed, without length or beyond the video."""


def shown(value: object) -> str:
    """A value as it stands in an error message: short, on one line."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 1] + "…"


def _wrong(key: str, wanted: str, value: object) -> FieldError:
    return FieldError(f"{key!r} must be {wanted}, found {json_type(value)} {shown(value)}")


def require(record: Mapping[str, object], key: str) -> object:
    """The value under a key that must be there."""
    if key not in record:
        raise FieldError(f"the key {key!r} is missing")
    return record[key]


def as_text(key: str, value: object) -> str:
    """A string."""
    if not isinstance(value, str):
        raise _wrong(key, "a string", value)
    return value


def as_name(key: str, value: object) -> str:
    """A string with something in it."""
    if not as_text(key, value).strip():
        raise FieldError(f"{key!r} is empty")
    return as_text(key, value)


def as_optional_text(key: str, value: object) -> str | None:
    """A string or null."""
    return None if value is None else as_text(key, value)


def as_number(key: str, value: object) -> float:
    """A finite number; a boolean is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(key, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise FieldError(f"{key!r} must be a finite number, found {shown(value)}")
    return number


def as_count(key: str, value: object) -> int:
    """A whole number from 0 up."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(key, "a whole number from 0 up", value)
    return value


def as_list(key: str, value: object) -> list[object]:
    """An array."""
    if not isinstance(value, list):
        raise _wrong(key, "an array", value)
    return value


def as_record(key: str, value: object) -> dict[str, object]:
    """An object."""
    if not isinstance(value, dict):
        raise _wrong(key, "an object", value)
    return value


def as_numbers(key: str, value: object) -> tuple[float, ...]:
    """An array of finite numbers, checked in bulk: run files hold millions of timestamps."""
    numbers = as_list(key, value)
    if {*map(type, numbers)} <= {int, float}:
        try:
            floats = tuple(map(float, numbers))  # type: ignore[arg-type]  # the line above has seen every type
        except OverflowError:
            floats = (math.inf,)
        if all(map(math.isfinite, floats)):
            return floats
    return tuple(as_number(f"{key}[{index}]", number) for index, number in enumerate(numbers))


def each(key: str, value: object, read: Callable[[str, object], T]) -> tuple[T, ...]:
    """Every element of an array, read by the same rule."""
    return tuple(read(f"{key}[{index}]", element) for index, element in enumerate(as_list(key, value)))
