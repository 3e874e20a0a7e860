"""Accuracy by the groups that a bench names, and the order in which they are shown."""

from collections.abc import Mapping
from dataclasses import replace

from trace_ves.core import Interval, Question
from trace_ves.records import Item
from trace_ves.ves.metrics import accuracy, accuracy_by_group, class_masks, family_order, group_accuracy
from trace_ves.ves.report import GroupFigures
from trace_ves.ves.rows import AuditRow


def rows(*correct: bool | None) -> list[AuditRow]:
    return [AuditRow(f"q{at}", each, 0, 0, 0, 0) for at, each in enumerate(correct)]


def by_group(*extras: dict[str, object], right: list[bool]) -> Mapping[str, Mapping[str, GroupFigures]]:
    items = [
        Item(Question(f"q{number}", "v.mp4", "?", ("a", "b")), "A", (), 60.0, extra=extra)
        for number, extra in enumerate(extras)
    ]
    return accuracy_by_group(items, rows(*right))


def test_the_papers_families_come_first_and_others_by_the_alphabet() -> None:
    names = ["zoo", "event-counting", "art", "temporal-ordering", "zoo"]
    assert family_order(names) == ["temporal-ordering", "event-counting", "art", "zoo"]


def test_accuracy_is_in_percent_and_none_where_an_answer_has_no_score() -> None:
    assert accuracy(rows(True, False, False, True, True)) == GroupFigures(5, 60.0)
    assert accuracy([]) == GroupFigures(0, None)
    assert accuracy(rows(True, None)) == GroupFigures(2, None)


def test_the_groups_of_a_log_count_where_the_bench_has_none() -> None:
    item = Item(Question("q0", "v.mp4", "?", ("a", "b")), "A", (), 60.0)
    logged = [replace(rows(True)[0], groups={"domain": "art"})]
    assert accuracy_by_group([item], logged) == {"domain": {"art": GroupFigures(1, 100.0)}}
    assert accuracy_by_group([replace(item, extra={"domain": "zoo"})], logged) == {
        "domain": {"zoo": GroupFigures(1, 100.0)}
    }
    assert accuracy_by_group([item], rows(True)) == {}


def test_a_group_of_questions_is_right_where_every_answer_is_and_intervals_are_classed_up_to_four() -> None:
    items = [
        Item(
            Question(f"q{n}", "v.mp4", "?", ("a", "b")),
            "A",
            (Interval(1, 2),) * count,
            60.0,
            extra={"question_group": n // 2},
        )
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
