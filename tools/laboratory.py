"""TRACE and the baselines in the laboratory, over several seeds: at one budget, over budgets, over reading noise.

    python tools/laboratory.py {rows,budgets,noise} --out DIR [--seeds 501 502 503] [--questions 240] [--methods A,B]

Each seed is a separate world, with eyes and forced choices of that seed (`lab:SEED`). `rows` prints every row of the
main table, `budgets` ECA@2 over budgets, `noise` ECA@2 over the chance that a call misreads a fact; the last two leave
a figure in DIR. ± is the 95% bootstrap interval over the questions of all seeds together. Runs that are finished in
DIR are not made again. A simulation throughout (docs/twin.md).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from paper_tables import ABLATIONS, PAPER_METHODS
from trace_ves.core.display import PALETTE, method_colours
from trace_ves.runs.evaluate import evaluate
from trace_ves.twin.synthetic.bench import make_twin, write_twin
from trace_ves.ves.statistics import bootstrap, percentile_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trace_ves.ves.rows import AuditRow

K = 2
BUDGETS = (96, 128, 192, 256)
NOISE = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
METRICS: dict[str, Callable[[AuditRow], float]] = {
    "Fr": lambda row: row.frames_supplied,
    "Acc": lambda row: 100.0 * bool(row.correct),
    "EP": lambda row: 100.0 * row.precision,
    "Cov@2": lambda row: 100.0 * (row.density >= K),
    "ECA@2": lambda row: 100.0 * (bool(row.correct) and row.density >= K),
    "Undetermined": lambda row: 100.0 * row.undetermined,
    "ECA@2, determined": lambda row: 100.0 * (bool(row.correct) and row.density >= K and not row.undetermined),
}


@dataclass(frozen=True)
class Laboratory:
    """Worlds of these seeds, and where their runs are."""

    out: Path
    seeds: Sequence[int]
    questions: int

    def rows(
        self, methods: Sequence[str], *, budget: int | None = None, noise: float = 0.0
    ) -> dict[str, list[AuditRow]]:
        """The audit rows of each method over all seeds."""
        found: dict[str, list[AuditRow]] = {method: [] for method in methods}
        for seed in self.seeds:
            twin = self.out / f"twin-{seed}-{self.questions}"
            if not (twin / "questions.jsonl").exists():
                write_twin(twin, make_twin(self.questions, seed), videos=False)
            backbone = f"lab:{seed}" + (f":noise={noise:g}" if noise else "")
            runs = self.out / f"runs-{seed}-{self.questions}" / (f"budget-{budget}" if budget else "")
            outcome = evaluate(twin, methods, backbone, out=runs, budget=budget, workers=1, transcripts=False)
            for run in outcome.audit.runs:
                found[run.method] += run.rows
        return found


def shown(rows: Sequence[AuditRow], metric: str) -> str:
    """The mean of a metric with half of its interval."""
    mean, half = measured(rows, metric)
    return f"{mean:.1f}" if metric == "Fr" else f"{mean:.1f} ±{half:.1f}"


def measured(rows: Sequence[AuditRow], metric: str) -> tuple[float, float]:
    """The mean of a metric and half of its 95% interval."""
    values = np.array([[METRICS[metric](row)] for row in rows], float)
    low, high = percentile_interval(bootstrap(values, resamples=1000, seed=0))
    return float(values.mean()), (high - low) / 2


def print_rows(laboratory: Laboratory, methods: Sequence[str]) -> None:
    """Every metric of every method, and the accuracy of each seed."""
    print("| Method | " + " | ".join(METRICS) + " | Acc by seed |\n|:---|" + "---:|" * (len(METRICS) + 1))
    for method, rows in laboratory.rows(methods).items():
        parts = [rows[at : at + laboratory.questions] for at in range(0, len(rows), laboratory.questions)]
        seeds = " ".join(f"{measured(part, 'Acc')[0]:.1f}" for part in parts)
        print(f"| {method} | " + " | ".join(shown(rows, metric) for metric in METRICS) + f" | {seeds} |", flush=True)


def print_curves(
    name: str, places: Sequence[float], curves: Mapping[float, Mapping[str, Sequence[AuditRow]]], path: Path
) -> None:
    """ECA@2 of each method over the places, as a table and as a figure with intervals."""
    methods = list(next(iter(curves.values())))
    print(f"| {name} | " + " | ".join(methods) + " |\n|---:|" + "---:|" * len(methods))
    for place in places:
        print(f"| {place:g} | " + " | ".join(shown(rows, "ECA@2") for rows in curves[place].values()) + " |")
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.5))
    for method, colour in method_colours(methods).items():
        means, halves = zip(*(measured(curves[place][method], "ECA@2") for place in places), strict=True)
        axis.errorbar(
            places, means, yerr=halves, marker="o", markersize=4, capsize=2, color=PALETTE[colour], label=method
        )
    axis.set(xlabel=name, ylabel="ECA@2 (%)", ylim=(0, 100))
    axis.grid(alpha=0.25)
    axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rows", "budgets", "noise"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[501, 502, 503])
    parser.add_argument("--questions", type=int, default=240)
    parser.add_argument("--methods", type=lambda text: text.split(","))
    arguments = parser.parse_args()
    laboratory = Laboratory(arguments.out, arguments.seeds, arguments.questions)
    if arguments.what == "rows":
        print_rows(laboratory, arguments.methods or [*PAPER_METHODS, "avp-unlimited", "vca-unlimited", "vote-5"])
    elif arguments.what == "budgets":
        agents = arguments.methods or ["trace", "avp"]
        curves: dict[float, dict[str, list[AuditRow]]] = {}
        for budget in BUDGETS:
            of_uniform = laboratory.rows([f"uniform-{budget}"])
            curves[budget] = laboratory.rows(agents, budget=budget) | {"uniform": of_uniform[f"uniform-{budget}"]}
        print_curves("budget", BUDGETS, curves, arguments.out / "budgets.svg")
    else:
        methods = arguments.methods or [*ABLATIONS, "avp", "uniform-128"]
        noisy: dict[float, dict[str, list[AuditRow]]] = {p: laboratory.rows(methods, noise=p) for p in NOISE}
        print_curves("noise", NOISE, noisy, arguments.out / "noise.svg")


if __name__ == "__main__":
    main()
