"""The list of questions of one run: filters, counts and sort orders."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from trace_ves.core import Interval, Question
from trace_ves.ves.metrics import HEADLINE_DENSITY

if TYPE_CHECKING:
    from trace_ves.records import Item
    from trace_ves.records.run_index import Entry, RunIndex


class Bucket(NamedTuple):
    """How the pages show one outcome of a question."""

    words: str
    sign: str  # so that buckets differ in more than colour
    term: str  # its glossary term


BUCKETS: Final = {
    "covered": Bucket("right, evidence covered", "●", "cov-corrk"),
    "uncovered": Bucket("right, evidence not covered", "◐", "uncov-corrk"),
    "right": Bucket("right", "●", "right"),
    "wrong": Bucket("wrong", "✕", "wrong"),
    "unscored": Bucket("not scored", "?", "not-scored"),
    "open": Bucket("no answer line yet", "…", "no-line-yet"),
}
"""The paper's three buckets, and the other outcomes of a question."""
NO_VALUE: Final = "none"  # the filter value of questions without a family, termination or density
DENSE: Final = 3  # the filter joins densities from here up


@dataclass(frozen=True, slots=True)
class QuestionInfo:
    """A question as the pages know it."""

    question: Question
    duration: float | None = None
    item: Item | None = None  # with the gold answer and evidence; None if they are unknown

    @classmethod
    def of_id(cls, question_id: str) -> QuestionInfo:
        """A question that is not in the bench."""
        return cls(Question(question_id, "", ""))

    @classmethod
    def of_item(cls, item: Item) -> QuestionInfo:
        """A question of the bench."""
        return cls(item.question, item.duration if math.isfinite(item.duration) else None, item)

    @property
    def answer(self) -> str | None:
        """The gold answer."""
        return self.item.answer if self.item else None

    @property
    def evidence(self) -> tuple[Interval, ...]:
        """The intervals that the answer depends on."""
        return self.item.evidence if self.item else ()


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a list; an empty string matches every question."""

    bucket: str = ""
    family: str = ""
    density: str = ""
    termination: str = ""
    text: str = ""
    sort: str = ""  # one of `SORTS`, with a leading minus for descending order

    def query(self, **more: object) -> str:
        """The filters as a URL query."""
        own = {name: getattr(self, name) for name in (*FACETS, "text", "sort")}
        return urlencode({name: value for name, value in (own | more).items() if value not in {"", None}})

    def __bool__(self) -> bool:
        return self != Filters()


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a filter, and the number of questions that match it and the other filters."""

    value: str
    words: str
    count: int
    is_chosen: bool


def next_sort(column: str, now: str) -> str:
    """The sort order after a click on a column's heading: ascending, then descending, then bench order."""
    return {column: f"-{column}", f"-{column}": ""}.get(now, column)


def _facet_label(name: str, value: str) -> str:
    """The label of a filter value."""
    if name == "bucket":
        return BUCKETS[value].words if value in BUCKETS else value
    if name == "density":
        return {NO_VALUE: "no evidence", str(DENSE): f"{DENSE} or more"}.get(value, value)
    return value.replace("-", " ")


def _facet_order(name: str, value: str) -> tuple[int, str]:
    """The sort key of a filter value; `NO_VALUE` comes last."""
    if name == "bucket":
        return (list(BUCKETS).index(value) if value in BUCKETS else len(BUCKETS), value)
    return (value == NO_VALUE, value)


@dataclass(frozen=True, slots=True)
class QuestionEntry:
    """A question of a run and its entry in the run's index."""

    info: QuestionInfo
    entry: Entry | None = None  # None if the run has no line for it
    problem: str = ""  # why its line could not be scored

    @property
    def bucket(self) -> str:
        """Its key in `BUCKETS`."""
        if self.entry is None:
            return "open"
        if self.entry.correct is None:
            return "unscored"
        if not self.entry.correct:
            return "wrong"
        if not self.info.evidence:
            return "right"
        return "covered" if self.entry.density >= HEADLINE_DENSITY else "uncovered"

    @property
    def density(self) -> int | None:
        """Frames in the least observed evidence interval; None if there is no evidence or no score."""
        if self.entry is None or self.entry.correct is None or not self.info.evidence:
            return None
        return self.entry.density

    @property
    def termination(self) -> str | None:
        """How the search ended; None if the line does not record it."""
        return (self.entry and self.entry.termination) or None


