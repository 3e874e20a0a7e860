"""What is counted, what is not, and how it is printed."""

from __future__ import annotations

from dataclasses import replace

from trace_ves.core import Interval
from trace_ves.records.audit_report import CLIPS, Masked, Outcome
from trace_ves.runs.counterfactual import FlipRate, Summary, flip_table, summarise

SPAN = Interval(1, 2)
KEPT = Masked(SPAN, (1.5,), (3.0,), "A", changed=False)
CHANGED = replace(KEPT, answer="B", changed=True)
SILENT = replace(KEPT, answer=None)


def outcome(evidence: Masked | None, control: Masked | None = KEPT, *, replayed: str = "A") -> Outcome:
    return Outcome("q", "A", replayed, evidence=evidence, control=control)


def test_every_outcome_is_counted_once_and_in_its_place() -> None:
    outcomes = [
        outcome(CHANGED),
        outcome(CHANGED),
        outcome(KEPT),
        outcome(SILENT, None),
        outcome(None, None),
        outcome(CHANGED, replayed="B"),
        replace(outcome(None, None), error="down"),
        replace(outcome(None, None), error="down"),
    ]
    found = summarise(outcomes)
    assert (found.eligible, found.failed, found.not_reproduced, found.no_mask, found.no_control) == (8, 2, 1, 1, 1)
    assert (found.evidence.questions, found.evidence.percent, found.evidence.no_answer) == (4, 50.0, 25.0)
    assert (found.control.questions, found.control.percent, found.control.no_answer) == (3, 0.0, 0.0)
    told = found.to_json()
    assert (told["eligible"], told["not_reproduced"], told["no_mask"], told["no_control"]) == (8, 1, 1, 1)


def test_outcomes_of_version_0_1_are_counted_where_they_are_masked() -> None:
    old = replace(outcome(KEPT), control_of=CLIPS)
    found = summarise([old, old, outcome(KEPT), replace(outcome(None, None), control_of=CLIPS)])
    assert found.older == found.to_json()["older"] == 2


def test_the_interval_is_that_of_seed_0_unless_another_is_given() -> None:
    outcomes = [outcome(CHANGED if number % 3 else KEPT) for number in range(25)]
    bounds = [summarise(outcomes, resamples=50, seed=seed).evidence.ci95 for seed in range(2)]
    assert summarise(outcomes, resamples=50).evidence.ci95 == bounds[0] != bounds[1]


def test_nothing_masked_has_no_rate() -> None:
    found = summarise([outcome(None, None)])
    assert found.evidence == FlipRate(0, None, None)
    assert found.evidence.to_json() == {"questions": 0, "changed": None, "ci95": None, "no_answer": None}


def test_rates_are_written_to_four_places() -> None:
    rate = FlipRate(3, 100 / 3, (10.00004, 66.66666), 100 / 7)
    assert rate.to_json() == {"questions": 3, "changed": 33.3333, "ci95": [10.0, 66.6667], "no_answer": 14.2857}


def test_the_table_prints_half_the_width_of_the_interval() -> None:
    summary = Summary(10, 1, 2, 3, 4, FlipRate(9, 50.0, (20.0, 60.0), 5.0), FlipRate(0, None, None), older=0)
    table = flip_table(summary, "trace")
    evidence, control = table.sections[0].rows
    assert evidence.cells[1][0].text == "50.0"
    assert evidence.cells[1][0].plus_minus == "20.0"
    assert control.cells[1][0].plus_minus is None
    assert "10 predictions are correct and covered; 1 of them do not get" in table.note
    assert "2 have nothing to mask, 3 have no control, 4 failed" in table.note
    assert "version 0.1" not in table.note
    assert "7 stand in a log of version 0.1" in flip_table(replace(summary, older=7), "trace").note
