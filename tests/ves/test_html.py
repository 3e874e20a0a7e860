"""Reports in a notebook and as files: the numbers of the tables, and nothing that a file says becomes markup."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from trace_ves import audit
from trace_ves.benches import load_bench
from trace_ves.core import InputError, Interval, Question
from trace_ves.records import Item, Prediction
from trace_ves.runs.cost import RunCost
from trace_ves.runs.evaluate import Results
from trace_ves.runs.prices import load_prices
from trace_ves.ves import Run, load_runs
from trace_ves.ves.renderers import REPORT_FORMATS, dump_json

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "audit"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"' & \x1b[31m"


class Tags(HTMLParser):
    """Every tag and attribute of a page, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.words += data + " "


def example() -> Any:
    bench = load_bench(EXAMPLE)
    return audit(bench.items, load_runs([EXAMPLE / "mine.jsonl", EXAMPLE / "blind.jsonl"]))


def hostile() -> Any:
    item = Item(
        Question("q1", "v.mp4", "Which?", ("x", "y"), family=HOSTILE), "A", (Interval(1, 2),), 10.0, {"group": HOSTILE}
    )
    runs = [Run(HOSTILE, [Prediction("q1", "A", (1.5,), 1, method=HOSTILE, backbone=HOSTILE, error=HOSTILE)])]
    return Results(tuple(runs), audit([item], runs), (RunCost.of(HOSTILE, runs[0].predictions, None),))


def test_what_a_file_says_stays_text() -> None:
    results = hostile()
    for shown in (results._repr_html_(), results.audit._repr_html_()):
        page = Tags(shown)
        assert not page.tags & {"script", "img"}
        assert page.attributes <= {"style", "colspan"}
        assert "<script>alert(1)</script>" in page.words


def test_a_report_is_saved_by_its_suffix(tmp_path: Path) -> None:
    report = example()
    written = {
        suffix: report.save(tmp_path / "new" / f"audit{suffix}").read_text(encoding="utf-8")
        for suffix in REPORT_FORMATS
    }
    precision = report.run("mine").metrics["EP"]
    assert json.loads(written[".json"]) == report.to_json()
    assert dump_json({"é": [0.5]}) == '{\n  "é": [\n    0.5\n  ]\n}\n'
    assert all(f"{precision:.1f}" in written[suffix] for suffix in (".md", ".tex", ".html", ".txt"))
    assert f",EP,{round(precision, 6)}," in written[".csv"]
    assert written[".txt"] == f"{report}\n"
    assert written[".html"].startswith("<!doctype html>")


def test_other_suffixes_and_run_files_are_refused(tmp_path: Path) -> None:
    report = example()
    with pytest.raises(InputError, match=r"must end with one of \.json, \.csv"):
        report.save(tmp_path / "audit.xlsx")
    runs = load_runs([EXAMPLE / "mine.jsonl"])
    costs = (RunCost.of("mine", runs[0].predictions, load_prices().of("mine")),)
    results = Results(tuple(runs), report, costs)
    assert json.loads(results.save(tmp_path / "results.json").read_text())["runs"][0]["name"] == "mine"
    assert "VES audit" in results.save(tmp_path / "results.html").read_text()
    link = tmp_path / "link.json"
    link.symlink_to(EXAMPLE / "mine.jsonl")
    with pytest.raises(InputError, match="is an input"):
        results.save(link)
