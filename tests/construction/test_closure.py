"""The closure statement, and when it is withheld."""

from __future__ import annotations

import pytest

from trace_ves.construction.looking import Looking
from trace_ves.construction.project import BuildSettings
from trace_ves.construction.reports import closure_statement, make_report

from .histories import LOOKED, Pen


def accepted_item(looking: Looking | None) -> Pen:
    pen = Pen()
    pen.propose("c1")
    for who in ("ann", "bob"):
        pen.verify("c1", who, looking=looking)
    for who in ("cat", "dan"):
        pen.answer("c1", who, [None] * 3, looking=looking)
    pen.probe("c1", [False] * 3)
    pen.shortcut("c1")
    return pen


@pytest.mark.parametrize(
    ("looking", "reason"),
    [
        (None, "no record of what was played"),
        (Looking(0.4, 60, 15), "an interval was not played"),
        (Looking(1.0, 3, 15), "judged faster than the clips are long"),
    ],
)
def test_the_statement_is_withheld_where_nobody_looked(looking: Looking | None, reason: str) -> None:
    found = make_report(accepted_item(looking).ledger)
    assert found.accepted == 1
    statement = closure_statement(found)
    assert f"withheld for 1 accepted item: {reason} (1)" in statement
    assert "at least two options compatible" not in statement
    assert found.to_json()["unproven"] == {"c1": reason}


def test_the_statement_is_withheld_where_gold_was_missed() -> None:
    pen = accepted_item(LOOKED)
    assert "at least two options compatible" in closure_statement(make_report(pen.ledger))
    for n in range(4):
        pen.propose(f"g{n}")
        pen.gold(f"g{n}", accept=False)
        pen.verify(f"g{n}", "cat")  # accepts what is wrong
    found = make_report(pen.ledger)
    assert found.annotators["cat"].gold_accuracy == 0
    assert "an annotator got too many gold items wrong" in closure_statement(found)
    assert "withheld" not in closure_statement(make_report(pen.ledger, settings=BuildSettings(gold_accuracy=0.0)))


def test_some_items_count_and_some_do_not() -> None:
    pen = accepted_item(LOOKED)
    pen.propose("c2")
    for who in ("ann", "bob"):
        pen.verify("c2", who, looking=None)
        pen.answer("c2", who, [None] * 3)
    pen.probe("c2", [False] * 3)
    pen.shortcut("c2")
    statement = closure_statement(make_report(pen.ledger))
    assert "2 of 2 proposed items are accepted" in statement
    assert "withheld for 1 accepted item" in statement
    assert "For 1 of them, annotators who played every clip" in statement
