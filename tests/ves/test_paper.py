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

TABLES = """
[public]
Gemini-2.5-Flash | 74.2 62.2 66.2
Gemini-2.5-Pro | 82.4 67.4 69.8
Qwen3-VL-30B-A3B | 79.2 67.7 --
AdaReTaKe-72B | 73.5 53.3 67.0
Qwen2.5-VL-72B | 72.6 47.3 65.9
VideoLucy (DS-R1+Qwen2.5-VL-7B) | 72.5 58.8 --
DeepVideoDiscovery (OpenAI o3) | -- 74.2 71.6
VCA (GPT-4o) | -- 41.3 --
VCA (Gemini-2.5-Pro) | 66.0 52.3 60.7
AVP (Gemini-2.5-Pro) | 85.3 74.8 73.4
TRACE (Gemini-2.5-Pro) | 86.1 75.6 75.1
[main]
Random | 0 25.0 -- -- -- 0.0 0.0 0.0
Blind GPT-4-Turbo (text-only) | 0 25.3 -- -- -- 0.0 0.0 0.0
Gemini-3-Flash, 16 | 16 35.3 13.7 1.00 19.8 4.0 1.7 9.2 2.5 1.3
Gemini-3-Flash, 32 | 32 42.7 14.0 1.02 48.0 13.2 5.2 20.7 6.7 3.2
Gemini-3-Flash, 64 | 64 43.8 13.7 1.00 82.2 34.3 16.3 36.8 15.5 8.2
Gemini-3-Flash, 128 | 128 57.5 13.8 1.01 97.8 74.7 45.0 56.0 40.2 22.3
Gemini-3-Flash, 256 | 256 56.7 13.7 1.00 99.7 95.5 81.8 56.5 53.3 44.5
Doubao-Seed-2.0 | 64 27.2 -- -- -- 22.2 8.3 4.5
Qwen3-VL-8B | 64 43.7 -- -- -- 36.3 14.3 7.5
Qwen3-VL-30B-A3B | 64 44.3 -- -- -- 38.5 15.2 8.0
Qwen3.6-35B-A3B | 64 47.5 -- -- -- 39.5 14.7 7.7
Gemini-2.5-Pro | 64 48.7 -- -- -- 40.2 15.7 7.2
VCA | 34.6 37.8 16.9 1.23 22.0 5.8 2.0 8.3 3.3 1.5
AVP | 101.3 59.0 13.7 1.00 95.3 68.2 43.3 58.2 39.7 20.8
TRACE | 98.7 63.5 29.1 2.12 98.3 78.5 60.3 63.0 50.7 39.0
[families]
Gemini-3-Flash, 64 | 49.7 37.0 6.3 1.0 38.0 36.7 24.7 15.3
Gemini-3-Flash, 128 | 75.0 72.0 45.3 14.7 40.0 40.0 35.0 30.0
Gemini-3-Flash, 256 | 74.3 74.0 67.7 52.7 39.0 39.0 39.0 36.3
VCA | 48.0 2.7 0.0 0.0 27.7 14.0 6.7 3.0
AVP | 78.3 76.7 43.3 12.3 39.7 39.7 36.0 29.3
TRACE | 82.0 82.0 64.3 41.3 45.0 44.0 37.0 36.7
[ablation]
TRACE | 63.5 29.1 78.5 50.7
w/o final answer replay | 59.7 28.2 77.3 42.0
w/o growth trajectory | 55.0 19.4 56.3 27.5
w/o EXPAND | 53.0 26.4 49.0 25.5
fixed-round stopping | 52.3 25.7 47.2 24.0
[intervals]
G3F, 64 | 43.8 3.8 13.7 1.1 34.3 3.8 15.5 2.8
G3F, 128 | 57.5 3.9 13.8 1.1 74.7 3.2 40.2 3.9
G3F, 256 | 56.7 4.1 13.7 1.1 95.5 1.7 53.3 4.2
VCA | 37.8 3.9 16.9 1.0 5.8 1.9 3.3 1.4
AVP | 59.0 3.9 13.7 0.4 68.2 3.7 39.7 3.9
TRACE | 63.5 3.9 29.1 1.5 78.5 3.3 50.7 4.0
[densities]
TRACE | 63.5 98.3 78.5 60.3 63.0 50.7 39.0
w/o final answer replay | 59.7 97.8 77.3 59.5 58.0 42.0 31.0
w/o growth trajectory | 55.0 90.3 56.3 30.5 49.5 27.5 16.3
w/o EXPAND | 53.0 84.2 49.0 24.8 44.0 25.5 13.7
fixed-round stopping | 52.3 82.3 47.2 23.5 43.5 24.0 13.0
"""
"""Every row of the paper's tables as it is printed there, bold and underline aside: the label, then its numbers."""


Line = tuple[str, list[float | None]]


def printed(table: str) -> list[Line]:
    """The rows of one of these tables: each label and its numbers."""
    lines = TABLES.partition(f"[{table}]\n")[2].partition("[")[0].splitlines()
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
