"""The paper's numbers are the paper's, and stand beside ours."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from paper_tables import ABLATIONS, PAPER_METHODS, paper_tables, public_table
from trace_ves.core import InputError, Interval, Question
from trace_ves.records import Item, Prediction
from trace_ves.runs.methods import open_method
from trace_ves.ves import audit
from trace_ves.ves.paper import paper

PRINTED = Path(__file__).parent / "golden" / "printed.txt"
"""Every row of the paper's tables as it is printed there, bold and underline aside: the label, then its numbers."""


Line = tuple[str, list[float | None]]


def printed(table: str) -> list[Line]:
    """The rows of one of these tables: each label and its numbers."""
    lines = PRINTED.read_text(encoding="utf-8").partition(f"[{table}]\n")[2].partition("[")[0].splitlines()
    cells = [line.split(" | ") for line in lines]
    return [(label, [None if word == "--" else float(word) for word in rest.split()]) for label, rest in cells]


def row(label: str, *numbers: float | list[float] | None) -> Line:
    """A row of ours; a list is the three density levels."""
    return label, [part for value in numbers for part in (value if isinstance(value, list) else [value])]


def test_the_main_table_is_the_papers() -> None:
    known = paper()["methods"]
    main = [known[method] for method in PAPER_METHODS if "Fr" in known[method]]
    direct = [{"label": label, "Fr": 64} | numbers for label, numbers in paper()["direct"].items()]
    ours = [
        row(each["label"], each["Fr"], each["Acc"], *map(each.get, ("EP", "AR", "Cov")), each["ECA"])
        for each in [*main[:7], *direct, *main[7:]]
    ]
    assert ours == printed("main")


def test_the_ablations_are_the_papers_at_every_density() -> None:
    known = [paper()["methods"][method] for method in ABLATIONS]
    headline = [row(each["label"], each["Acc"], each["EP"], each["Cov"][1], each["ECA"][1]) for each in known]
    assert headline == printed("ablation")
    assert [row(each["label"], each["Acc"], each["Cov"], each["ECA"]) for each in known] == printed("densities")


def test_the_families_are_the_papers() -> None:
    ordering, counting = paper()["families"]["temporal-ordering"], paper()["families"]["event-counting"]
    labels = {method: paper()["methods"][method]["label"] for method in ordering}
    ours = [
        row(labels[method], each["Acc"], each["ECA"], counting[method]["Acc"], counting[method]["ECA"])
        for method, each in ordering.items()
        if "ECA" in each
    ]
    assert ours == printed("families")
    assert (ordering["blind"], counting["blind"]) == ({"Acc": 25.0}, {"Acc": 25.7})


def test_the_half_widths_are_the_papers() -> None:
    ours = [
        row(
            each["label"].replace("Gemini-3-Flash", "G3F"),
            *(each["Acc"], each["half_width"]["Acc"], each["EP"], each["half_width"]["EP"]),
            *(each["Cov"][1], each["half_width"]["Cov"], each["ECA"][1], each["half_width"]["ECA"]),
        )
        for each in paper()["methods"].values()
        if "half_width" in each
    ]
    assert ours == printed("intervals")


def test_the_public_benchmarks_are_the_papers() -> None:
    columns = ("video-mme", "lvbench", "longvideobench")
    ours = [row(label, *(each.get(column) for column in columns)) for label, each in paper()["public"].items()]
    assert ours == printed("public")


def test_the_figures_of_the_text_are_the_papers() -> None:
    methods = paper()["methods"]
    assert {name: each["Uncov-Corr"] for name, each in methods.items() if "Uncov-Corr" in each} == {
        "avp": 19.3,
        "uniform-128": 17.3,
        "uniform-256": 3.3,
        "trace": 12.8,
    }
    assert paper()["counterfactual"] == {"predictions": 304, "evidence": 78.0, "control": 6.9}
    assert list(paper()["bench"].values()) == [600, 348, 13.7, 434, 3.4, 16.2]
    assert list(paper()["construction"].values()) == [1024, 820, 700, 640, 600, 58.6, 13.8, 470, 0.83, 91.3]
    for numbers in (each for each in methods.values() if "Uncov-Corr" in each):
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
