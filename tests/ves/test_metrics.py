"""The metrics against a second, naive implementation, against the paper's numbers, and by their own laws."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trace_ves.core import InputError, Interval, Question
from trace_ves.records import Item, Prediction
from trace_ves.ves import audit
from trace_ves.ves.audit import summarise
from trace_ves.ves.metrics import accuracy, accuracy_by_group, class_masks, family_order, group_accuracy
from trace_ves.ves.report import GroupFigures
from trace_ves.ves.rows import AuditRow, row_of_prediction

FAST = {"resamples": 2}


def item(
    name: str = "q",
    evidence: object = ((10, 20),),
    duration: Any = 100.0,
    *,
    family: Any = "f",
    video: Any = "v",
    answer: str | None = "A",
) -> Item:
    question = Question(name, video, "?", ("w", "x", "y", "z"), family)
    return Item(question, answer, tuple(Interval(*pair) for pair in evidence), duration)


def prediction(
    name: str = "q", answer: str | None = "A", timestamps: tuple[float, ...] = (), frames: int | None = None
) -> Prediction:
    return Prediction(name, answer, tuple(timestamps), len(timestamps) if frames is None else frames)


# --- the oracle: the formulas of the paper, word by word, in exact arithmetic ---------------------------------------


def oracle(items: list[Item], predictions: dict[str, Prediction], k: int) -> dict[str, float | None]:
    n = len(items)
    acc = ep = fr = ep_ref = Fraction(0)
    cov = dict.fromkeys((1, 2, 3, k), 0)
    eca = dict(cov)
    seen_any = False
    for it in items:
        p = predictions.get(it.question.id)
        frames = set(map(Fraction, p.timestamps)) if p else set()
        right = p is not None and p.answer == it.answer
        seen_any = seen_any or bool(frames)
        acc += right
        fr += p.frames_supplied if p else 0
        inside = [t for t in frames if any(Fraction(i.start) <= t <= Fraction(i.end) for i in it.evidence)]
        ep += Fraction(len(inside), len(frames)) if frames else 0
        ep_ref += measure(it) / Fraction(it.duration)
        for level in cov:
            covered = all(
                len([t for t in frames if Fraction(i.start) <= t <= Fraction(i.end)]) >= level for i in it.evidence
            )
            cov[level] += covered
            eca[level] += covered and right
    shown = {"Acc": 100 * acc / n, "Fr": fr / n, "Wrong": 100 - 100 * acc / n}
    shown |= {f"ECA@{level}": Fraction(100 * eca[level], n) for level in cov}
    shown |= {f"Cov-Corr@{k}": Fraction(100 * eca[k], n), f"Uncov-Corr@{k}": 100 * acc / n - Fraction(100 * eca[k], n)}
    hidden = {"EP": 100 * ep / n, "AR": ep / ep_ref} | {f"Cov@{level}": Fraction(100 * cov[level], n) for level in cov}
    shown |= hidden if seen_any else dict.fromkeys(hidden)
    return {name: None if value is None else float(value) for name, value in shown.items()}


def measure(it: Item) -> Fraction:
    """Length of the union by cutting the time line at every end."""
    cuts = sorted({Fraction(edge) for i in it.evidence for edge in (i.start, i.end)})
    return sum((b - a for a, b in pairwise(cuts) if any(i.start <= a and b <= i.end for i in it.evidence)), Fraction(0))


TIMES = st.integers(0, 60).map(float)
"""A coarse grid, so that frames often lie exactly on the ends of intervals."""
EVIDENCE = st.lists(st.tuples(TIMES, TIMES).filter(lambda p: p[0] != p[1]).map(sorted), min_size=1, max_size=4)


@st.composite
def benches(draw: Any):
    items, predictions = [], []
    for index in range(draw(st.integers(1, 6))):
        name = f"q{index}"
        family, video = draw(st.sampled_from("fg")), draw(st.sampled_from("vw"))
        items.append(item(name, draw(EVIDENCE), 60.0, family=family, video=video, answer=draw(st.sampled_from("ABCD"))))
        if draw(st.integers(0, 4)):
            times = draw(st.lists(TIMES, max_size=12))
            answer = draw(st.sampled_from(["A", "B", "C", "D", None]))
            predictions.append(prediction(name, answer, times, len(times) + draw(st.integers(0, 3))))
    return items, predictions


@given(benches(), st.integers(1, 4))
@settings(deadline=None, max_examples=100)
def test_every_metric_equals_the_naive_one_over_all_questions_and_in_each_family(
    bench: tuple[list[Item], list[Prediction]], k: int
) -> None:
    items, predictions = bench
    assume(predictions)
    [run] = audit(items, {"run": predictions}, k=k, **FAST).runs
    by_id = {prediction.question_id: prediction for prediction in predictions}
    expected = oracle(items, by_id, k)
    assert run.metrics.keys() == expected.keys()
    for name, value in expected.items():
        assert run.metrics[name] == (None if value is None else pytest.approx(value, abs=1e-9)), name
    for family, metrics in run.families.items():
        own = oracle([each for each in items if each.question.family == family], by_id, k)
        for name in ("Acc", "Fr", "ECA@1", "ECA@2", "ECA@3", "Wrong"):
            assert metrics[name] == pytest.approx(own[name])


@given(benches(), st.randoms())
@settings(deadline=None, max_examples=25)
def test_the_order_of_lines_is_irrelevant(bench: tuple[list[Item], list[Prediction]], rng: Any) -> None:
    items, predictions = bench
    assume(predictions)
    shuffled_items, shuffled = list(items), [replace(p, timestamps=p.timestamps[::-1]) for p in predictions]
    rng.shuffle(shuffled_items)
    rng.shuffle(shuffled)
    first, second = audit(items, {"r": predictions}, **FAST), audit(shuffled_items, {"r": shuffled}, **FAST)
    assert first == second


# --- rules, one by one ----------------------------------------------------------------------------------------------

FROGS = item("frogs", [(70, 76), (118, 125), (592, 598)], 650.0)
"""The paper's example: the hunter, the attic window, and the two frogs late in the video."""


