"""Fields of replies that take the natural forms of a value: null for none, a number for its digits, yes for true."""

import math
from typing import Annotated, Any, Final

from pydantic import BeforeValidator

from trace_ves.records.search import Relevance


def _as_list(said: Any) -> Any:
    return [] if said is None else said if isinstance(said, list) else [said]


def _as_words(said: Any) -> Any:
    if said is None:
        return ""
    if isinstance(said, bool):
        return "yes" if said else "no"
    return f"{said:g}" if isinstance(said, (int, float)) else said


def _as_relevance(said: Any) -> Any:
    if isinstance(said, bool):
        return Relevance.YES if said else Relevance.NO
    return said.strip().casefold() if isinstance(said, str) else said


def _as_finite(said: Any) -> Any:
    return None if isinstance(said, float) and not math.isfinite(said) else said


LISTED: Final = BeforeValidator(_as_list)
"""A list, or null for an empty one, or its only entry."""
Words = Annotated[str, BeforeValidator(_as_words)]
"""Words, a number, true or false, or null for none."""
AnyRelevance = Annotated[Relevance, BeforeValidator(_as_relevance)]
Seconds = Annotated[float | None, BeforeValidator(_as_finite)]
"""A moment, or null."""
