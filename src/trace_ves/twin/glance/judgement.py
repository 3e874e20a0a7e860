"""Rules that turn visits into an answer: what is settled, what is open, and which option a forced choice takes.

All stages and methods use the same rules.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, TypeAlias

from trace_ves.twin.glance.parsed_question import Kind, ParsedQuestion, Pick
from trace_ves.twin.glance.sightings import Visit, Visits, strongest

NO_ANSWER: Final = "unknown"  # the forced answer to an open question that glance does not understand
UNDETERMINED: Final = "undetermined"  # a key that marks the answer of a reply as a random draw; no prompt requests it
RIVAL: Final = 0.6
"""If one visit is expected, another with at least this share of the strongest visit's weight is a rival."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The conclusion from visits."""

    answer: str | None = None  # The letter of the option that they support, or text for an open question
    certain: bool = False  # Whether nothing unseen could change the answer
    conflicted: bool = False  # Whether they contradict each other or every option
    missing: tuple[str, ...] = ()  # Names that are needed and were not seen
    count: int = 0  # For a count: the visits seen


def judge(asked: ParsedQuestion, visits: Visits, *, complete: bool = False) -> Judgement:
    """Judge what was seen; `complete` says that the whole video was watched closely."""
    return _RULES[asked.kind][0](asked, visits, complete)


def guess(asked: ParsedQuestion, visits: Visits) -> str | None:
    """The option most compatible with what was seen; None if several are."""
    fitting = _fitting(asked, visits)
    return fitting[0] if len(fitting) == 1 else None


def force(asked: ParsedQuestion, visits: Visits, seed: int, sample: int) -> dict[str, Any]:
    """A reply that must answer: a seeded draw among options that fit equally well, marked as undetermined."""
    if not (fitting := _fitting(asked, visits)):
        return {"answer": NO_ANSWER}

    def place(letter: str) -> str:  # depends only on the text, never on the letter or the other options
        text = f"{seed}\n{sample}\n{asked.question}\n{asked.options[letter]}"
        return hashlib.sha256(text.encode()).hexdigest()

    return {"answer": min(fitting, key=place) if asked.options else fitting[0], UNDETERMINED: len(fitting) > 1}


def _fitting(asked: ParsedQuestion, visits: Visits) -> list[str]:
    """The options most compatible with what was seen; for an open question, the text."""
    if not asked.options:
        return [answer] if (answer := judge(asked, visits).answer) else []
    fit = {letter: _RULES[asked.kind][1](asked, visits, letter) for letter in asked.options}
    return [letter for letter in fit if fit[letter] == max(fit.values())]


def _judge_order(asked: ParsedQuestion, visits: Visits, complete: bool) -> Judgement:  # noqa: ARG001  one signature for all kinds
    """If all things were seen, the option with their order. A rival whose order fits another option is a conflict."""
    if missing := tuple(name for name in asked.wanted if not visits.get(name)):
        return Judgement(missing=missing)
    times = _times(asked, visits)
    fitting = [letter for letter, order in asked.orders.items() if not _inversions(order, times)]
    if len(fitting) != 1:
        return Judgement(conflicted=True)
    doubtful = any(
        _inversions(asked.orders[fitting[0]], times | {name: rival.centre})
        for name in asked.wanted
        for rival in _rivals(visits[name])
    )
    return Judgement(fitting[0], certain=not doubtful, conflicted=doubtful)


def _inversions(order: Sequence[str], times: Mapping[str, float]) -> int:
    """The number of pairs of seen things that an order has the wrong way round."""
    seen = [times[name] for name in order if name in times]
    return sum(earlier > later for earlier, later in combinations(seen, 2))


def _times(asked: ParsedQuestion, visits: Visits) -> dict[str, float]:
    return {name: best.centre for name in asked.wanted if (best := strongest(visits.get(name, ())))}


def _rivals(visits: Sequence[Visit]) -> list[Visit]:
    best = strongest(visits)
    return [visit for visit in visits if best is not None and visit is not best and visit.weight >= RIVAL * best.weight]


def _judge_count(asked: ParsedQuestion, visits: Visits, complete: bool) -> Judgement:
    """The number of visits; certain only if no option is higher or the whole video was watched."""
    count = len(visits.get(asked.wanted[0], ()))
    missing = () if count else asked.wanted
    if not asked.options:
        return Judgement(str(count) if count else None, complete, missing=missing, count=count)
    answer = next((letter for letter, number in asked.numbers.items() if number == count), None)
    most = max(asked.numbers.values())
    certain = answer is not None and (complete or count == most)
    return Judgement(answer, certain, conflicted=count > most, missing=missing, count=count)


def _fit_count(asked: ParsedQuestion, visits: Visits, letter: str) -> float:
    """The nearest number; if nothing was seen, all numbers fit equally well."""
    count = len(visits.get(asked.wanted[0], ()))
    return -abs(asked.numbers[letter] - count) if count else 0


def _judge_choice(asked: ParsedQuestion, visits: Visits, complete: bool) -> Judgement:
    """The one option that is seen; to be certain of the first or last, all must be seen."""
    seen = [letter for letter, name in asked.choices.items() if visits.get(name)]
    if not seen:
        return Judgement(missing=asked.wanted)
    if asked.pick is Pick.ONLY:
        one = len(seen) == 1
        return Judgement(seen[0] if one else None, certain=one, conflicted=not one)
    best = max(seen, key=lambda letter: _fit_choice(asked, visits, letter))
    missing = tuple(name for name in asked.choices.values() if not visits.get(name))
    return Judgement(best, certain=complete or not missing, missing=missing)


def _fit_choice(asked: ParsedQuestion, visits: Visits, letter: str) -> float:
    """Seen options before unseen ones; then the surest, the earliest or the latest."""
    seen = visits.get(asked.choices.get(letter, ""), ())
    if not seen:
        return float("-inf")
    values: dict[Pick, float] = {
        Pick.ONLY: sum(visit.weight for visit in seen),
        Pick.FIRST: -seen[0].start,
        Pick.LAST: seen[-1].end,
    }
    return values[asked.pick]


_Judge: TypeAlias = "Callable[[ParsedQuestion, Visits, bool], Judgement]"
_Fit: TypeAlias = "Callable[[ParsedQuestion, Visits, str], float]"
_RULES: Final[dict[Kind, tuple[_Judge, _Fit]]] = {
    Kind.ORDER: (_judge_order, lambda asked, visits, letter: -_inversions(asked.orders[letter], _times(asked, visits))),
    Kind.COUNT: (_judge_count, _fit_count),
    Kind.CHOICE: (_judge_choice, _fit_choice),
    Kind.UNKNOWN: (lambda _asked, _visits, _complete: Judgement(), lambda _asked, _visits, _letter: 0.0),
}
