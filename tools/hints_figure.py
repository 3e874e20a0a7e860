"""When does searching pay? ECA@2 and accuracy of four methods over how much the twin's world hints, in the laboratory.

    python tools/hints_figure.py --out DIR [--questions 120] [--seed 31]

Writes DIR/hints.svg and prints the table behind it. Runs that are finished in DIR are not made again. A simulation
throughout, as everything with the backbone `lab` (docs/twin.md).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from trace_ves.core.display import PALETTE, method_colours
from trace_ves.runs.evaluate import evaluate
from trace_ves.twin.synthetic.actors import Hints
from trace_ves.twin.synthetic.bench import make_twin, write_twin

if TYPE_CHECKING:
    from collections.abc import Mapping

METHODS = ("trace", "avp", "vca", "uniform-128")
METRICS = ("ECA@2", "Acc")
HINTS = (0.0, 0.4, 0.8, 1.0)
DECOYS = (0.0, 1.0, 2.0, 4.0)

Cell = dict[str, dict[str, float]]


def measure(folder: Path, hints: Hints, questions: int, seed: int) -> Cell:
    """Each method's figures in a world with these hints."""
    place = folder / f"hints-{hints.around:g}-decoys-{hints.elsewhere:g}"
    write_twin(place / "twin", make_twin(questions, seed, hints), videos=False)
    report = evaluate(place / "twin", list(METHODS), "lab", out=place / "runs", workers=1, transcripts=False).audit
    return {run.method: {name: run.metrics[name] or 0.0 for name in (*METRICS, "Fr", "Cov@2")} for run in report.runs}


def draw(cells: Mapping[tuple[float, float], Cell], path: Path) -> None:
    """A column for each share of hints, a row for each metric, a line for each method."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(METRICS), len(HINTS), figsize=(10, 5), sharex=True, sharey="row", squeeze=False)
    for column, around in enumerate(HINTS):
        for row, metric in enumerate(METRICS):
            axis = axes[row][column]
            for method, colour in method_colours(METHODS).items():
                values = [cells[around, elsewhere][method][metric] for elsewhere in DECOYS]
                axis.plot(DECOYS, values, marker="o", markersize=4, color=PALETTE[colour], label=method)
            axis.set_ylim(0, 100)
            axis.grid(alpha=0.25)
            axis.set_xticks(DECOYS)
            for side in ("top", "right"):
                axis.spines[side].set_visible(False)
            if row == 0:
                axis.set_title(f"hints {around:g}", fontsize=10)
            if column == 0:
                axis.set_ylabel(f"{metric} (%)")
    figure.supxlabel("decoys: rests elsewhere for each actor", fontsize=10)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="upper center", ncols=len(METHODS), frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.94))
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=120)
    parser.add_argument("--seed", type=int, default=31)
    arguments = parser.parse_args()
    cells = {}
    print("| hints | decoys | " + " | ".join(f"{method}: ECA@2 / Acc" for method in METHODS) + " |")
    print("|---:|---:|" + "---:|" * len(METHODS))
    for around in HINTS:
        for elsewhere in DECOYS:
            cell = measure(arguments.out, Hints(around, elsewhere), arguments.questions, arguments.seed)
            cells[around, elsewhere] = cell
            said = (f"{cell[method]['ECA@2']:.1f} / {cell[method]['Acc']:.1f}" for method in METHODS)
            print(f"| {around:g} | {elsewhere:g} | " + " | ".join(said) + " |", flush=True)
    draw(cells, arguments.out / "hints.svg")


if __name__ == "__main__":
    main()
