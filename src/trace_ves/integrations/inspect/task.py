"""A bench as a task of inspect_ai."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset
from rich.markup import escape

from trace_ves._version import __version__
from trace_ves.benchmarks import load_bench
from trace_ves.core import InputError
from trace_ves.integrations.inspect import solvers
from trace_ves.integrations.inspect.sample import make_sample
from trace_ves.integrations.inspect.scorer import audit
from trace_ves.running.durations import check_durations
from trace_ves.ves.metrics import HEADLINE_DENSITY

if TYPE_CHECKING:
    from trace_ves.benchmarks import Bench


@task
def ves(bench: str = "", method: str = "trace", budget: int | None = None, k: int = HEADLINE_DENSITY) -> Task:
    """The questions of a bench folder, answered by a method and audited.

    `-T bench=BENCH -T method=uniform-64`; any solver of inspect_ai's may be named with `--solver` instead.
    """
    try:
        dataset, solver = _dataset(_load(bench)), solvers.method(method, budget)
    except InputError as error:  # what inspect_ai prints without a traceback
        raise PrerequisiteError(escape(f"ERROR: {error}")) from None
    return Task(dataset=dataset, solver=solver, scorer=audit(k), metadata={"trace_ves": __version__})


def _load(bench: str) -> Bench:
    if not bench:
        raise InputError("the task trace_ves/ves needs a bench: -T bench=FOLDER, with questions.jsonl in it.")
    loaded = load_bench(Path(bench).expanduser().absolute())
    for sentence in loaded.warnings:
        logging.getLogger(__name__).warning("%s", sentence)
    check_durations(loaded, {item.question.video for item in loaded.items}, lambda _done, _total: None)
    return loaded


def _dataset(bench: Bench) -> MemoryDataset:
    assert bench.path is not None  # noqa: S101  it was read from a file
    with_evidence = any(item.evidence for item in bench.items)
    samples = [
        make_sample(item, bench.path.parent, measured=bool(item.evidence) or not with_evidence) for item in bench.items
    ]
    return MemoryDataset(samples, name=bench.path.parent.name)
