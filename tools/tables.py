"""Every table and figure of the paper's audit on one bench with one backbone, the paper's numbers beside ours.

    python tools/tables.py BENCH --backbone SPEC --out DIR [--workers N] [--limit N] [--methods A,B] [--vote 5]

Runs what is not finished in DIR/runs, audits it, masks the evidence of TRACE's covered answers, and writes to DIR:
TABLES.md, tables.tex, metrics.csv, audit.json and figures. Nothing is tuned for a method: one backbone, one seed.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))

from paper_tables import ABLATIONS, PAPER_METHODS, paper_tables, public_table
from trace_ves.agent.settings import DEFAULT_BUDGET
from trace_ves.backbone.registry import open_backbone
from trace_ves.benches import load_bench
from trace_ves.cli.run_table import RunTable
from trace_ves.core import TraceVesError
from trace_ves.runs.cost import cost_table
from trace_ves.runs.counterfactual import flip_table, run_check, select_eligible, summarise
from trace_ves.runs.evaluate import evaluate
from trace_ves.runs.prices import load_prices
from trace_ves.ves.figures import draw_figures
from trace_ves.ves.paper import paper
from trace_ves.ves.renderers import latex_table, markdown_table, report_csv, report_latex
from trace_ves.ves.table import Column, Row, Section, Table, as_value
from trace_ves.ves.tables import tables
from trace_ves.ves.terminal import print_table

if TYPE_CHECKING:
    from trace_ves.benches import Bench
    from trace_ves.runs.counterfactual import Summary
    from trace_ves.ves import AuditReport, Run

SEED = 0
UNLIMITED_METHODS = ("avp-unlimited", "vca-unlimited")
"""Extra rows: the other agents without the budget that every agent has otherwise."""
CHECKED = "trace"
"""The run whose evidence is masked, as in the paper."""


def main() -> int:
    options = _options()
    bench = load_bench(options.bench)
    methods = options.methods or [*PAPER_METHODS, *UNLIMITED_METHODS, f"vote-{options.vote}"]
    prices = load_prices()
    with RunTable(prices) as watcher:
        outcome = evaluate(
            bench,
            methods,
            options.backbone,
            out=options.out / "runs",
            limit=options.limit,
            workers=options.workers,
            prices=prices,
            watcher=watcher,
        )
    report = outcome.audit
    checked = _counterfactual(bench, outcome.runs, options)
    public = [public_table(report, options.public)] if options.public else []
    found = [*public, _bench_table(report), *paper_tables(report), *([flip_table(checked, CHECKED)] if checked else [])]
    found += [*tables(report), cost_table(outcome.costs)]
    _write(options, report, bench, found, checked)
    console = Console(width=160)
    for table in found:
        print_table(table, console)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", type=Path)
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--methods", help="instead of every row of the paper")
    parser.add_argument("--vote", type=int, default=5, help="samples of the voting row")
    parser.add_argument("--public", help="the public benchmark that BENCH is: video-mme, lvbench or longvideobench")
    return parser.parse_args()


def _counterfactual(bench: Bench, runs: tuple[Run, ...], options: argparse.Namespace) -> Summary | None:
    checked = next((each for each in runs if each.method == CHECKED), None)
    pairs = select_eligible(bench, checked.predictions, 2) if checked else []
    if not pairs:
        return None
    log = options.out / "counterfactual" / f"{CHECKED}.jsonl"
    backbone = open_backbone(options.backbone, concurrency=max(8, options.workers))
    return summarise(run_check(bench, pairs, backbone, log, seed=SEED, workers=options.workers), seed=SEED)


def _bench_table(report: AuditReport) -> Table:
    bench, theirs = report.bench, paper()["bench"]
    ours: dict[str, float | None] = {
        "questions": bench.questions,
        "videos": bench.videos,
        "EP_ref": bench.ep_ref,
        "mean_duration": bench.mean_duration,
        "mean_intervals": bench.mean_intervals,
        "mean_interval_length": bench.mean_interval_length,
    }
    rows = tuple(
        Row(
            name.replace("_", " "),
            ((as_value(value, "{:.4g}".format),), (as_value(theirs[name], "{:g}".format),)),
        )
        for name, value in ours.items()
    )
    return Table("paper-bench", "The bench", (Column("Ours"), Column("Paper")), (Section("", rows),), first_column="")


def _write(
    options: argparse.Namespace, report: AuditReport, bench: Bench, found: list[Table], checked: Summary | None
) -> None:
    out: Path = options.out
    limit = f" --limit {options.limit}" if options.limit else ""
    words = [
        "# The paper's tables on this bench",
        "",
        f"Made by `python tools/tables.py {options.bench} --backbone {options.backbone} --out {out}{limit}`. "
        f"Every agent with {DEFAULT_BUDGET} frames a question, those named unlimited without a limit; bootstrap and "
        f"masks with seed {SEED}.",
        "",
        *map(markdown_table, found),
        f"`{report.signature}`",
        "",
    ]
    (out / "TABLES.md").write_text("\n".join(words), encoding="utf-8")
    extra = "\n".join(latex_table(table) for table in found if table.key.startswith("paper-"))
    (out / "tables.tex").write_text(f"{report_latex(report)}\n{extra}", encoding="utf-8")
    (out / "metrics.csv").write_text(report_csv(report), encoding="utf-8")
    record = report.to_json() | {"counterfactual": checked.to_json() if checked else None}
    (out / "audit.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    drawn = tuple(run for run in report.runs if run.method not in ABLATIONS[1:])  # as in the paper's figures
    draw_figures(replace(report, runs=drawn), bench.items[: options.limit], out / "figures")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TraceVesError as error:
        sys.exit(f"tables: {error}")
