"""Print the twin's layout beside the paper's figures: one seed's table, then the spread over several seeds.

python tools/layout_table.py [--seed 0] [--seeds 10] [--questions 600]
"""

from __future__ import annotations

import argparse

import numpy as np

from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING
from trace_ves.twin.synthetic.layout import (
    ALLOWED,
    ALLOWED_CELL,
    FRAME_COUNTS,
    PAPER_COVERAGE,
    LayoutTable,
    choose_layout,
    measure_layout,
)


def print_table(table: LayoutTable, families: dict[str, LayoutTable]) -> None:
    print(f"{'':24}{'twin':>10}{'paper':>10}{'allowed':>10}")
    for name, (paper, near) in ALLOWED.items():
        print(f"{name:24}{getattr(table, name):10.2f}{paper:10.2f}{f'+-{near}':>10}")
    print(f"\n{'Cov@1/2/3, uniform':24}{'twin':>20}{'paper':>20}" + "".join(f"{name:>24}" for name in families))
    for row, frames in enumerate(FRAME_COUNTS):
        cells = [table.coverage[row], PAPER_COVERAGE[row], *(family.coverage[row] for family in families.values())]
        texts = ["/".join(f"{cell:.1f}" for cell in three) for three in cells]
        print(f"  {frames:3} frames{'':12}{texts[0]:>20}{texts[1]:>20}" + "".join(f"{text:>24}" for text in texts[2:]))


def print_spread(tables: list[LayoutTable]) -> None:
    print(
        f"\nSpread over {len(tables)} seeds: lowest, mean, highest (cells: distance from the paper, +-{ALLOWED_CELL})"
    )
    for name in ALLOWED:
        values = [getattr(table, name) for table in tables]
        print(f"  {name:22}{min(values):8.2f}{np.mean(values):8.2f}{max(values):8.2f}")
    distance = np.array([table.coverage for table in tables]) - np.array(PAPER_COVERAGE)
    for row, frames in enumerate(FRAME_COUNTS):
        cells = (f"{d.min():+5.1f} {d.mean():+5.1f} {d.max():+5.1f}" for d in distance[:, row].T)
        print(f"  {frames:3} frames{'':12}" + "   |".join(cells))
    print(f"  all figures within what is allowed: {sum(table.misfit <= 1 for table in tables)} of {len(tables)} seeds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seeds", type=int, default=10, help="how many seeds, from 0, the spread is taken over; may be 0"
    )
    arguments = parser.parse_args()
    layout = choose_layout(arguments.questions, arguments.seed)
    families = {name: measure_layout(layout, name) for name in (TEMPORAL_ORDERING, EVENT_COUNTING)}
    print(f"{arguments.questions} questions over {len(layout)} videos, seed {arguments.seed}\n")
    print_table(measure_layout(layout), families)
    if arguments.seeds:
        print_spread([measure_layout(choose_layout(arguments.questions, seed)) for seed in range(arguments.seeds)])


if __name__ == "__main__":
    main()
