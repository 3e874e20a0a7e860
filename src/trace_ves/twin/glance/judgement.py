"""From visits to an answer: what they settle, what they leave open, and which option a forced choice takes.

Pure rules over a question that was understood and the visits that were seen; the same for every stage and method.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

from trace_ves.twin.glance.parsed_question import Kind, ParsedQuestion, Pick
from trace_ves.twin.glance.sightings import strongest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trace_ves.twin.glance.sightings import Visit, Visits

NO_WORDS: Final = "unknown"
"""What glance answers to an open question that it does not understand, where it has to say something."""
RIVAL: Final = 0.6
"""A second visit of a thing that should come once is a rival from this part of the strongest one's weight."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the visits say."""

    answer: str | None = None
    """The option that they support: a letter, or words for an open question."""
    certain: bool = False
    """Whether nothing outside of what was seen could change the answer."""
    conflicted: bool = False
    """Whether they speak against each other, or against every option."""
    missing: tuple[str, ...] = ()
    """Names that were not seen and are needed."""
    count: int = 0
    """For a count: the visits seen."""


def judge(asked: ParsedQuestion, visits: Visits, *, complete: bool = False) -> Judgement:
    """Judge what was seen; `complete` says that the whole video was watched closely."""
    return _JUDGES[asked.kind](asked, visits, complete)


def guess(asked: ParsedQuestion, visits: Visits, *, sample: int = 0, forced: bool = False) -> str | None:
    """The option most compatible with what was seen, a stable draw among equals.

    Where no word of the question is known, none, unless an answer is forced: then a draw among all options.
    """
    if not asked.options:
        return judge(asked, visits).answer or (NO_WORDS if forced else None)
    if asked.kind is Kind.UNKNOWN and not forced:
        return None
    fit = {letter: _FITS[asked.kind](asked, visits, letter) for letter in asked.options}
    best = max(fit.values())
    return min((letter for letter in fit if fit[letter] == best), key=lambda letter: _draw(asked, letter, sample))


def _draw(asked: ParsedQuestion, letter: str, sample: int) -> str:
    """A place in the draw that depends on the words alone, never on the letter or its neighbours."""
    words = f"{asked.question}\n{asked.options[letter]}" + (f"\n{sample}" if sample else "")
    return hashlib.sha256(words.encode()).hexdigest()


# --- orders -------------------------------------------------------------------------------------


def _judge_order(asked: ParsedQuestion, visits: Visits, complete: bool) -> Judgement:  # noqa: ARG001  one signature for all kinds
    """All things seen: the option that has their order. Rivals whose order fits another option are a conflict."""
    missing = _missing(asked, visits)
    if missing:
        return Judgement(missing=missing)
    times = {name: visit.centre for name, visit in _best(asked, visits).items()}
    fitting = [letter for letter, order in asked.orders.items() if not _inversions(order, times)]
    if len(fitting) != 1:
        return Judgement(conflicted=True)
    doubtful = any(
        _inversions(asked.orders[fitting[0]], times | {name: rival.centre})
        for name in asked.wanted
        for rival in _rivals(visits[name])
    )
    return Judgement(fitting[0], certain=not doubtful, conflicted=doubtful)


def _fit_order(asked: ParsedQuestion, visits: Visits, letter: str) -> float:
    times = {name: visit.centre for name, visit in _best(asked, visits).items()}
    return -_inversions(asked.orders[letter], times)


def _inversions(order: Sequence[str], times: Mapping[str, float]) -> int:
    """Pairs of seen things that an order has the wrong way round."""
    seen = [times[name] for name in order if name in times]
    return sum(earlier > later for earlier, later in combinations(seen, 2))


def _best(asked: ParsedQuestion, visits: Visits) -> dict[str, Visit]:
    return {name: best for name in asked.wanted if (best := strongest(visits.get(name, ())))}


def _rivals(visits: Sequence[Visit]) -> list[Visit]:
    best = strongest(visits)
    return [visit for visit in visits if best is not None and visit is not best and visit.weight >= RIVAL * best.weight]


def _missing(asked: ParsedQuestion, visits: Visits) -> tuple[str, ...]:
    return tuple(name for name in asked.wanted if not visits.get(name))


# --- counts -------------------------------------------------------------------------------------


def _judge_count(asked: ParsedQuestion, visits: Visits, complete: bool) -> Judgement:
    """The number of visits; certain only where no option is higher, or where the whole video was watched."""
    count = len(visits.get(asked.wanted[0], ()))
    missing = () if count else asked.wanted
    if not asked.options:
        return Judgement(str(count) if count else None, complete, missing=missing, count=count)
    answer = next((letter for letter, number in asked.numbers.items() if number == count), None)
    most = max(asked.numbers.values())
    certain = answer is not None and (complete or count == most)
    return Judgement(answer, certain, conflicted=count > most, missing=missing, count=count)


def _fit_count(asked: ParsedQuestion, visits: Visits, letter: str) -> float:
    """The nearest number; where nothing was seen, every number fits as well as another."""
    count = len(visits.get(asked.wanted[0], ()))
    return -abs(asked.numbers[letter] - count) if count else 0


# --- choices ------------------------------------------------------------------------------------


def _judge_choice(asked: ParsedQuestion, visits: Visits, complete: bool) -> Judgement:
    """The one option that is seen; for the first or last of them, all must be seen to be certain."""
    seen = [letter for letter, name in asked.choices.items() if visits.get(name)]
    missing = () if seen else asked.wanted
    if not seen:
        return Judgement(missing=missing)
    if asked.pick is Pick.ONLY:
        one = len(seen) == 1
        return Judgement(seen[0] if one else None, certain=one, conflicted=not one)
    best = max(seen, key=lambda letter: _fit_choice(asked, visits, letter))
    missing = tuple(name for name in asked.choices.values() if not visits.get(name))
    return Judgement(best, certain=complete or not missing, missing=missing)


def _fit_choice(asked: ParsedQuestion, visits: Visits, letter: str) -> float:
    """What is seen before what is not; then the surest, or the earliest, or the latest."""
    seen = visits.get(asked.choices.get(letter, ""), ())
    if not seen:
        return float("-inf")
    values: dict[Pick, float] = {
        Pick.ONLY: sum(visit.weight for visit in seen),
        Pick.FIRST: -seen[0].start,
        Pick.LAST: seen[-1].end,
    }
    return values[asked.pick]


def _judge_unknown(asked: ParsedQuestion, visits: Visits, complete: bool) -> Judgement:  # noqa: ARG001  as above
    return Judgement()


_JUDGES: Final[dict[Kind, Callable[[ParsedQuestion, Visits, bool], Judgement]]] = {
    Kind.ORDER: _judge_order,
    Kind.COUNT: _judge_count,
    Kind.CHOICE: _judge_choice,
    Kind.UNKNOWN: _judge_unknown,
}
_FITS: Final[dict[Kind, Callable[[ParsedQuestion, Visits, str], float]]] = {
    Kind.ORDER: _fit_order,
    Kind.COUNT: _fit_count,
    Kind.CHOICE: _fit_choice,
    Kind.UNKNOWN: lambda _asked, _visits, _letter: 0.0,
}
