"""The tables: the paper's own bold and underline from its own numbers, in every format; hostile names; figures."""

import csv
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from trace_ves.core import Interval, Question
from trace_ves.records import Call, Item, Prediction
from trace_ves.ves import audit
from trace_ves.ves.paper import MAIN_METHODS, paper
from trace_ves.ves.renderers import REPORT_FORMATS, latex_table, report_csv, report_latex, report_markdown
from trace_ves.ves.report import AuditReport, BenchFigures, GroupFigures, RunFigures
from trace_ves.ves.table import Column, Row, Section, Table, as_value
from trace_ves.ves.tables import complete_title, main_table, tables
from trace_ves.ves.terminal import print_table


def paper_report(methods: Sequence[str] = MAIN_METHODS) -> AuditReport:
    """The main audit table as published, without the block of other backbones."""
    runs = []
    for name in methods:
        known = paper()["methods"][name]
        metrics = {metric: known.get(metric) for metric in ("Fr", "Acc", "EP", "AR")}
        metrics |= {f"{kind}@{k}": known.get(kind, (None,) * 3)[k - 1] for kind in ("Cov", "ECA") for k in (1, 2, 3)}
        metrics |= {"Cov-Corr@2": metrics["ECA@2"], "Uncov-Corr@2": metrics["Acc"] - metrics["ECA@2"]}
        metrics["Wrong"] = 100 - metrics["Acc"]
        bounds = {metric: None if value is None else (value - 1, value + 1) for metric, value in metrics.items()}
        backbone = "" if metrics["Fr"] == 0 else "gemini-3-flash"
        families = {"temporal-ordering": metrics, "event-counting": metrics}
        accuracy = GroupFigures(600, metrics["Acc"])
        runs.append(
            RunFigures(name, name, backbone, False, "bench:paper|k:2", 600, metrics, bounds, bounds, families, accuracy)
        )
    bench = BenchFigures(600, 600, 348, 13.7, {"temporal-ordering": 300, "event-counting": 300}, 434.0, 3.4, 16.2)
    return AuditReport("bench:paper|k:2", bench, tuple(runs), (), (), k=2)


def test_bold_and_underline_are_the_papers() -> None:
    table = main_table(paper_report())
    marks: dict[str, list[str]] = {"best": [], "second": [], "plain": []}
    for row in (row for section in table.sections for row in section.rows):
        for column, cell in zip(table.columns, row.cells, strict=True):
            for place, value in enumerate(cell):
                marks[value.mark.value].append(f"{column.title.split()[0]} {place}: {row.name} {value.text}")
    assert sorted(marks["best"]) == [
        *("AR 0: trace 2.12", "Acc 0: trace 63.5"),
        *("Cov@k 0: uniform-256 99.7", "Cov@k 1: uniform-256 95.5", "Cov@k 2: uniform-256 81.8"),
        *("ECA@k 0: trace 63.0", "ECA@k 1: uniform-256 53.3", "ECA@k 2: uniform-256 44.5", "EP 0: trace 29.1"),
    ]
    assert sorted(marks["second"]) == [
        *("AR 0: vca 1.23", "Acc 0: avp 59.0"),
        *("Cov@k 0: trace 98.3", "Cov@k 1: trace 78.5", "Cov@k 2: trace 60.3"),
        *("ECA@k 0: avp 58.2", "ECA@k 1: trace 50.7", "ECA@k 2: trace 39.0", "EP 0: vca 16.9"),
    ]
    assert [row.name for section in table.sections for row in section.rows] == list(MAIN_METHODS)
    assert not re.search("textbf|underline", latex_table(main_table(paper_report(["trace"]))))  # no contest


HOSTILE = "a_b & 50% $x$ #1 {y} \\z ~^<>| | *em* `c` [l] \x1b[31m café 狮 \n new"


def small_bench(families: int = 2) -> list[Item]:
    return [
        Item(
            Question(f"q{i}", f"v{i % 3}", "?", ("a", "b"), f"family_{i % families}"),
            "A",
            (Interval(10, 20), Interval(40, 50)),
            100.0,
            {"domain": "x" if i % 2 else "y & z"},
        )
        for i in range(12)
    ]


def small_report(name: str = "mine", families: int = 2, **options) -> AuditReport:
    items = small_bench(families)
    mine = [
        Prediction(it.question.id, "AB"[i % 2], (15.0, 16.0, 45.0, 46.0), 9, observations=(Call("look", (1.0,) * 9),))
        for i, it in enumerate(items)
    ]
    other = [Prediction(it.question.id, "A", (float(i),), 1) for i, it in enumerate(items)]
    return audit(items, {name: mine, "other": other}, samplers=(8,), resamples=50, **options)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles_alone_with_hostile_names_and_inside_a_paper(tmp_path: Path) -> None:
    def compile_file(name: str, text: str) -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", name]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
        log = result.stdout.decode("latin-1")
        assert result.returncode == 0, log[-1500:]
        return log

    assert "Output written" in compile_file("tables.tex", report_latex(small_report(HOSTILE, families=5)))
    assert "Overfull" not in compile_file("tables.tex", report_latex(paper_report()))
    paper = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n\\input{tables}\nafter\\end{document}\n"
    assert "Output written" in compile_file("paper.tex", paper)


