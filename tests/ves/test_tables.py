"""The tables: the paper's own bold and underline from its own numbers, in every format; hostile names; figures."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from trace_ves.core import Interval, Question
from trace_ves.records import Call, Item, Prediction
from trace_ves.ves import audit
from trace_ves.ves.renderers import latex_table, report_csv, report_latex, report_markdown
from trace_ves.ves.report import AuditReport, BenchFigures, GroupFigures, RunFigures
from trace_ves.ves.table import Column, Row, Section, Table, number
from trace_ves.ves.tables import main_table, tables, title
from trace_ves.ves.terminal import print_report, print_table

PAPER = """\
random       | 0     | 25.0 | -    | -    | -                  | 0.0 / 0.0 / 0.0
blind        | 0     | 25.3 | -    | -    | -                  | 0.0 / 0.0 / 0.0
uniform-16   | 16    | 35.3 | 13.7 | 1.00 | 19.8 / 4.0 / 1.7   | 9.2 / 2.5 / 1.3
uniform-32   | 32    | 42.7 | 14.0 | 1.02 | 48.0 / 13.2 / 5.2  | 20.7 / 6.7 / 3.2
uniform-64   | 64    | 43.8 | 13.7 | 1.00 | 82.2 / 34.3 / 16.3 | 36.8 / 15.5 / 8.2
uniform-128  | 128   | 57.5 | 13.8 | 1.01 | 97.8 / 74.7 / 45.0 | 56.0 / 40.2 / 22.3
uniform-256  | 256   | 56.7 | 13.7 | 1.00 | B99.7 / B95.5 / B81.8 | 56.5 / B53.3 / B44.5
vca          | 34.6  | 37.8 | U16.9 | U1.23 | 22.0 / 5.8 / 2.0 | 8.3 / 3.3 / 1.5
avp          | 101.3 | U59.0 | 13.7 | 1.00 | 95.3 / 68.2 / 43.3 | U58.2 / 39.7 / 20.8
trace        | 98.7  | B63.5 | B29.1 | B2.12 | U98.3 / U78.5 / U60.3 | B63.0 / U50.7 / U39.0
"""
"""The main audit table as published, without the block of other backbones; B is bold, U is underlined."""


def paper_report(lines: str = PAPER) -> AuditReport:
    names = ["Fr", "Acc", "EP", "AR", "Cov@1", "Cov@2", "Cov@3", "ECA@1", "ECA@2", "ECA@3"]
    runs = []
    for line in lines.splitlines():
        name, *cells = (cell.strip() for cell in line.split("|"))
        numbers: list[float | None] = []
        for cell in cells:
            numbers += [None] * (3 if len(numbers) == 4 else 1) if cell == "-" else _numbers(cell)
        metrics = dict(zip(names, numbers, strict=True))
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


def _numbers(cell: str) -> list[float]:
    return [float(part.strip(" BU")) for part in cell.split("/")]


def test_bold_and_underline_are_the_papers() -> None:
    shown = []
    for section in main_table(paper_report()).sections:
        for row in section.rows:
            cells = [
                " / ".join({"best": "B", "second": "U"}.get(value.mark.value, "") + value.text for value in cell)
                for cell in row.cells
            ]
            shown.append(" | ".join([row.name, *(cell.replace("--", "-") for cell in cells)]))
    expected = [re.sub(r"\s*\|\s*", " | ", line) for line in PAPER.splitlines()]
    assert shown == expected
    alone = latex_table(main_table(paper_report(PAPER.splitlines()[-1])))
    assert not re.search("textbf|underline", alone)  # one run has no contest


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
    columns = [len(re.findall(r"(?<!\\)\|", line)) for line in lines]
    rules = [place for place, line in enumerate(lines) if line.startswith("|:---")]
    assert all(columns[rule - 1] == columns[rule] for rule in rules)
    named = [place for place, line in enumerate(lines) if "café" in line]
    assert all(columns[place] == columns[max(rule for rule in rules if rule < place)] for place in named)
    assert "\x1b" not in text
    assert "**" in text


def test_no_cell_of_a_csv_is_a_formula_or_moves_the_cursor() -> None:
    for name in ("=1+1", "+cmd", "-2", "@SUM(A1)", "\t=1+1", " =1", "\r\x1b[31m"):
        text = report_csv(small_report(name))
        assert all(character.isprintable() or character == "\n" for character in text)
        names = {row["run"] for row in csv.DictReader(io.StringIO(text))}
        assert not any(each.strip().startswith(("=", "+", "-", "@")) for each in names)


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


def test_print_shows_tables_and_signature_and_nothing_that_moves_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = str(small_report("evil\x1b[2J\r"))
    titles = ("VES audit", "Per-family breakdown", "95% bootstrap intervals", "paired bootstrap")
    assert all(title in text for title in titles)
    assert text.splitlines()[-1].startswith("bench:")
    assert "\x1b" not in text
    assert "\r" not in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_in_a_terminal_a_wide_table_is_split_and_no_line_runs_on(width: int) -> None:
    columns = tuple(Column(f"column-{n}") for n in range(20))
    row = Row("trace", tuple((number(float(n)),) for n in range(20)))
    table = Table("wide", "Wide", columns, (Section("", (row,)),))
    out = io.StringIO()
    print_table(table, Console(file=out, width=width, force_terminal=True, no_color=True, color_system=None))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.startswith("trace") for line in lines) == sum(line.startswith("Wide") for line in lines) > 1
    assert all(sum(f"column-{n}" in line.split() for line in lines) == 1 for n in range(20))


def test_a_terminal_shows_the_marks_and_a_title_says_what_is_missing() -> None:
    report, out = paper_report(), io.StringIO()
    print_report(report, Console(file=out, width=200, force_terminal=True, color_system="standard"))
    assert "\x1b[1m63.5" in out.getvalue()
    assert "\x1b[4m59.0" in out.getvalue()
    lacking = replace(report, runs=tuple(replace(run, missing=3) for run in report.runs[:2]))
    assert title(lacking, "X") == "X, incomplete: random lacks 3 of 600; blind lacks 3 of 600"


@pytest.mark.parametrize("width", [30, 80, 200])
def test_no_terminal_is_too_narrow_for_a_digit(width: int) -> None:
    out = io.StringIO()
    print_report(paper_report(), Console(file=out, width=width))
    for text in ("58.2 / 39.7 / 20.8", "99.7 / 95.5 / 81.8", "uniform-128", "63.5 ±1.0"):
        assert text in out.getvalue()
    assert "…" not in out.getvalue()


def test_json_has_the_fixed_shape() -> None:
    report = json.loads(json.dumps(small_report().to_json(), allow_nan=False))
    assert report["bench"]["questions"] == 12
    assert report["bench"]["EP_ref"] == pytest.approx(20.0)
    run = report["runs"][0]
    assert {"name", "signature", "questions", "metrics", "ci95", "families"} <= run.keys()
    expected = {"Acc", "EP", "AR", "Fr", "Cov-Corr@2", "Uncov-Corr@2", "Wrong"}
    expected |= {f"{name}@{k}" for name in ("Cov", "ECA") for k in (1, 2, 3)}
    assert set(run["metrics"]) == expected
    assert len(run["ci95"]["Acc"]) == 2
    assert set(run["families"]["family_0"]) == expected
    assert report["runs"][2]["metrics"]["Acc"] is None
    assert {"a", "b", "metric", "difference", "p"} <= report["comparisons"][0].keys()
    assert run["frames_by_stage"] == {"look": 9.0}


def test_frames_are_split_by_stage_where_calls_were_logged() -> None:
    items = small_bench()
    calls = (Call("storyboard", (1.0, 2.0)), Call("replay", (1.0,)), Call("plan"))
    staged = [Prediction(item.question.id, "A", (1.0, 2.0), 3, observations=calls) for item in items]
    report = audit(items, {"staged": staged, "plain": staged[:0]}, resamples=2)
    assert report.runs[0].frames_by_stage == {"storyboard": 2.0, "replay": 1.0, "plan": 0.0}
    (table,) = [table for table in tables(report) if table.key == "stages"]
    assert [column.title for column in table.columns] == ["Fr", "storyboard", "replay", "plan"]
    assert [cell[0].text for cell in table.sections[0].rows[0].cells] == ["3.0", "2.0", "1.0", "0.0"]


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
    others = (moved, replace(items[0], answer="B"))
    assert base not in {signature(items, seed=1), *(signature([other, *items[1:]]) for other in others)}


def test_a_bench_without_evidence_is_scored_for_answers_and_says_so() -> None:
    items = [replace(item, evidence=(), duration=float("inf")) for item in small_bench()]
    report = audit(items, {"r": [Prediction(i.question.id, "A", (5.0,), 1) for i in items]}, resamples=50)
    run = report.runs[0]
    assert run.metrics["Acc"] == 100
    assert [run.metrics[name] for name in ("EP", "AR", "Cov@2", "ECA@2", "Cov-Corr@2")] == [None] * 5
    assert report.bench.ep_ref is None
    assert {value: group.questions for value, group in run.groups["domain"].items()} == {"x": 6, "y & z": 6}
    assert [table.key for table in tables(report)] == ["answers", "by-family", "by-domain"]
    assert "has no evidence intervals: only answers can be scored" in str(report)


def test_an_audit_needs_no_decoder_no_client_and_no_drawing_library() -> None:
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        heavy = 'av simplejpeg openai google anthropic matplotlib pyarrow torch pandas'.split()\n"
        "        if name.split('.')[0] in heavy:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "from trace_ves.core import Interval, Question\n"
        "from trace_ves.records import Item\n"
        "from trace_ves.records import Prediction\n"
        "from trace_ves.ves import audit\n"
        "import trace_ves.benches\n"
        "item = Item(Question('q', 'v', '?', ('a', 'b')), 'A', (Interval(1, 2),), 10.0)\n"
        "print(audit([item], [Prediction('q', 'A', (1.5,), 1, method='mine')]))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert "mine" in result.stdout
