"""From visits to answers: what is settled, what is open, and what a forced choice takes."""

from collections import Counter
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.twin.glance.judgement import UNDETERMINED, Judgement, force, guess, judge
from trace_ves.twin.glance.parsed_question import ParsedQuestion, understand
from trace_ves.twin.glance.sightings import Visit, Visits, merge_visits

ORDER = understand(
    "In what order are they seen?",
    {"A": "taxi → fox → bee", "B": "taxi → bee → fox", "C": "fox → taxi → bee", "D": "fox → bee → taxi"},
)
COUNT = understand("How many times does a fox appear?", {"A": "2", "B": "3", "C": "4", "D": "5"})
CHOICE = understand("Which of these is seen?", {"A": "a taxi", "B": "a fox", "C": "a bee"})
UNKNOWN = understand("Why?", {"A": "money", "B": "love"})


def seen(*visits: tuple[str, float] | tuple[str, float, float]) -> Visits:
    """Visits of a second each: name, start, and perhaps weight."""
    return merge_visits(Visit(name, start, start + 1, *rest) for name, start, *rest in visits)


@pytest.mark.parametrize("order", list(permutations(["taxi", "fox", "bee"])))
def test_all_seen_gives_the_option_with_that_order_or_a_conflict(order: tuple[str, ...]) -> None:
    said = judge(ORDER, seen(*((name, 10.0 * place) for place, name in enumerate(order))))
    letter = {names: letter for letter, names in ORDER.orders.items()}.get(order)
    assert said == (Judgement(letter, certain=True) if letter else Judgement(conflicted=True))


ONCE = [("taxi", 10, 2.0), ("fox", 30, 2.0), ("bee", 50, 2.0)]
FOXES = [("fox", 20.0 * number) for number in range(9)]


@pytest.mark.parametrize(
    ("asked", "visits", "said"),
    [
        (ORDER, [("taxi", 10), ("bee", 30)], Judgement(missing=("fox",))),
        (ORDER, [*ONCE, ("fox", 70, 1.5)], Judgement("A", conflicted=True)),  # a rival that would change the order
        (ORDER, [*ONCE, ("fox", 70, 0.5)], Judgement("A", certain=True)),  # a weak one
        (ORDER, [*ONCE, ("fox", 36, 1.5)], Judgement("A", certain=True)),
        (COUNT, [], Judgement(missing=("fox",))),
        (COUNT, FOXES[:1], Judgement(count=1)),
        (COUNT, FOXES[:3], Judgement("B", count=3)),
        (COUNT, FOXES[:5], Judgement("D", certain=True, count=5)),  # no option is higher
        (COUNT, FOXES[:6], Judgement(conflicted=True, count=6)),
        (CHOICE, [("fox", 3)], Judgement("B", certain=True)),
        (CHOICE, [("fox", 3), ("bee", 9)], Judgement(conflicted=True)),
        (CHOICE, [], Judgement(missing=CHOICE.wanted)),
    ],
)
def test_what_is_settled_and_what_is_open(asked: ParsedQuestion, visits: list[Any], said: Judgement) -> None:
    assert judge(asked, seen(*visits)) == said


def test_a_count_over_the_whole_video_is_certain() -> None:
    assert judge(COUNT, seen(*FOXES[:2]), complete=True).certain


def test_a_choice_fits_what_was_seen_and_is_none_where_two_do() -> None:
    assert guess(ORDER, seen(("bee", 10), ("taxi", 20))) == "D"  # the only one with the bee before the taxi
    assert guess(COUNT, seen(("fox", 0))) == "A"
    assert guess(COUNT, seen(*FOXES)) == "D"
    assert guess(CHOICE, seen(("fox", 3, 1.0), ("bee", 9, 4.0))) == "C"
    for asked in (ORDER, COUNT, CHOICE, UNKNOWN):
        assert guess(asked, {}) is None
        assert force(asked, {}, 0, 0)[UNDETERMINED]
    assert force(COUNT, seen(("fox", 0)), 0, 0) == {"answer": "A", UNDETERMINED: False}


@given(st.permutations("ABCD"))
def test_a_draw_follows_the_words_and_not_the_letters(letters: list[str]) -> None:
    shuffled = understand(COUNT.question, dict(zip(letters, COUNT.options.values(), strict=True)))
    drawn, again = (force(asked, {}, 3, 0)["answer"] for asked in (COUNT, shuffled))
    assert COUNT.options[drawn] == shuffled.options[again]


def test_blind_draws_are_near_chance_and_other_seeds_and_samples_draw_anew() -> None:
    many = [understand(f"How many times does a fox appear in part {n}?", COUNT.options) for n in range(1000)]
    for seed in (0, 1, 2):
        shares = Counter(force(asked, {}, seed, 0)["answer"] for asked in many)
        assert all(200 < shares[letter] < 300 for letter in "ABCD")
    for draws in ([(0, n) for n in range(30)], [(n, 0) for n in range(30)]):
        assert len({force(COUNT, {}, seed, sample)["answer"] for seed, sample in draws}) == 4
