"""The numbers of the paper's appendix from a synthetic history of 1,024 candidates, and the closure statement."""

import json

import pytest

from trace_ves.construction.judged_item import Verification
from trace_ves.construction.ledger import Stage
from trace_ves.construction.looking import Looking
from trace_ves.construction.project import BuildSettings
from trace_ves.construction.reports import Report, closure_statement, funnel_table, list_facts, make_report
from trace_ves.core import Interval

from .histories import EVIDENCE, LOOKED, Pen, moved

SECONDS = 13.8 * 60
"""The paper's mean time of an item and annotator."""
SHORTER = tuple(Interval(span.start, span.start + 0.83 * span.length) for span in EVIDENCE)
"""Edges that agree with `EVIDENCE` by an IoU of 0.83, the paper's."""


@pytest.fixture(scope="module")
def paper() -> Report:
    """204 rejected by looking, 120 open, 60 with a shortcut, 40 by the adjudicator, 600 accepted."""
    pen = Pen()
    fates = ["unseen"] * 204 + ["open"] * 120 + ["shortcut"] * 60 + ["adjudicated"] * 40 + ["accepted"] * 600
    for number, fate in enumerate(fates):
        item = f"c{number + 1:04}"
        pen.propose(item)
        if fate == "unseen":
            pen.verify(item, "ann", None, SECONDS)
            pen.verify(item, "bob", None, SECONDS)
            continue
        pen.verify(item, "ann", EVIDENCE, SECONDS - 300)
        if fate == "adjudicated":
            pen.verify(item, "bob", None, SECONDS)
            about = tuple(sorted(entry.number for entry in pen.ledger.current(item, "verification").values()))
            pen.settle(item, "grounding", about, keep=False)
            continue
        pen.verify(item, "bob", SHORTER, SECONDS - 300)
        final = tuple(Interval(a.start, round((a.end + b.end) / 2, 3)) for a, b in zip(EVIDENCE, SHORTER, strict=True))
        decides = fate == "open"
        for who in ("ann", "bob"):
            pen.answer(item, who, ["B" if decides else None, None, None], final, 100)
        pen.probe(item, [decides, False, False], final)
        if not decides:
            pen.shortcut(item, gist=fate == "shortcut")
    return make_report(pen.ledger)


def test_the_papers_funnel(paper: Report) -> None:
    assert paper.accepted == 600
    assert paper.iou == pytest.approx(0.83)
    assert paper.agreement == 100
    rows = funnel_table(paper).sections[0].rows
    assert [[cell[0].text for cell in row.cells] for row in rows] == [
        ["", "1,024", ""],
        ["204", "820", "0"],
        ["120", "700", "0"],
        ["60", "640", "0"],
        ["40", "600", "0"],
    ]
    assert json.loads(json.dumps(paper.to_json()))["accept_rate"] == 58.6


def test_the_papers_hours_follow_from_its_minutes(paper: Report) -> None:
    """Two annotators and 13.8 minutes each for 1,024 items are the paper's 470 hours."""
    assert paper.minutes_per_item == pytest.approx(13.7, abs=0.2)
    assert paper.hours == pytest.approx(470, abs=5)
    told = dict(list_facts(paper))
    assert told["accept rate"] == "58.6 %"
    assert told["inter-annotator IoU"] == "0.83"


def test_agreement_counts_every_partial_set_and_person() -> None:
    pen = Pen().propose("c1")
    pen.verify("c1", "ann")
    pen.verify("c1", "bob")
    pen.probe("c1", [False, True, False])
    pen.answer("c1", "ann", ["B", None, None])
    pen.answer("c1", "bob", [None, "B", "A"])
    assert make_report(pen.ledger).agreement == pytest.approx(100 * 4 / 6)


def test_time_of_a_judgement_that_was_taken_back_was_spent() -> None:
    pen = Pen().propose("c1")
    pen.verify("c1", "ann", EVIDENCE, 60)
    pen.undo("c1", "verification/ann", "ann")
    pen.verify("c1", "ann", EVIDENCE, 120)
    assert make_report(pen.ledger).minutes_per_item == 3