@pytest.mark.parametrize(
    ("timestamps", "density", "inside"),
    [
        ((), 0, 0),
        ((72, 120), 0, 2),  # the frogs were never looked at
        ((72, 120, 595), 1, 3),
        ((70, 76, 118, 125, 592, 598), 2, 6),  # both ends belong to an interval
        ((69.999, 76.001, 117.9, 125.1, 591, 599), 0, 0),
        ((72, 72, 120, 120, 595, 595), 1, 3),  # distinct timestamps count, not supplies
        ((70, 71, 72, 118, 119, 120, 592, 593, 300), 2, 8),
    ],
)
def test_the_papers_example(timestamps: tuple[float, ...], density: Any, inside: Any) -> None:
    row = row_of_prediction(FROGS, prediction("frogs", "A", timestamps))
    assert (row.density, row.frames_inside) == (density, inside)


def test_the_papers_example_is_covered_by_uniform_frames_only_when_they_are_many() -> None:
    densities = [audit([FROGS], samplers=(n,), k=2, **FAST).runs[0].metrics["Cov@2"] for n in (64, 128, 256)]
    assert densities == [0, 0, 100]


def test_evidence_that_outlasts_its_video_is_all_of_it() -> None:
    assert summarise([item(evidence=[(0, 100.5)])]).ep_ref == 100
    assert summarise([item(evidence=[(0, 50)]), item("r", evidence=[(0, 100.5)])]).ep_ref == 75


def test_what_no_audit_can_be_made_of_is_a_sentence() -> None:
    endless = item("r", duration=float("nan"))
    for items, runs, words in (
        ([], {"r": []}, "the bench has no questions"),
        ([item()], {}, "nothing to audit; name at least one run or sampler"),
        ([item(), item("r"), item("r")], {"r": []}, "the bench has question 'r' more than once"),
        ([item(), endless], {"r": []}, "question 'r' has evidence but no duration; EP_ref needs it"),
    ):
        with pytest.raises(InputError, match=words):
            audit(items, runs, **FAST)
    without = replace(endless, evidence=())
    assert audit([item(), without], {"m": []}, **FAST).bench.measured == 1
    with pytest.raises(InputError, match="question 'r' has no duration in this bench, so no sampler applies"):
        audit([item(), without], samplers=[4], **FAST)


def test_a_run_that_saw_nothing_has_no_targeting_and_zero_eca() -> None:
    metrics = audit([item()], {"blind": [prediction(answer=" a ")]}, **FAST).runs[0].metrics  # a small letter is one
    assert row_of_prediction(item(), prediction()).precision == 0
    assert row_of_prediction(item("a"), None) == AuditRow("a", False, 0, 0, 0, 0)
    unknown = dict.fromkeys(("EP", "AR", "Cov@1", "Cov@2", "Cov@3"))
    zero = dict.fromkeys(("Fr", "ECA@1", "ECA@2", "ECA@3", "Cov-Corr@2", "Wrong"), 0)
    assert metrics == unknown | zero | {"Acc": 100, "Uncov-Corr@2": 100}


@pytest.mark.parametrize(
    ("predictions", "words"),
    [
        ([prediction("x")], "run 'r', question 'x': question 'x' is not in the bench"),
        ([prediction(), prediction()], "already has a prediction in prediction 1"),
        ([prediction(answer="E")], "'E' is not an option of question 'q'; write a letter A-D"),
        ([prediction(answer="the first one")], "is not an option"),
        ([prediction(timestamps=(-0.1,))], "timestamp -0.1 is outside the video"),
        ([prediction(timestamps=(5, 102))], "timestamp 102 is outside .* 0-100 s"),
        ([prediction(timestamps=(0, 102))], "timestamp 102 is outside .* 0-100 s"),
        ([prediction(timestamps=(float("nan"),))], "nan is outside"),
        ([prediction(timestamps=(1, 2, 3), frames=2)], "less than the 3 distinct timestamps"),
    ],
)
def test_what_cannot_be_is_refused(predictions: Any, words: list[str]) -> None:
    with pytest.raises(InputError, match=words):
        audit([item()], {"r": predictions}, **FAST)


