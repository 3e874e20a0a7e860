"""Which questions of a run are listed: the filters as a value, and how many questions each choice would leave."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from trace_ves.web.words import BUCKETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trace_ves.records import Prediction
    from trace_ves.web.library import Listed

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
    """A key of `SORTS`; with a minus in front, downwards."""

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


def facet_values(listed: Listed) -> dict[str, str]:
    """The value of each filter that a question falls under."""
    density = listed.density
    termination = listed.prediction.termination if listed.prediction else None
    return {
        "bucket": listed.bucket,
        "family": listed.info.question.family or NO_VALUE,
        "density": NO_VALUE if density is None else str(min(density, DENSE)),
        "termination": termination or NO_VALUE,
    }


def matches(listed: Listed, filters: Filters) -> bool:
    """Whether a question passes all filters."""
    values = facet_values(listed)
    facets = all(getattr(filters, name) in {"", values[name]} for name in FACETS)
    return facets and _has_text(listed, filters.text)


def _has_text(listed: Listed, text: str) -> bool:
    question = listed.info.question
    wanted = text.casefold().split()
    if not wanted:
        return True
    haystack = "\n".join((question.id, question.text, question.video, *question.options)).casefold()
    return all(word in haystack for word in wanted)


def in_order(listed: Sequence[Listed], sort: str) -> list[Listed]:
    """The questions in the order that was asked for; those without a value come last, either way."""
    value = SORTS.get(sort.removeprefix("-"))
    if value is None:
        return list(listed)
    known = [(found, each) for each in listed if (found := value(each)) is not None]
    known.sort(key=itemgetter(0), reverse=sort.startswith("-"))
    return [each for _, each in known] + [each for each in listed if value(each) is None]


def next_sort(column: str, now: str) -> str:
    """What a click on a column's heading asks for: upwards, then downwards, then as the bench has it."""
    return {column: f"-{column}", f"-{column}": ""}.get(now, column)


def _answered(read: Callable[[Prediction], Any]) -> Callable[[Listed], Any]:
    return lambda listed: read(listed.prediction) if listed.prediction is not None else None


SORTS: Final[dict[str, Callable[[Listed], Any]]] = {
    "id": lambda listed: listed.info.question.id,
    "bucket": lambda listed: list(BUCKETS).index(listed.bucket),
    "question": lambda listed: listed.info.question.text.casefold(),
    "family": lambda listed: listed.info.question.family or None,
    "answer": _answered(lambda line: line.answer),
    "density": lambda listed: listed.density,
    "frames": _answered(lambda line: line.frames_supplied),
    "termination": _answered(lambda line: line.termination),
}
"""What the questions of a run can be sorted by."""


def choices(listed: Sequence[Listed], filters: Filters) -> dict[str, list[Choice]]:
    """For each filter its values, in a natural order, with their counts."""
    return {name: _choices(name, listed, filters) for name in FACETS}


def _choices(name: str, listed: Iterable[Listed], filters: Filters) -> list[Choice]:
    others = replace(filters, **{name: ""})
    every: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for each in listed:
        value = facet_values(each)[name]
        every[value] += 1
        left[value] += matches(each, others)
    chosen = getattr(filters, name)
    words, order = _WORDS[name], _ORDERS[name]
    values = sorted({*every, *([chosen] if chosen else [])}, key=order)
    return [Choice(value, words(value), left[value], is_chosen=value == chosen) for value in values]


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
