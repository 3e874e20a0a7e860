"""The numbers of a build: the paper's appendix from a synthetic history, what the report says, what is guaranteed."""

from typing import Any

import pytest

from trace_ves.construction.judged_item import Verification
from trace_ves.construction.ledger import Stage
from trace_ves.construction.looking import Looking
from trace_ves.construction.project import BuildSettings
from trace_ves.construction.reports import (
    AnnotatorRecord,
    Report,
    closure_statement,
    funnel_table,
    list_facts,
    make_report,
)
from trace_ves.core import Interval

from .histories import EVIDENCE, Pen, moved

SECONDS = 13.8 * 60
"""The paper's mean time of an item and annotator."""
SHORTER, HALF = (
    tuple(Interval(span.start, span.start + share * span.length) for span in EVIDENCE) for share in (0.83, 0.5)
)
"""Edges that agree with `EVIDENCE` by an IoU of 0.83, the paper's, and of 0.5."""


def test_the_numbers_of_the_paper() -> None:
    """A quarter of the paper's candidates.

    Of 256, 51 are rejected by looking, 30 are open, 15 have a shortcut, 10 fall to the adjudicator, 150 are accepted.
    """
    pen = Pen()
    fates = ["unseen"] * 51 + ["open"] * 30 + ["shortcut"] * 15 + ["adjudicated"] * 10 + ["accepted"] * 150
    for number, fate in enumerate(fates):
        item = f"c{number + 1:04}"
        pen.propose(item)
        if fate == "unseen":
            pen.verify(item, "ann", None, SECONDS).verify(item, "bob", None, SECONDS)
            continue
        pen.verify(item, "ann", EVIDENCE, SECONDS - 300)
        if fate == "adjudicated":
            pen.verify(item, "bob", None, SECONDS).settle(item, "grounding", keep=False)
            continue
        pen.verify(item, "bob", SHORTER, SECONDS - 300)
        final = tuple(Interval(a.start, round((a.end + b.end) / 2, 3)) for a, b in zip(EVIDENCE, SHORTER, strict=True))
        decides = fate == "open"
        for who in ("ann", "bob"):
            pen.answer(item, who, ["B" if decides else None, None, None], final, 100)
        pen.probe(item, [decides, False, False], final)
        if not decides:
            pen.shortcut(item, gist=fate == "shortcut")
    paper = make_report(pen.ledger)
    assert rows_of(paper) == [
        ["1 proposal", "", "256", ""],
        ["2 visual verification", "51", "205", "0"],
        ["3 leave-one-out", "30", "175", "0"],
        ["4 shortcut probe", "15", "160", "0"],
        ["5 adjudication", "10", "150", "0"],
    ]
    assert list_facts(paper) == [
        ("accepted", "150"),
        ("accept rate", "58.6 %"),
        ("settled by an adjudicator", "0 of the accepted"),
        ("inter-annotator IoU", "0.83"),
        ("human/model agreement without one interval", "100.0 %"),
        ("mean time per item and annotator", "13.7 minutes"),
        ("total working time", "116.9 hours"),  # a quarter of the paper's 470
    ]
    assert "adjudicator" not in closure_statement(paper)


def rows_of(report: Report) -> list[list[str]]:
    rows = [row for section in funnel_table(report).sections for row in section.rows]
    return [[row.name, *(cell[0].text for cell in row.cells)] for row in rows]


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


