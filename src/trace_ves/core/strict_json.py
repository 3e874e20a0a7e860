"""JSON as its standard has it: no NaN, no key twice in one object. Whatever else is wrong is a `ValueError`."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Final, NoReturn


class StrictJsonError(ValueError):
    """JSON that Python would accept and the standard does not; the message follows "the text has"."""


def parse_object(raw: bytes) -> dict[str, object]:
    """One JSON object, strictly: no NaN, no key twice, no lone surrogates. Anything else is a `ValueError`."""
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
