"""Fields of replies that accept other natural forms of a value, such as null for an empty list or yes for true."""

import math
from typing import Annotated, Any, Final

from pydantic import BeforeValidator

from trace_ves.records.search import Relevance


def _as_list(value: Any) -> Any:
    return [] if value is None else value if isinstance(value, list) else [value]


def _as_words(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, (int, float)) else value


def _as_relevance(value: Any) -> Any:
    if isinstance(value, bool):
        return Relevance.YES if value else Relevance.NO
    return value.strip().casefold() if isinstance(value, str) else value


def _as_finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


LISTED: Final = BeforeValidator(_as_list)
"""A list, or null for an empty one, or its only entry."""
Words = Annotated[str, BeforeValidator(_as_words)]
"""Words, a number, true or false, or null for none."""
AnyRelevance = Annotated[Relevance, BeforeValidator(_as_relevance)]
Seconds = Annotated[float | None, BeforeValidator(_as_finite)]
"""A moment, or null."""