def test_the_report_of_a_history() -> None:
    pen = accepted_items(Looking(1, 10, 15, is_blind=False))
    pen.propose("c1")  # whose right option the model finds, and ann and bob each without another interval
    pen.verify("c1", "ann", EVIDENCE, 60)
    pen.undo("c1", "verification/ann", "ann")
    pen.verify("c1", "ann", EVIDENCE, 120)  # the time of what was undone was spent, too
    pen.verify("c1", "bob", looking=Looking(0.5, 15, 15))
    pen.probe("c1", [False, True, False])
    pen.answer("c1", "cat", ["B", None, None], seconds=30)
    pen.answer("c1", "dan", [None, "B", "A"], looking=None)
    pen.propose("c2").verify("c2", "ann", seconds=5400)  # waits
    pen.propose("c3").verify("c3", "ann").verify("c3", "bob", None)  # settled twice
    pen.settle("c3", "grounding", keep=True, evidence=EVIDENCE)
    pen.probe("c3", [False] * 3)
    for who, answer in (("cat", "B"), ("dan", None)):
        pen.answer("c3", who, [answer, None, None])
    pen.settle("c3", "sufficiency", keep=True)
    pen.shortcut("c3")
    pen.propose("g1").gold("g1", accept=True, without={"0": None, "1": "B"})
    pen.answer("g1", "cat", [None, "A", "B"])
    none = dict.fromkeys((Stage.VERIFICATION, Stage.LEAVE_ONE_OUT, Stage.SHORTCUT, Stage.ADJUDICATION), 0)
    assert make_report(pen.ledger) == Report(
        proposed=4,
        rejected=none | {Stage.LEAVE_ONE_OUT: 1},
        waiting=none | {Stage.VERIFICATION: 1},
        accepted=2,
        settled=1,
        settled_sufficiency=1,
        iou=1.0,
        agreement=pytest.approx(100 * (6 + 4 + 5) / 18),
        minutes_per_item=pytest.approx((3 + 90 + 1.5) / 14),
        hours=pytest.approx((180 + 90 + 5400) / 3600),
        backbones={},
        annotators={
            "ann": AnnotatorRecord([1, 1, 1, 1], 1, 1, seconds={"c0": 0, "c1": 180, "c2": 5400, "c3": 0}),
            "bob": AnnotatorRecord([1, 0.5, 1], 1, 1, seconds={"c0": 0, "c1": 0, "c3": 0}),
            "cat": AnnotatorRecord([1] * 12, 3, 3, 1, 2, seconds={"c0": 0, "c1": 90, "c3": 0, "g1": 0}),
            "dan": AnnotatorRecord([1] * 6, 3, 3, seconds={"c0": 0, "c1": 0, "c3": 0}),
        },
        unproven={
            "c3": "an annotator got too many gold items wrong",
            "c0": "an annotator got too many gold items wrong",
        },
        not_blind=6,
        partial_answers=18,
    )


def report(**changes: Any) -> Report:
    rejected = {Stage.VERIFICATION: 3, Stage.LEAVE_ONE_OUT: 2, Stage.SHORTCUT: 1, Stage.ADJUDICATION: 0}
    waiting = dict.fromkeys(rejected, 0) | {Stage.SHORTCUT: 1234}
    plain = {"settled": 1, "settled_sufficiency": 0, "iou": 0.8766, "agreement": 91.26, "minutes_per_item": 13.456}
    counts = {"proposed": 2000, "rejected": rejected, "waiting": waiting, "accepted": 5}
    return Report(**{**counts, **plain, "hours": 1.256, "backbones": {"probe": ("a", "b")}, **changes})


def test_the_numbers_for_machines() -> None:
    record = AnnotatorRecord([0.5, 0.75, 0.87654], 1, 2, 2, 3)
    record.seconds |= {"c1": 60.0, "c2": 100.0}
    found = report(annotators={"ann": record, "bob": AnnotatorRecord()}, not_blind=4, partial_answers=9).to_json()
    assert found.pop("closure").startswith("5 of 2000 proposed")
    assert found == {
        "proposed": 2000,
        "after": dict(zip(report().rejected, (1997, 1995, 1994, 1994), strict=True)),
        "rejected": report().rejected,
        "waiting": report().waiting,
        "accepted": 5,
        "accept_rate": 0.2,
        "settled_by_adjudicator": 1,
        "inter_annotator_iou": 0.877,
        "human_model_agreement": 91.3,
        "minutes_per_item": 13.46,
        "hours": 1.26,
        "backbones": {"probe": ["a", "b"]},
        "annotators": [
            {
                "annotator": 1,
                "judgements": 3,
                "watched_share": 0.709,
                "gold_accuracy": 0.667,
                "gold_judged": 3,
                "minutes_per_item": 1.333,
                "hurried": 1,
                "not_blind": 2,
            },
            {"annotator": 2}
            | dict.fromkeys(("watched_share", "gold_accuracy", "minutes_per_item"))
            | dict.fromkeys(("judgements", "gold_judged", "hurried", "not_blind"), 0),
        ],
        "not_blind": 4,
        "partial_answers": 9,
        "unproven": {},
    }
    assert report(accepted=0, rejected=dict.fromkeys(report().rejected, 0)).accept_rate is None


