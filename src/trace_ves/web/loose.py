"""Reading a method's own account of its search, which may be anything: what has another shape is passed over."""

from __future__ import annotations

import json
import math
from typing import Final

LONGEST_TEXT: Final = 4000


def mapping(value: object) -> dict[str, object]:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[dict[str, object]]:
    """The objects of an array."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def texts(value: object) -> tuple[str, ...]:
    """The strings of an array."""
    return tuple(cut(entry) for entry in value if isinstance(entry, str)) if isinstance(value, list) else ()


def text(value: object) -> str:
    """A string; anything else as JSON, and nothing for null."""
    if value is None:
        return ""
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def cut(value: str) -> str:
    """A string of a length that a page can bear."""
    return value if len(value) <= LONGEST_TEXT else value[: LONGEST_TEXT - 1] + "…"


def number(value: object) -> float | None:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def numbers(value: object) -> tuple[float, ...]:
    """The finite numbers of an array."""
    if not isinstance(value, list):
        return ()
    return tuple(found for entry in value if (found := number(entry)) is not None)


def span(value: object) -> tuple[float, float] | None:
    """A pair of numbers, the lower one first."""
    pair = numbers(value)
    return (min(pair), max(pair)) if len(pair) == 2 else None


def spans(value: object) -> tuple[tuple[float, float], ...]:
    """The pairs of an array."""
    if not isinstance(value, list):
        return ()
    return tuple(found for entry in value if (found := span(entry)) is not None)
