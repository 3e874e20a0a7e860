"""From visits to answers: what is settled, what is open, and what a forced choice takes."""

from collections import Counter
from itertools import permutations

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


def test_an_order_with_something_unseen_is_open() -> None:
    assert judge(ORDER, seen(("taxi", 10), ("bee", 30))) == Judgement(missing=("fox",))


def test_a_rival_that_would_change_the_order_is_a_conflict_and_a_weak_one_is_not() -> None:
    once = [("taxi", 10, 2.0), ("fox", 30, 2.0), ("bee", 50, 2.0)]
    assert judge(ORDER, seen(*once, ("fox", 70, 1.5))) == Judgement("A", conflicted=True)
    assert judge(ORDER, seen(*once, ("fox", 70, 0.5))) == Judgement("A", certain=True)
    assert judge(ORDER, seen(*once, ("fox", 36, 1.5))) == Judgement("A", certain=True)


@pytest.mark.parametrize(
    ("visits", "answer", "certain", "conflicted"),
    [
        (0, None, False, False),
        (1, None, False, False),
        (3, "B", False, False),
        (5, "D", True, False),
        (6, None, False, True),
    ],
)
def test_a_count_is_certain_only_where_no_option_is_higher(
    visits: int, answer: str | None, certain: bool, conflicted: bool
) -> None:
    said = judge(COUNT, seen(*(("fox", 20.0 * n) for n in range(visits))))
    assert (said.answer, said.certain, said.conflicted, said.count) == (answer, certain, conflicted, visits)


def test_a_count_over_the_whole_video_is_certain() -> None:
    assert judge(COUNT, seen(("fox", 0), ("fox", 50)), complete=True).certain


def test_a_choice_is_what_is_seen_alone() -> None:
    assert judge(CHOICE, seen(("fox", 3))) == Judgement("B", certain=True)
    assert judge(CHOICE, seen(("fox", 3), ("bee", 9))).conflicted
    assert judge(CHOICE, {}).missing == CHOICE.wanted


def test_a_choice_fits_what_was_seen_and_is_none_where_two_do() -> None:
    assert guess(ORDER, seen(("bee", 10), ("taxi", 20))) == "D"  # the only one with the bee before the taxi
    assert guess(COUNT, seen(("fox", 0))) == "A"
    assert guess(COUNT, seen(*(("fox", 20.0 * n) for n in range(9)))) == "D"
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
    def asked(number: int) -> ParsedQuestion:
        question = f"How many times does a fox appear in part {number}?"
        return understand(question, {"A": "2", "B": "3", "C": "4", "D": "5"})

    for seed in (0, 1, 2):
        shares = Counter(force(asked(n), {}, seed, 0)["answer"] for n in range(1000))
        assert all(200 < shares[letter] < 300 for letter in "ABCD")
    for draws in ([(0, n) for n in range(30)], [(n, 0) for n in range(30)]):
        assert len({force(COUNT, {}, seed, sample)["answer"] for seed, sample in draws}) == 4