def test_markdown_keeps_its_columns_with_hostile_names() -> None:
    text = report_markdown(small_report(HOSTILE))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert sum("café" in line for line in lines) == 5  # the run, and the pair of runs
    assert "new | 9 | 50.0 |" in text
    columns = [len(re.findall(r"(?<!\\)\|", line)) for line in lines]
    rules = [place for place, line in enumerate(lines) if line.startswith("|:---")]
    assert all(columns[rule - 1] == columns[rule] for rule in rules)
    named = [place for place, line in enumerate(lines) if "café" in line]
    assert all(columns[place] == columns[max(rule for rule in rules if rule < place)] for place in named)


@pytest.mark.parametrize("suffix", REPORT_FORMATS)
def test_no_report_moves_the_cursor_and_no_cell_of_a_csv_is_a_formula(
    suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    for name in ("=1+1", "+cmd", "-2", "@SUM(A1)", "\t=1+1", " =1", "\r\x1b[31m"):
        text = REPORT_FORMATS[suffix](small_report(name))
        assert all(character.isprintable() or character == "\n" for character in text)
        cells = [row["run"] for row in csv.DictReader(io.StringIO(text))] if suffix == ".csv" else []
        assert not any(cell.strip().startswith(("=", "+", "-", "@")) for cell in cells)


def test_the_sign_of_a_difference_is_that_of_the_title_and_all_formats_agree() -> None:
    items = small_bench()
    good = [Prediction(each.question.id, "A", (15.0, 16.0, 45.0, 46.0), 4) for each in items]
    poor = [replace(each, answer="B" if at < 3 else "A", timestamps=(15.0,)) for at, each in enumerate(good)]
    for runs in ({"good": good, "poor": poor}, {"poor": poor, "good": good}):
        report = audit(items, runs, resamples=50)
        (table,) = [table for table in tables(report) if table.key == "comparisons"]
        assert (table.title.split(" minus")[0], table.first_column) == ("good", "Against")
        shown = {
            column.title: cell[0].text.split()[0]
            for column, cell in zip(table.columns, table.sections[0].rows[0].cells, strict=True)
        }
        assert (shown["Acc"], shown["Cov@2"], shown["ECA@2"]) == ("+25.0", "+100.0", "+100.0")
        in_json = {(each["a"], each["metric"]): each["difference"] for each in report.to_json()["comparisons"]}
        first = next(iter(runs))
        sign = 1 if first == "good" else -1
        assert in_json[first, "Acc"] == 25.0 * sign
        written = {(row["run"], row["metric"]): row for row in csv.DictReader(io.StringIO(report_csv(report)))}
        second = next(name for name in runs if name != first)
        assert float(written[f"{first} minus {second}", "Acc"]["value"]) == 25.0 * sign
        assert "+25.0 p=" in report_latex(report)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_in_a_terminal_a_wide_table_is_split_and_no_line_runs_on(width: int) -> None:
    columns = tuple(Column(f"column-{n}", group="the second half" if n >= 10 else "") for n in range(20))
    row = Row("trace", tuple((as_value(float(n)),) for n in range(20)))
    table = Table("wide", "Wide", columns, (Section("", (row,)),))
    out = io.StringIO()
    print_table(table, Console(file=out, width=width, force_terminal=True, no_color=True, color_system=None))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    assert any("the second half" in line for line in lines)
    assert sum(line.startswith("trace") for line in lines) == sum(line.startswith("Wide") for line in lines) > 1
    assert all(sum(f"column-{n}" in line.split() for line in lines) == 1 for n in range(20))


def test_a_title_says_what_is_missing() -> None:
    report = paper_report()
    lacking = [replace(report, runs=tuple(replace(run, missing=3) for run in report.runs[:count])) for count in (2, 3)]
    assert [complete_title(each, "X") for each in lacking] == [
        "X, incomplete: random lacks 3 of 600; blind lacks 3 of 600",
        "X, incomplete: 3 of 3 runs lack questions",
    ]


def test_the_signature_pins_the_bench() -> None:
    items = small_bench()

    def signature(items: list[Item], **options: int) -> str:
        return audit(items, samplers=(4,), resamples=2, **options).signature

    base = signature(items)
    assert re.fullmatch(
        r"bench:[0-9a-f]{12}\|questions:12\|with-evidence:12\|k:2\|intervals:closed\|ci:percentile-bootstrap"
        r"\|resamples:2\|seed:0\|version:.+",
        base,
    )
    moved = replace(items[0], evidence=(Interval(10, 20.5), Interval(40, 50)))
    others = (moved, replace(items[0], answer="B"), replace(items[0], duration=100.5))
    assert base not in {signature(items, seed=1), *(signature([other, *items[1:]]) for other in others)}


def test_an_audit_needs_no_decoder_no_client_and_no_drawing_library() -> None:
    heavy = ("av", "simplejpeg", "openai", "google", "anthropic", "matplotlib", "pyarrow", "torch", "pandas")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({heavy}))\n"  # Python's own way to make an import fail
        "import trace_ves.benches\n"
        "from trace_ves import Interval, Item, Prediction, Question, audit\n"
        "item = Item(Question('q', 'v', '?', ('a', 'b')), 'A', (Interval(1, 2),), 10.0)\n"
        "print(audit([item], [Prediction('q', 'A', (1.5,), 1, method='mine')]))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert "mine" in result.stdout
