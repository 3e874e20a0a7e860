"""How demanding is each benchmark? Cov@k of uniform sampling on every evidence benchmark, as a Markdown table.

`python tools/demand.py FOLDER…` looks for the annotation files by name; a benchmark without its file is not measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final, NamedTuple

from trace_ves.benches.importers import import_bench
from trace_ves.ves import audit

FRAMES: Final = (32, 64, 128)


class Source(NamedTuple):
    """A benchmark: what `trace-ves import` calls it, the names its file may have, its size and licence as published."""

    title: str
    importer: str
    files: tuple[str, ...]
    published: str
    licence: str


SOURCES: Final = (
    Source("CG-Bench", "cg-bench", ("cgbench.json",), "12,129 questions, 1,219 videos", "MIT"),
    Source("CG-Bench mini", "cg-bench", ("cgbench_mini.json",), "3,000 questions", "MIT"),
    Source(
        "LVBench",
        "lvbench",
        ("avp_eval_lvbench.json", "video_info.meta.jsonl"),
        "1,549 questions, 103 videos",
        "CC BY-NC-SA 4.0",
    ),
    Source("NExT-GQA val", "next-gqa", ("nextgqa_val.csv", "val.csv"), "3,358 questions", "not stated"),
    Source("NExT-GQA test", "next-gqa", ("nextgqa_test.csv", "test.csv"), "5,553 questions", "not stated"),
    Source("ReXTime val", "rextime", ("rextime_val.jsonl",), "921 questions", "MIT"),
    Source("EG-VQA test", "eg-vqa", ("eg-vqa_test.json",), "2,889 questions, 336 videos", "not stated"),
    Source("QVHighlights val", "qvhighlights", ("highlight_val_release.jsonl",), "1,550 queries", "CC BY-NC-SA 4.0"),
)


def measure(source: Source, folders: list[Path], k: int) -> str:
    """One line of the table."""
    head = f"| {source.title} | `{source.importer}` | {source.published} | {source.licence} |"
    file = next((folder / name for folder in folders for name in source.files if (folder / name).is_file()), None)
    if file is None:
        return f"{head} {' | '.join(['not measured'] + ['--'] * (3 + len(FRAMES)))} |"
    bench = import_bench(source.importer, file)
    report = audit(bench.items, samplers=FRAMES, k=k, resamples=1)
    facts = report.bench
    rates = [run.metrics for run in report.runs]
    cells = [
        f"{facts.measured:,}",
        f"{facts.mean_duration or 0:,.0f} s",
        f"{facts.mean_intervals or 0:.1f} of {facts.mean_interval_length or 0:.1f} s",
        f"{facts.ep_ref or 0:.1f}%",
        *(f"{each['Cov@1'] or 0:.1f} / {each[f'Cov@{k}'] or 0:.1f}" for each in rates),
    ]
    return f"{head} {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("annotations", type=Path, nargs="+", help="Folders of annotation files.")
    parser.add_argument("--k", type=int, default=2)
    chosen = parser.parse_args()
    heads = ["Benchmark", "Importer", "Published size", "Licence", "Questions with evidence", "Mean video"]
    heads += ["Intervals per question", "EP_ref", *(f"uniform-{count}: Cov@1 / Cov@{chosen.k}" for count in FRAMES)]
    print(f"| {' | '.join(heads)} |")
    print("|" + "---|" * 4 + "---:|" * (len(heads) - 4))
    for source in SOURCES:
        print(measure(source, chosen.annotations, chosen.k))


if __name__ == "__main__":
    main()
