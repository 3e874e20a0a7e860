"""The paper's numbers are the paper's, and stand beside ours."""

import hashlib
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from paper_tables import PAPER_METHODS, paper_tables, public_table
from trace_ves.core import InputError, Interval, Question
from trace_ves.records import Item, Prediction
from trace_ves.runs.methods import open_method
from trace_ves.ves import audit
from trace_ves.ves.paper import paper

CHECKED = "08c0ee3f84066ea0"
"""Of the numbers, after each of them was compared with the paper. Compare every number that you change."""


def test_the_numbers_are_those_that_were_compared_with_the_paper() -> None:
    assert hashlib.sha256(json.dumps(paper(), sort_keys=True).encode()).hexdigest()[:16] == CHECKED
    with_buckets = [each for each in paper()["methods"].values() if "Uncov-Corr" in each]
    assert len(with_buckets) == 4
    for numbers in with_buckets:
        # Acc = Cov-Corr + Uncov-Corr, up to the rounding of each
        assert abs(numbers["Acc"] - numbers["ECA"][1] - numbers["Uncov-Corr"]) < 0.16


def test_every_row_is_a_method_we_have() -> None:
    assert set(paper()["methods"]) == set(PAPER_METHODS)
    for method in PAPER_METHODS:
        assert callable(open_method(method))


def test_ours_stand_beside_the_papers() -> None:
    items = [
        Item(Question(f"q{n}", "v", "?", ("a", "b"), "temporal-ordering"), "A", (Interval(0, 5),), 10.0)
        for n in range(4)
    ]
    runs = {
        "uniform-64": [Prediction(item.question.id, "A", (1.0, 2.0), 64, method="uniform-64") for item in items],
        "mine": [Prediction(item.question.id, "A", method="my.own:method") for item in items],
    }
    found = {table.key: table for table in paper_tables(audit(items, runs, resamples=10))}
    assert set(found) == {"paper-main", "paper-temporal-ordering", "paper-intervals", "paper-direct"}

    def texts(table: str) -> str:
        [line] = found[table].sections[0].rows
        return " ".join([line.name, *("/".join(value.text for value in cell) for cell in line.cells)])

    assert texts("paper-intervals") == "uniform-64 0.0/3.8 0.0/1.1 0.0/3.8 0.0/2.8"
    ours, theirs = found["paper-direct"].sections
    assert [row.name for row in ours.rows] == ["uniform-64"]
    assert len(theirs.rows) == 5
    assert texts("paper-main").startswith("uniform-64 64.0/64.0 100.0/43.8 100.0/13.7 2.00/1.00 ")


def test_a_public_benchmark_stands_over_the_papers_column() -> None:
    items = [Item(Question(f"q{n}", "v", "?", ("a", "b")), "A", (), 10.0) for n in range(4)]
    runs = {"trace": [Prediction(item.question.id, "A", method="trace") for item in items]}
    ours, theirs = public_table(audit(items, runs, resamples=10), "lvbench").sections
    assert [(row.name, row.cells[0][0].text) for row in ours.rows] == [("trace", "100.0")]
    assert ("TRACE (Gemini-2.5-Pro)", "75.6") in [(row.name, row.cells[0][0].text) for row in theirs.rows]
    with pytest.raises(InputError, match="the paper has no column 'mvbench'"):
        public_table(audit(items, runs, resamples=10), "mvbench")
