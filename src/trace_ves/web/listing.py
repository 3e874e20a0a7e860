"""The questions of one run: filtered, counted and sorted by what the index knows, and shown one by one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from trace_ves.core import Interval, Question
from trace_ves.ves.metrics import HEADLINE_DENSITY

if TYPE_CHECKING:
    from trace_ves.records import Item
    from trace_ves.records.run_index import Entry, RunIndex


class Bucket(NamedTuple):
    """How the pages show a state of an answer."""

    words: str
    sign: str  # so that colour is never the only difference
    term: str  # what explains it in the glossary


BUCKETS: Final = {
    "covered": Bucket("right, evidence covered", "●", "cov-corrk"),
    "uncovered": Bucket("right, evidence not covered", "◐", "uncov-corrk"),
    "right": Bucket("right", "●", "right"),
    "wrong": Bucket("wrong", "✕", "wrong"),
    "unscored": Bucket("not scored", "?", "not-scored"),
    "open": Bucket("no answer line yet", "…", "no-line-yet"),
}
"""The paper's three buckets, and the other states of an answer."""
NO_VALUE: Final = "none"  # how a filter names the questions that have no family, no termination or no density
DENSE: Final = 3  # densities from here up are one choice


@dataclass(frozen=True, slots=True)
class QuestionInfo:
    """What the page knows about a question."""

    question: Question
    duration: float | None = None
    item: Item | None = None  # the question with its gold answer and evidence; None if they are not known

    @classmethod
    def of_id(cls, question_id: str) -> QuestionInfo:
        """A question that no bench knows."""
        return cls(Question(question_id, "", ""))

    @classmethod
    def of_item(cls, item: Item) -> QuestionInfo:
        """What a bench says about a question."""
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
    """The filters of a list; an empty string lets all pass."""

    bucket: str = ""
    family: str = ""
    density: str = ""
    termination: str = ""
    text: str = ""
    sort: str = ""  # one of `listing.SORTS`; with a minus in front, descending

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
    """The sort order after a click on a column's heading: ascending, descending, then the bench's order."""
    return {column: f"-{column}", f"-{column}": ""}.get(now, column)


def _facet_words(name: str, value: str) -> str:
    """A value of a filter in words."""
    if name == "bucket":
        return BUCKETS[value].words if value in BUCKETS else value
    if name == "density":
        return {NO_VALUE: "no evidence", str(DENSE): f"{DENSE} or more"}.get(value, value)
    return value.replace("-", " ")


def _facet_order(name: str, value: str) -> tuple[int, str]:
    """What the values of a filter are sorted by; a missing one comes last."""
    if name == "bucket":
        return (list(BUCKETS).index(value) if value in BUCKETS else len(BUCKETS), value)
    return (value == NO_VALUE, value)


@dataclass(frozen=True, slots=True)
class Listed:
    """One question of one run."""

    info: QuestionInfo
    entry: Entry | None = None  # None if the run has not answered yet
    problem: str = ""  # why the line could not be scored

    @property
    def bucket(self) -> str:
        """Which of `BUCKETS` it belongs to."""
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
        """Frames in the least observed evidence interval; None without evidence or a score."""
        if self.entry is None or self.entry.correct is None or not self.info.evidence:
            return None
        return self.entry.density

    @property
    def termination(self) -> str | None:
        """How the search ended, if the line says so."""
        return (self.entry and self.entry.termination) or None


FACETS: Final[dict[str, Callable[[Listed], str]]] = {
    "bucket": lambda each: each.bucket,
    "family": lambda each: each.info.question.family or NO_VALUE,
    "density": lambda each: NO_VALUE if each.density is None else str(min(each.density, DENSE)),
    "termination": lambda each: each.termination or NO_VALUE,
}
"""The value of each filter that a question falls under."""
SORTS: Final[dict[str, Callable[[Listed], Any]]] = {
    "id": lambda each: each.info.question.id,
    "bucket": lambda each: list(BUCKETS).index(each.bucket),
    "question": lambda each: each.info.question.text.casefold(),
    "family": lambda each: each.info.question.family or None,
    "answer": lambda each: (each.entry and each.entry.answer) or None,
    "density": lambda each: each.density,
    "frames": lambda each: each.entry and each.entry.frames_supplied,
    "termination": lambda each: each.termination,
}
"""What the questions of a run can be sorted by; None comes last."""


class Listing(dict[str, Listed]):
    """Every question of a run by its id: those of the bench in its order, then those that the bench does not know."""

    def __init__(self, questions: Mapping[str, QuestionInfo], run: RunIndex, *, has_transcripts: bool = False) -> None:
        known = dict(questions)  # a studio may add to them meanwhile
        self.strays: Final = [name for name in run.entries if name not in known]
        known |= {name: QuestionInfo.of_id(name) for name in self.strays}
        super().__init__({name: _listed(info, run) for name, info in known.items()})
        self._said = lru_cache(maxsize=16)(run.transcripts.search if has_transcripts else lambda _: set[str]())

    def choose(self, filters: Filters, *, including: str | None = None) -> list[str]:
        """The ids of the questions that pass all filters, in their order; one may be included whatever the filters."""
        passing = {*self._passing(filters), including}
        names = [name for name in self if name in passing]
        column = filters.sort.removeprefix("-")
        if column in SORTS:
            values = {name: SORTS[column](self[name]) for name in names}
            known = [name for name in names if values[name] is not None]
            known.sort(key=values.__getitem__, reverse=filters.sort.startswith("-"))
            names = [*known, *(name for name in names if values[name] is None)]
        return names

    def choices(self, filters: Filters) -> dict[str, list[Choice]]:
        """For each filter its values, in a natural order, with the number that each leaves beside the other filters."""
        choices = {}
        for name, value_of in FACETS.items():
            chosen = getattr(filters, name)
            counts = Counter(value_of(self[each]) for each in self._passing(replace(filters, **{name: ""})))
            offered = {*map(value_of, self.values()), *([chosen] if chosen else [])}
            choices[name] = [
                Choice(value, _facet_words(name, value), counts[value], is_chosen=value == chosen)
                for value in sorted(offered, key=partial(_facet_order, name))
            ]
        return choices

    @property
    def buckets(self) -> set[str]:
        """The buckets that any question belongs to."""
        return {each.bucket for each in self.values()}

    def _passing(self, filters: Filters) -> list[str]:
        """The ids of the questions that pass all filters."""
        wanted = {name: value for name in FACETS if (value := getattr(filters, name))}
        names = [
            name for name, each in self.items() if all(FACETS[key](each) == value for key, value in wanted.items())
        ]
        if words := filters.text.casefold().split():
            said = self._said(tuple(words))
            names = [name for name in names if name in said or _mentions(self[name].info.question, words)]
        return names


def _listed(info: QuestionInfo, run: RunIndex) -> Listed:
    entry = run.entries.get(info.question.id)
    return Listed(info, entry, f"{run.path.name}:{entry.line}: {entry.refusal}" if entry and entry.refusal else "")


def _mentions(question: Question, words: Sequence[str]) -> bool:
    text = "\n".join((question.id, question.text, question.video, *question.options)).casefold()
    return all(word in text for word in words)
