"""How demanding is each benchmark? Cov@1 and Cov@2 of uniform sampling, as the table in docs/measurements.md.

`python tools/demand.py FOLDER…` looks for the annotation files by name; a benchmark without its file is not measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final, NamedTuple

from trace_ves.benches.importers import import_bench
from trace_ves.ves import audit

FRAMES: Final = (32, 64, 128)
HEADS: Final = ("Benchmark", "Annotations", "Licence", "Questions", "Mean video", "Intervals", "EP_ref")


class Source(NamedTuple):
    """A benchmark: its importer, the names its file may have, and where it is published under which licence."""

    title: str
    importer: str
    files: tuple[str, ...]
    published: str
    licence: str


SOURCES: Final = (
    Source("CG-Bench", "cg-bench", ("cgbench.json",), "github CG-Bench/CG-Bench", "not stated"),
    Source("CG-Bench mini", "cg-bench", ("cgbench_mini.json",), "github CG-Bench/CG-Bench", "not stated"),
    Source(
        "LVBench",
        "lvbench",
        ("avp_eval_lvbench.json", "video_info.meta.jsonl"),
        "Hugging Face THUDM/LVBench",
        "CC BY-NC-SA 4.0",
    ),
    Source("NExT-GQA val", "next-gqa", ("nextgqa_val.csv", "val.csv"), "github doc-doc/NExT-GQA", "MIT"),
    Source("NExT-GQA test", "next-gqa", ("nextgqa_test.csv", "test.csv"), "github doc-doc/NExT-GQA", "MIT"),
    Source("ReXTime val", "rextime", ("rextime_val.jsonl",), "github ReXTime/ReXTime", "CC BY-NC-SA 4.0"),
    Source("EG-VQA test", "eg-vqa", ("eg-vqa_test.json",), "announced in arXiv 2606.24797", "not stated"),
    Source(
        "QVHighlights val",
        "qvhighlights",
        ("highlight_val_release.jsonl",),
        "github jayleicn/moment_detr",
        "CC BY-NC-SA 4.0",
    ),
)


def measure(source: Source, folders: list[Path]) -> str:
    """One line of the table."""
    file = next((folder / name for folder in folders for name in source.files if (folder / name).is_file()), None)
    cells = ["not measured"] + ["--"] * (3 + len(FRAMES))
    if file is not None:
        report = audit(import_bench(source.importer, file).items, samplers=FRAMES, resamples=1)
        bench = report.bench
        cells = [
            f"{bench.measured:,}",
            f"{bench.mean_duration or 0:,.0f} s",
            f"{bench.mean_intervals or 0:.1f} of {bench.mean_interval_length or 0:.1f} s",
            f"{bench.ep_ref or 0:.1f}%",
            *(f"{run.metrics['Cov@1'] or 0:.1f} / {run.metrics['Cov@2'] or 0:.1f}" for run in report.runs),
        ]
    return f"| {' | '.join([source.title, source.published, source.licence, *cells])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("annotations", type=Path, nargs="+", help="Folders of annotation files.")
    folders = parser.parse_args().annotations
    heads = [*HEADS, *(f"uniform-{count}" for count in FRAMES)]
    print(f"| {' | '.join(heads)} |")
    print("|" + "---|" * 3 + "---:|" * (len(heads) - 3))
    for source in SOURCES:
        print(measure(source, folders))


if __name__ == "__main__":
    main()
