"""Accuracy by the groups that a bench names, and the order in which they are shown."""

from __future__ import annotations

from trace_ves.core import Question
from trace_ves.records import Item
from trace_ves.ves.groups import accuracy, accuracy_by_group, family_order
from trace_ves.ves.report import GroupAccuracy


def item(**extra: object) -> Item:
    return Item(Question("q", "v.mp4", "?", ("a", "b")), "A", (), 60.0, extra=extra)


def test_the_papers_families_come_first_and_others_by_the_alphabet() -> None:
    names = ["zoo", "event-counting", "art", "temporal-ordering", "zoo"]
    assert family_order(names) == ["temporal-ordering", "event-counting", "art", "zoo"]


def test_accuracy_is_in_percent_and_none_where_an_answer_has_no_score() -> None:
    assert accuracy([True, False, False, True, True]) == GroupAccuracy(5, 60.0)
    assert accuracy([]) == GroupAccuracy(0, None)
    assert accuracy([True, None]) == GroupAccuracy(2, None)


def test_a_question_counts_in_every_group_that_it_names() -> None:
    items = [
        item(duration_group="long", question_types=["count", "order"]),
        item(duration_group="short", question_types=["order"], domain=""),
        item(duration_group="medium", question_types="count", other="x", domain=True),
        item(duration_group="extra", category=10),
        item(duration_group="short", category=9),
    ]
    found = accuracy_by_group(items, [True, False, True, True, True])
    assert {key: dict(groups) for key, groups in found.items()} == {
        "duration_group": {
            "short": GroupAccuracy(2, 50.0),
            "medium": GroupAccuracy(1, 100.0),
            "long": GroupAccuracy(1, 100.0),
            "extra": GroupAccuracy(1, 100.0),
        },
        "question_types": {"count": GroupAccuracy(2, 100.0), "order": GroupAccuracy(2, 50.0)},
        "category": {"9": GroupAccuracy(1, 100.0), "10": GroupAccuracy(1, 100.0)},
    }
    assert list(found["duration_group"]) == ["short", "medium", "long", "extra"]
    assert list(found["category"]) == ["9", "10"]  # by size, not by the alphabet


def test_numbers_come_before_words() -> None:
    found = accuracy_by_group([item(domain="b"), item(domain="a"), item(domain="2"), item(domain="long")], [True] * 4)
    assert list(found["domain"]) == ["2", "long", "a", "b"]