FACETS: Final[dict[str, Callable[[QuestionEntry], str]]] = {
    "bucket": lambda each: each.bucket,
    "family": lambda each: each.info.question.family or NO_VALUE,
    "density": lambda each: NO_VALUE if each.density is None else str(min(each.density, DENSE)),
    "termination": lambda each: each.termination or NO_VALUE,
}
"""The filters, each with the value of a question."""
SORTS: Final[dict[str, Callable[[QuestionEntry], Any]]] = {
    "id": lambda each: each.info.question.id,
    "bucket": lambda each: list(BUCKETS).index(each.bucket),
    "question": lambda each: each.info.question.text.casefold(),
    "family": lambda each: each.info.question.family or None,
    "answer": lambda each: (each.entry and each.entry.answer) or None,
    "density": lambda each: each.density,
    "frames": lambda each: each.entry and each.entry.frames_supplied,
    "termination": lambda each: each.termination,
}
"""The sort orders; None comes last."""


class Listing(dict[str, QuestionEntry]):
    """The questions of a run by id: those of the bench in its order, then those that are not in it."""

    def __init__(self, questions: Mapping[str, QuestionInfo], run: RunIndex, *, has_transcripts: bool = False) -> None:
        known = dict(questions)  # a copy, because the studio may add questions
        known |= {name: QuestionInfo.of_id(name) for name in run.entries if name not in known}
        super().__init__({name: _make_entry(info, run) for name, info in known.items()})
        self._search = lru_cache(maxsize=16)(run.transcripts.search if has_transcripts else lambda _: set[str]())

    def choose(self, filters: Filters, *, including: str | None = None) -> list[str]:
        """The ids of the questions that match all filters, sorted; the id `including` is always among them."""
        names, rows = [*self], self._passing(filters)
        if including in self:
            rows = sorted({*rows, names.index(including)})
        names = [names[row] for row in rows]
        column = filters.sort.removeprefix("-")
        if column in SORTS:
            values = {name: SORTS[column](self[name]) for name in names}
            known = [name for name in names if values[name] is not None]
            known.sort(key=values.__getitem__, reverse=filters.sort.startswith("-"))
            names = [*known, *(name for name in names if values[name] is None)]
        return names

    def choices(self, filters: Filters) -> dict[str, list[Choice]]:
        """The values of each filter, in their natural order."""
        choices = {}
        for name, values in self._facet_values.items():
            current = getattr(filters, name)
            counts = Counter(map(values.__getitem__, self._passing(replace(filters, **{name: ""}))))
            offered = {*values, *([current] if current else [])}
            choices[name] = [
                Choice(value, _facet_label(name, value), counts[value], is_chosen=value == current)
                for value in sorted(offered, key=partial(_facet_order, name))
            ]
        return choices

    @property
    def buckets(self) -> set[str]:
        """The buckets that have a question."""
        return {*self._facet_values["bucket"]}

    @cached_property
    def _facet_values(self) -> dict[str, list[str]]:
        """The value of every question for each filter."""
        return {name: [value_of(each) for each in self.values()] for name, value_of in FACETS.items()}

    def _passing(self, filters: Filters) -> Sequence[int]:
        """The positions of the questions that match all filters."""
        rows: Sequence[int] = range(len(self))
        for name, values in self._facet_values.items():
            if wanted := getattr(filters, name):
                rows = [row for row in rows if values[row] == wanted]
        if words := filters.text.casefold().split():
            matches, names = self._search(tuple(words)), [*self]
            rows = [row for row in rows if names[row] in matches or _mentions(self[names[row]].info.question, words)]
        return rows


def _make_entry(info: QuestionInfo, run: RunIndex) -> QuestionEntry:
    entry = run.entries.get(info.question.id)
    problem = f"{run.path.name}:{entry.line}: {entry.refusal}" if entry and entry.refusal else ""
    return QuestionEntry(info, entry, problem)


def _mentions(question: Question, words: Sequence[str]) -> bool:
    text = "\n".join((question.id, question.text, question.video, *question.options)).casefold()
    return all(word in text for word in words)
