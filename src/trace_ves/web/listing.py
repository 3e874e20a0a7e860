"""The questions of one run as lists and filters see them: columns to choose by, a question as a value when it is shown.

A hundred thousand questions are filtered, counted and sorted in a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import numpy as np

from trace_ves.core import Question
from trace_ves.records.run_index import NOT_SCORED
from trace_ves.ves.metrics import HEADLINE_DENSITY
from trace_ves.ves.rows import AuditRow
from trace_ves.web.questions import QuestionInfo, search_text
from trace_ves.web.search_view import BUCKETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from trace_ves.records import Prediction
    from trace_ves.records.run_index import RunIndex
    from trace_ves.web.questions import QuestionColumns

    Codes = NDArray[np.int64]

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


NO_PLACE: Final = -1
"""Where the place of a line should be, for a question without one."""
LAST: Final = -1
"""The rank of a question that has no value to sort by."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One question of one run."""

    info: QuestionInfo
    prediction: Prediction | None = None
    """Without its heavy parts and its timestamps; None where the run has not answered yet."""
    row: AuditRow | None = None
    """None where there is nothing to score, or nothing that could be scored."""
    problem: str = ""
    """Why the line could not be scored."""

    @property
    def bucket(self) -> str:
        """Which of `BUCKETS` it belongs to."""
        if self.prediction is None:
            return "open"
        if self.row is None:
            return "unscored"
        if not self.row.correct:
            return "wrong"
        if not self.info.evidence:
            return "right"
        return "covered" if self.row.density >= HEADLINE_DENSITY else "uncovered"

    @property
    def density(self) -> int | None:
        """Frames in the least observed evidence interval."""
        return self.row.density if self.row is not None and self.info.evidence else None


