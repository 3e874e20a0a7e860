"""Run files scored against a bench in one pass each, several at a time: memory does not grow with the files.

What is wrong with them is said as if they had been read one after another and scored after that: first a line that
cannot be read, in the order of the files, then a prediction that cannot be.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import FormatError, InputError
from trace_ves.records.audited_line import read_audited_lines
from trace_ves.records.runs import distinct_names, run_files
from trace_ves.ves.scoring import IdIndex, Scorer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike
    from pathlib import Path

    from trace_ves.records.item_table import ItemTable
    from trace_ves.ves.scoring import ScoredRun

WORTH_A_PROCESS: Final = 64 * 1024 * 1024
"""Bytes of run files from which on processes of their own read them."""
MOST_WORKERS: Final = 4
"""Each takes some 200 MB with a bench of a million questions."""


def score_files(
    table: ItemTable,
    paths: Sequence[str | PathLike[str]],
    *,
    left_out: frozenset[str] = frozenset(),
    workers: int | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> tuple[ScoredRun, ...]:
    """Score run files, or every `*.jsonl` of a folder, against a bench; each is read once and none is kept in memory.

    Large files are read by as many processes as there are processors, up to four; `workers` says how many instead.
    """
    files = run_files(paths)
    many = min(len(files), _worth(files) if workers is None else workers)
    if many > 1:
        from trace_ves.ves.scoring_workers import score_in_workers  # only where files are large

        results = score_in_workers(table, files, left_out, many, on_progress)
    else:
        index = IdIndex(table)
        results = [score_file(table, index, file, left_out, _labelled(on_progress, file)) for file in files]
    named = distinct_names([run for run, _ in results])
    for _, refusal in results:
        if refusal is not None:
            raise refusal
    return named


def score_file(
    table: ItemTable,
    index: IdIndex,
    path: Path,
    left_out: frozenset[str],
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[ScoredRun, InputError | None]:
    """One run file, and what is wrong with the first of its predictions that cannot be; the file is read to its end.

    A line that cannot be read raises its error. The run is named after its method, or after the file where the lines
    do not agree on one.
    """
    warnings: list[str] = []
    refusal: InputError | None = None
    scorer = Scorer(
        table,
        index,
        left_out,
        error=lambda line, message: FormatError(f"{message}.", path=path, line=line),
        place=lambda line: f"line {line}",
    )
    is_empty = True
    for number, line in read_audited_lines(path, on_torn_tail=warnings.append, on_progress=on_progress):
        is_empty = False
        try:
            if refusal is None:
                scorer.add(number, line)
            else:
                scorer.note([line])
        except InputError as error:
            refusal = error
    if is_empty:
        raise InputError(f"{path}: no prediction in this file; a run has one JSON object per line.")
    try:
        if refusal is None:
            scorer.flush()
    except InputError as error:
        refusal = error
    run = scorer.finished(path.stem, path=path, warnings=tuple(f"{warning}." for warning in warnings))
    return replace(run, name=run.method or run.name), refusal


def _worth(files: Sequence[Path]) -> int:
    """How many processes these files are worth; a file that is not there is told of when it is read."""
    size = sum(file.stat().st_size for file in files if file.is_file())
    return min(os.cpu_count() or 1, MOST_WORKERS) if size > WORTH_A_PROCESS else 1


def _labelled(on_progress: Callable[[str, int, int], None] | None, file: Path) -> Callable[[int, int], None] | None:
    return None if on_progress is None else lambda done, total: on_progress(f"reading {file.name}", done, total)