def test_the_numbers_for_people() -> None:
    facts = list_facts(report(agreement=None, iou=None))
    assert [facts[0], facts[-1]] == [("accepted", "5, 1,234 in progress"), ("backbone of probe", "a, b")]
    assert "%" not in dict(facts)["human/model agreement without one interval"]
    assert rows_of(report())[::3] == [["1 proposal", "", "2,000", ""], ["4 shortcut probe", "1", "1,994", "1,234"]]


def test_the_closure_statement_word_by_word() -> None:
    assert closure_statement(report(accepted=0)) == (
        "None of 2000 proposed items is accepted yet, so nothing is guaranteed yet."
    )
    unproven = {"c1": "x", "c2": "y", "c3": "y"}
    begin = ", annotators who played every clip and a vision model judged independently, from the evidence without one"
    begin += " interval, that no such partial set determines the right option."
    end = (
        " Each was also asked without the video: from its text only and from a coarse summary of the video; on a"
        " held-out repeat neither model chose the right option more often than by chance. So, under the audit, removing"
        " any single annotated interval leaves at least two options compatible with what was seen, as far as these"
        " judges can tell. It is not guaranteed that the evidence is the smallest sufficient set, nor that no model"
        " exists that guesses better."
    )
    assert closure_statement(report()) == f"5 of 2000 proposed items are accepted. For each of them{begin}{end}"
    assert closure_statement(report(unproven=unproven, settled_sufficiency=2, not_blind=4, partial_answers=9)) == (
        "5 of 2000 proposed items are accepted. The statement is withheld for 3 accepted items: y (2); x (1). For 2 of"
        f" them{begin} Of these, 3 were judged so by both annotators and 2 by an adjudicator after the annotators"
        " disagreed. In 4 of 9 answers about a partial set, the annotator had seen other clips of the video before."
        f"{end}"
    )
    every = closure_statement(report(accepted=1, unproven={"c1": "x"}))
    assert every == "The statement is withheld for 1 accepted item: x (1)."


@pytest.mark.parametrize(
    ("looking", "reason"),
    [
        (Looking(0.9, 15, 15), ""),
        (None, "no record of what was played"),
        (Looking(0.89, 15, 15), "an interval was not played"),
        (Looking(1, 15, 30), "judged faster than the clips are long"),
    ],
)
def test_the_statement_is_withheld_where_nobody_looked(looking: Looking | None, reason: str) -> None:
    settings = BuildSettings(watched_share=0.9, least_pace=1.0, gold_accuracy=0.5)
    pen = accepted_items(looking)
    for number, (is_right, expected) in enumerate(
        ((True, reason), (False, reason), (False, reason or "an annotator got too many gold items wrong"))
    ):
        pen.propose(f"g{number}").gold(f"g{number}", accept=is_right).verify(f"g{number}", "cat")
        assert make_report(pen.ledger, settings).unproven == ({"c0": expected} if expected else {})


@pytest.mark.parametrize(
    ("accept", "verdict", "is_right"),
    [
        (True, Verification(True, EVIDENCE), True),
        (True, Verification(True, HALF), True),
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
    pen = Pen().propose("g1").gold("g1", accept=accept).write("g1", "verification/ann", "ann", verdict.to_json())
    record = make_report(pen.ledger).annotators["ann"]
    assert (record.gold_judged, record.gold_right) == (1, is_right)