class Listing(Mapping[str, Listed]):
    """Every question of a run: those of the bench in its order, then those that the bench does not know."""

    def __init__(self, questions: QuestionColumns, run: RunIndex) -> None:
        self._questions, self._run = questions, run
        places = run.places
        is_in_order = list(places) == questions.ids  # then a question has the same place in both
        self._strays = [] if is_in_order else [name for name in places if name not in questions.infos]
        self.ids: Final[Sequence[str]] = [*questions.ids, *self._strays] if self._strays else questions.ids
        found = range(len(places)) if is_in_order else (places.get(name, NO_PLACE) for name in self.ids)
        self.place: Final = np.fromiter(found, np.int64, len(self.ids))
        more = len(self._strays)
        self.has_item: Final = np.append(questions.has_item, np.zeros(more, np.bool_))
        self.has_evidence: Final = np.append(questions.has_evidence, np.zeros(more, np.bool_))
        self.is_answered: Final = self.place != NO_PLACE
        self.correct: Final = self._column(run.columns.correct, NOT_SCORED)
        self.is_scored: Final = self.correct != NOT_SCORED

    def _column(self, values: Any, missing: int) -> NDArray[Any]:
        """A column of the run, in the order of this list."""
        column = np.array(values)
        return np.where(self.is_answered, column[self.place], missing) if len(column) else np.full(len(self), missing)

    # --- one question ---------------------------------------------------------------------------

    def __getitem__(self, question_id: str) -> Listed:
        info = self._questions.infos.get(question_id)
        run = self._run
        at = run.places.get(question_id)
        if at is None:
            if info is None:
                raise KeyError(question_id)
            return Listed(info)
        info = info or QuestionInfo(Question(question_id, "", ""))
        line, columns = run.entries[question_id].prediction, run.columns
        if at in columns.refusals:
            return Listed(info, line, problem=f"{run.path.name}:{columns.line[at]}: {columns.refusals[at]}")
        if columns.correct[at] == NOT_SCORED:
            return Listed(info, line)
        row = AuditRow(
            question_id,
            correct=bool(columns.correct[at]),
            frames_supplied=line.frames_supplied,
            frames_distinct=columns.frames_distinct[at],
            frames_inside=columns.frames_inside[at],
            density=columns.density[at],
            termination=line.termination,
        )
        return Listed(info, line, row)

    def __contains__(self, question_id: object) -> bool:
        return question_id in self._questions.infos or question_id in self._run.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    # --- filters --------------------------------------------------------------------------------

    def chosen(self, filters: Filters) -> NDArray[np.bool_]:
        """Which questions pass all filters."""
        found = self._with_text(filters.text)
        for name in FACETS:
            found &= self._passes(name, filters)
        return found

    def choices(self, filters: Filters) -> dict[str, list[Choice]]:
        """For each filter its values, in a natural order, with the number that each leaves beside the other filters."""
        passes = {name: self._passes(name, filters) for name in FACETS}
        with_text = self._with_text(filters.text)
        found = {}
        for name in FACETS:
            left = with_text.copy()
            for other in FACETS:
                left &= passes[other] if other != name else True
            codes, words = self._facets[name]
            counts = dict(zip(words, np.bincount(codes[left], minlength=len(words)).tolist(), strict=True))
            used = np.bincount(codes, minlength=len(words))
            chosen = getattr(filters, name)
            values = {word for word, count in zip(words, used, strict=True) if count} | ({chosen} if chosen else set())
            found[name] = [
                Choice(value, facet_words(name, value), counts.get(value, 0), is_chosen=value == chosen)
                for value in sorted(values, key=partial(facet_order, name))
            ]
        return found

    @property
    def buckets(self) -> set[str]:
        """The buckets that any question belongs to."""
        return {list(BUCKETS)[code] for code in np.unique(self._bucket).tolist()}

    def _passes(self, name: str, filters: Filters) -> NDArray[np.bool_]:
        wanted = getattr(filters, name)
        if not wanted:
            return np.ones(len(self), np.bool_)
        codes, words = self._facets[name]
        return codes == words.index(wanted) if wanted in words else np.zeros(len(self), np.bool_)

    def _with_text(self, text: str) -> NDArray[np.bool_]:
        wanted = text.casefold().split()
        if not wanted:
            return np.ones(len(self), np.bool_)
        haystacks = [*self._questions.haystacks, *(search_text(Question(name, "", "")) for name in self._strays)]
        found = (all(word in haystack for word in wanted) for haystack in haystacks)
        return np.fromiter(found, np.bool_, len(self))

    @cached_property
    def _facets(self) -> dict[str, tuple[Codes, list[str]]]:
        """The value of each filter that each question falls under, as a place in a list of values."""
        densities = [*map(str, range(DENSE + 1)), NO_VALUE]
        density = np.where(self._density == LAST, len(densities) - 1, np.minimum(self._density, DENSE))
        return {
            "bucket": (self._bucket, list(BUCKETS)),
            "family": _coded([*self._questions.families, *("" for _ in self._strays)]),
            "density": (density, densities),
            "termination": _coded(self._words(self._run.columns.termination)),
        }

    @cached_property
    def _bucket(self) -> Codes:
        code = {name: at for at, name in enumerate(BUCKETS)}
        covered = np.where(self._density >= HEADLINE_DENSITY, code["covered"], code["uncovered"])
        right = np.where(self.has_evidence, covered, code["right"])
        scored = np.where(self.correct == 1, right, code["wrong"])
        found: Codes = np.where(self.is_scored, scored, np.where(self.is_answered, code["unscored"], code["open"]))
        return found

    @cached_property
    def _density(self) -> Codes:
        """Frames in the least observed evidence interval; `LAST` where there is no such number."""
        return np.where(self.is_scored & self.has_evidence, self._column(self._run.columns.density, LAST), LAST)

    def _words(self, column: Any) -> list[str]:
        """The words of a coded column; empty where there is none."""
        words = [word or "" for word in self._run.columns.words]
        return [words[code] if code != NO_PLACE else "" for code in self._column(column, NO_PLACE).tolist()]

    # --- order ----------------------------------------------------------------------------------

    def in_order(self, chosen: NDArray[np.bool_], sort: str) -> NDArray[np.int64]:
        """The places of these questions in the order that was asked for; those without a value come last."""
        at = np.flatnonzero(chosen)
        if sort.removeprefix("-") not in SORTS:
            return at
        rank = self._rank(sort.removeprefix("-"))[at]
        known = at[rank != LAST]
        by = rank[rank != LAST]
        order = np.argsort(-by if sort.startswith("-") else by, kind="stable")
        return np.concatenate([known[order], at[rank == LAST]])

    def _rank(self, column: str) -> Codes:
        """A number for each question that sorts as its value does; `LAST` where it has none."""
        if column not in self._ranks:
            self._ranks[column] = self._made_rank(column)
        return self._ranks[column]

    @cached_property
    def _ranks(self) -> dict[str, Codes]:
        return {}

    def _made_rank(self, column: str) -> Codes:
        columns = self._run.columns
        match column:
            case "bucket":
                return self._bucket
            case "density":
                return self._density
            case "frames":
                return self._column(columns.frames_supplied, LAST)
        makers: dict[str, Callable[[], Sequence[str]]] = {
            "id": lambda: self.ids,
            "question": self._question_words,
            "family": lambda: [*self._questions.families, *("" for _ in self._strays)],
            "answer": lambda: self._words(columns.answer),
            "termination": lambda: self._words(columns.termination),
        }
        words = makers[column]()
        distinct = {word: rank for rank, word in enumerate(sorted({*words}))}
        is_last = column in {"family", "answer", "termination"}
        return np.array([LAST if is_last and not word else distinct[word] for word in words], np.int64)

    def _question_words(self) -> list[str]:
        known = [info.question.text.casefold() for info in self._questions.infos.values()]
        return [*known, *("" for _ in self._strays)]


SORTS: Final = frozenset({"id", "bucket", "question", "family", "answer", "density", "frames", "termination"})
"""What the questions of a run can be sorted by."""


def _coded(words: Sequence[str]) -> tuple[Codes, list[str]]:
    """Each word as its place in a list of them; the empty one is `NO_VALUE`."""
    places: dict[str, int] = {}
    codes = [places.setdefault(word or NO_VALUE, len(places)) for word in words]
    return np.array(codes, np.int64), list(places)