def test_a_timestamp_just_after_a_rounded_duration_is_a_frame_like_any_other() -> None:
    for moment in (100.9, 101.0):
        row = row_of_prediction(item(), prediction(timestamps=(moment,)))
        assert (row.frames_distinct, row.frames_inside) == (1, 0)


def test_the_report_as_json_has_the_bounds_and_groups_of_the_report() -> None:
    items = [replace(item(f"q{n}"), extra={"domain": "x" if n % 2 else "y"}) for n in range(8)]
    answers = [prediction(f"q{n}", "A" if n < 5 else "B", (12.0, 50.0)) for n in range(8)]
    found = audit(items, {"run": answers}, resamples=200)
    [told] = found.to_json()["runs"]
    low, high = found.runs[0].ci95["Acc"] or (None, None)
    assert low != high
    assert told["ci95"]["Acc"] == [pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4)]
    assert told["ci95"]["Cov@3"] == [0, 0]
    assert told["groups"] == {"domain": {"x": {"questions": 4, "Acc": 50.0}, "y": {"questions": 4, "Acc": 75.0}}}
    assert "groups" not in audit([item("q0")], {"run": answers[:1]}, resamples=2).to_json()["runs"][0]


# --- groups ----------------------------------------------------------------------------------------------------------


def rows(*correct: bool | None) -> list[AuditRow]:
    return [AuditRow(f"q{at}", each, 0, 0, 0, 0) for at, each in enumerate(correct)]


def by_group(*extras: dict[str, object], right: list[bool]) -> Mapping[str, Mapping[str, GroupFigures]]:
    items = [replace(item(f"q{number}"), extra=extra) for number, extra in enumerate(extras)]
    return accuracy_by_group(items, rows(*right))


def test_the_papers_families_come_first_and_others_by_the_alphabet() -> None:
    names = ["zoo", "event-counting", "art", "temporal-ordering", "zoo"]
    assert family_order(names) == ["temporal-ordering", "event-counting", "art", "zoo"]


def test_accuracy_is_in_percent_and_none_where_an_answer_has_no_score() -> None:
    assert accuracy(rows(True, False, False, True, True)) == GroupFigures(5, 60.0)
    assert accuracy([]) == GroupFigures(0, None)
    assert accuracy(rows(True, None)) == GroupFigures(2, None)


def test_the_groups_of_a_log_count_where_the_bench_has_none() -> None:
    plain, right = item("q0"), GroupFigures(1, 100.0)
    logged = [replace(rows(True)[0], groups={"domain": "art"})]
    assert accuracy_by_group([plain], logged) == {"domain": {"art": right}}
    assert accuracy_by_group([replace(plain, extra={"domain": "zoo"})], logged) == {"domain": {"zoo": right}}
    assert accuracy_by_group([plain], rows(True)) == {}


def test_a_group_of_questions_is_right_where_every_answer_is_and_intervals_are_classed_up_to_four() -> None:
    items = [
        replace(item(f"q{n}", [(1, 2)] * count), extra={"question_group": n // 2})
        for n, count in enumerate((1, 3, 4, 5))
    ]
    assert group_accuracy(items, rows(True, True, True, False)) == GroupFigures(2, 50.0)
    assert group_accuracy(items, rows(True, None, True, True)) is None
    assert group_accuracy([replace(each, extra={}) for each in items], rows(*[True] * 4)) is None
    assert {word: mask.tolist() for word, mask in class_masks(items)["intervals"].items()} == {
        "1": [True, False, False, False],
        "3": [False, True, False, False],
        "4 or more": [False, False, True, True],
    }


def test_a_question_counts_in_every_group_that_it_names() -> None:
    found = by_group(
        {"duration_group": "long", "question_types": ["count", "order"]},
        {"duration_group": "short", "question_types": ["order"], "domain": ""},
        {"duration_group": "medium", "question_types": "count", "other": "x", "domain": True},
        {"duration_group": "extra", "category": 10},
        {"duration_group": "short", "category": 9},
        right=[True, False, True, True, True],
    )
    assert {key: dict(groups) for key, groups in found.items()} == {
        "duration_group": {
            "short": GroupFigures(2, 50.0),
            "medium": GroupFigures(1, 100.0),
            "long": GroupFigures(1, 100.0),
            "extra": GroupFigures(1, 100.0),
        },
        "question_types": {"count": GroupFigures(2, 100.0), "order": GroupFigures(2, 50.0)},
        "category": {"9": GroupFigures(1, 100.0), "10": GroupFigures(1, 100.0)},
    }
    assert list(found["duration_group"]) == ["short", "medium", "long", "extra"]
    assert list(found["category"]) == ["9", "10"]  # by size, not by the alphabet
    mixed = by_group(*({"domain": name} for name in ("b", "a", "10", "2", "long")), right=[True] * 5)
    assert list(mixed["domain"]) == ["2", "10", "long", "a", "b"]
