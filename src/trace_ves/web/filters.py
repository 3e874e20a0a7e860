"""Which questions of a run are listed: the filters as a value, and their choices in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from trace_ves.web.words import BUCKETS

if TYPE_CHECKING:
    from collections.abc import Callable

NO_VALUE: Final = "none"
"""How a filter names the questions that have no family, no termination or no density."""
DENSE: Final = 3
"""Densities from here up are one choice."""
FACETS: Final = ("bucket", "family", "density", "termination")


@dataclass(frozen=True, slots=True)
class Filters:
    """What is wanted; an empty string wants all."""

    bucket: str = ""
    family: str = ""
    density: str = ""
    termination: str = ""
    text: str = ""
    sort: str = ""
    """One of `listing.SORTS`; with a minus in front, downwards."""

    def query(self, **more: object) -> str:
        """The filters as a part of an address."""
        own = {name: getattr(self, name) for name in (*FACETS, "text", "sort")}
        return urlencode({name: value for name, value in (own | more).items() if value not in {"", None}})

    def __bool__(self) -> bool:
        return self != Filters()


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a filter, and how many questions it would leave with the other filters as they are."""

    value: str
    words: str
    count: int
    is_chosen: bool


def next_sort(column: str, now: str) -> str:
    """What a click on a column's heading asks for: upwards, then downwards, then as the bench has it."""
    return {column: f"-{column}", f"-{column}": ""}.get(now, column)


def facet_words(name: str, value: str) -> str:
    """A value of a filter, as a person reads it."""
    return _WORDS[name](value)


def facet_order(name: str, value: str) -> tuple[int, str]:
    """What the values of a filter are sorted by."""
    return _ORDERS[name](value)


def _plain(value: str) -> str:
    return value.replace("-", " ")


def _density(value: str) -> str:
    if value == NO_VALUE:
        return "no evidence"
    return f"{value} or more" if value == str(DENSE) else value


_WORDS: Final[dict[str, Callable[[str], str]]] = {
    "bucket": lambda value: BUCKETS.get(value, value),
    "family": _plain,
    "density": _density,
    "termination": _plain,
}


def _bucket_order(value: str) -> tuple[int, str]:
    names = list(BUCKETS)
    return (names.index(value) if value in names else len(names), value)


def _last_is_none(value: str) -> tuple[bool, str]:
    return (value == NO_VALUE, value)


_ORDERS: Final[dict[str, Callable[[str], tuple[int, str]]]] = {
    "bucket": _bucket_order,
    "family": _last_is_none,
    "density": _last_is_none,
    "termination": _last_is_none,
}