def test_the_closure_statement_claims_what_was_judged(paper: Report) -> None:
    statement = closure_statement(paper)
    assert "600 of 1024 proposed items are accepted" in statement
    assert "not guaranteed that the evidence is the smallest sufficient set" in statement
    assert "adjudicator" not in statement


def test_an_empty_build_has_no_numbers() -> None:
    found = make_report(Pen().ledger)
    assert "nothing is guaranteed yet" in closure_statement(found)
    assert (found.accept_rate, found.iou, found.agreement, found.minutes_per_item) == (None, None, None, None)
    assert found.after[Stage.ADJUDICATION] == 0


def accepted_items(*looks: Looking | None) -> Pen:
    """The items c0, c1, … that passed every stage, after looking in these ways."""
    pen = Pen()
    for number, looking in enumerate(looks):
        item = f"c{number}"
        pen.propose(item)
        for verifier, other in (("ann", "cat"), ("bob", "dan")):
            pen.verify(item, verifier, looking=looking)
            pen.answer(item, other, [None] * 3, looking=looking)
        pen.probe(item, [False] * 3)
        pen.shortcut(item)
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
    found = make_report(accepted_items(looking).ledger)
    assert found.accepted == 1
    statement = closure_statement(found)
    assert statement.startswith(f"The statement is withheld for 1 accepted item: {reason} (1)")
    assert "at least two options compatible" not in statement
    assert found.to_json()["unproven"] == {"c0": reason}


def test_the_statement_is_withheld_where_gold_was_missed() -> None:
    pen = accepted_items(LOOKED)
    assert "at least two options compatible" in closure_statement(make_report(pen.ledger))
    for n in range(4):
        pen.propose(f"g{n}")
        pen.gold(f"g{n}", accept=False)
        pen.verify(f"g{n}", "cat")  # accepts what is wrong
    found = make_report(pen.ledger)
    assert found.annotators["cat"].gold_accuracy == 0
    assert "an annotator got too many gold items wrong" in closure_statement(found)
    assert "withheld" not in closure_statement(make_report(pen.ledger, BuildSettings(gold_accuracy=0.0)))


def test_an_annotators_record_counts_shares_haste_and_sight() -> None:
    pen = Pen()
    looks = [(1.0, 15, True), (0.5, 14.9, True), (0.9, 60, False), (0.8, 30, True)]
    for number, (share, took, is_blind) in enumerate(looks):
        pen.propose(f"c{number}")
        pen.verify(f"c{number}", "ann", looking=Looking(share, took, 15, is_blind))
    record = make_report(pen.ledger).annotators["ann"]
    assert (record.hurried, record.not_blind, record.watched_share) == (1, 1, pytest.approx(0.8))


@pytest.mark.parametrize(
    ("accept", "verdict", "is_right"),
    [
        (True, Verification(True, EVIDENCE), True),
        (True, Verification(True, SHORTER), True),
        (True, Verification(True, moved(EVIDENCE, 3)), False),
        (True, Verification(True, EVIDENCE, answer="C"), False),
        (True, Verification(False, reason="no"), False),
        (False, Verification(True, EVIDENCE), False),
        (False, Verification(False, reason="no"), True),
        (False, Verification(False, reason="dark", is_unsure=True), False),
    ],
)
def test_a_gold_item_is_judged_rightly_by_verdict_option_and_edges(
    accept: bool, verdict: Verification, is_right: bool
) -> None:
    pen = Pen().propose("g1")
    pen.gold("g1", accept=accept)
    pen.write("g1", "verification/ann", "ann", verdict.to_json())
    record = make_report(pen.ledger).annotators["ann"]
    assert (record.gold_judged, record.gold_right) == (1, is_right)


def test_some_items_count_and_some_do_not() -> None:
    statement = closure_statement(make_report(accepted_items(LOOKED, None).ledger))
    assert "2 of 2 proposed items are accepted" in statement
    assert "withheld for 1 accepted item" in statement
    assert "For 1 of them, annotators who played every clip" in statement
