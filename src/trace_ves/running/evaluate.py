"""A run from Python in one call: `from trace_ves import evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_ves.benchmarks import Bench, load_bench
from trace_ves.core import InputError
from trace_ves.cost.prices import load_prices
from trace_ves.running.job import Job, RunOptions
from trace_ves.running.local_engine import answer_locally
from trace_ves.running.results import results
from trace_ves.running.run import run

if TYPE_CHECKING:
    from os import PathLike

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.cost.limit import CostLimit
    from trace_ves.cost.prices import Prices
    from trace_ves.observer import Method
    from trace_ves.running.results import Results
    from trace_ves.running.run import Watcher
    from trace_ves.running.task_loop import Engine

LEAST_CONCURRENCY = 8
"""Calls that a backbone may have under way: one for each worker, and at least as many as a batch has."""


def evaluate(
    bench: Bench | str | PathLike[str],
    methods: str | Sequence[str] | Mapping[str, Method],
    backbone: str | Sequence[str] | Backbone,
    *,
    out: str | PathLike[str],
    budget: int | None = None,
    limit: int | None = None,
    workers: int = 8,
    retry_errors: bool = False,
    engine: Engine | None = None,
    prices: Prices | None = None,
    watcher: Watcher | None = None,
    cost_limit: CostLimit | None = None,
    transcripts: bool = True,
    subtitles: bool = False,
    **backbone_options: Any,
) -> Results:
    """Answer the questions of a bench with each method and each backbone, audit the answers, and add up the cost.

    `methods` are names as on the command line, or callables by a name of your own; `backbone` is a spec, several
    specs, or an object. Run files grow in the folder `out`: what is finished there is never asked again. `limit`
    takes the first questions alone. `cost_limit` ends the run once it is reached. `transcripts` says whether the prompt
    and the raw reply of each call are kept beside the run; `subtitles`, whether methods that read them are shown
    those of the videos. `backbone_options` are those of `open_backbone`, such as `temperature`.
    """
    loaded = bench if isinstance(bench, Bench) else load_bench(bench)
    named = dict(methods) if isinstance(methods, Mapping) else {}
    names = list(methods) if isinstance(methods, Mapping) else _names(methods)
    given = {} if isinstance(backbone, str | Sequence) else {backbone.name: backbone}
    specs = _names(backbone) if isinstance(backbone, str | Sequence) else list(given)
    if not names or not specs:
        raise InputError("a run needs at least one method and one backbone.")
    options = RunOptions(
        backbone_options={"concurrency": max(LEAST_CONCURRENCY, workers), **backbone_options},
        open_videos=workers,
        methods=named,
        backbones=given,
        transcripts=transcripts,
        subtitles=subtitles,
    )
    jobs = [Job(name, spec, budget) for spec in specs for name in names]
    paths = run(
        loaded,
        jobs,
        Path(out),
        engine or partial(answer_locally, workers=workers),
        options=options,
        limit=limit,
        retry_errors=retry_errors,
        watcher=watcher,
        cost_limit=cost_limit,
    )
    return results(loaded, paths, prices or load_prices(), options, limit=limit)


def _names(given: str | Sequence[str]) -> list[str]:
    """Names as a list, each once; one text may hold several, with commas between them."""
    words = given.split(",") if isinstance(given, str) else given
    return list(dict.fromkeys(word.strip() for word in words if word.strip()))
