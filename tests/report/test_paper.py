"""The paper's numbers are the paper's, and stand beside ours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from trace_ves.core import Interval, Item, Question
from trace_ves.methods import open_method
from trace_ves.records import Prediction
from trace_ves.report.paper import PAPER_METHODS, paper, paper_tables
from trace_ves.ves import audit

if TYPE_CHECKING:
    from pathlib import Path


def rows_of(tex: str, label: str) -> list[list[float]]:
    """The numbers of every table row of the paper with this label."""
    start = rf"^\s*(?:\\;\\;)?{re.escape(label)}\s*&(.*)\\\\"
    plain = [re.sub(r"\\[a-z]+\{|[{}]|_\{.*?\}", "", row) for row in re.findall(start, tex, re.MULTILINE)]
    return [[float(number) for number in re.findall(r"\d+(?:\.\d+)?", row)] for row in plain]


def flat(numbers: dict[str, Any], keys: tuple[str, ...]) -> list[float]:
    found: list[float] = []
    for key in keys:
        value = numbers.get(key, [])
        found += value if isinstance(value, list) else [value]
    return found


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_every_row_is_the_papers(shared: Path, method: str) -> None:
    tex = (shared / "paper/trace.tex").read_text()
    numbers = paper()["methods"][method]
    rows = rows_of(tex, numbers["label"])
    main = flat(numbers, ("Fr", "Acc", "EP", "AR", "Cov", "ECA"))
    full_ablation = flat(numbers, ("Acc", "Cov", "ECA"))
    assert main in rows or full_ablation in rows
    ablation = [numbers["Acc"], numbers["EP"], numbers["Cov"][1], numbers["ECA"][1]]
    assert not method.startswith("trace-") or ablation in rows


def test_every_family_row_is_the_papers(shared: Path) -> None:
    tex = (shared / "paper/trace.tex").read_text()
    ordering, counting = paper()["families"]["temporal-ordering"], paper()["families"]["event-counting"]
    for method in ordering:
        row = flat(ordering[method], ("Acc", "ECA")) + flat(counting[method], ("Acc", "ECA"))
        assert row in rows_of(tex, paper()["methods"][method]["label"])


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
    assert set(found) == {"paper-main", "paper-temporal-ordering"}
    [row] = found["paper-main"].sections[0].rows
    assert row.name == "uniform-64"
    assert [[value.text for value in cell] for cell in row.cells[:4]] == [
        ["64.0", "64.0"],
        ["100.0", "43.8"],
        ["100.0", "13.7"],
        ["2.00", "1.00"],
    ]
