"""The audit: a bench and the predictions of some runs become a report.

Reads no files and draws nothing; it needs the values alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core.errors import InputError
from trace_ves.core.schedules import ASSUMED_FPS, FrameTimes
from trace_ves.records.item_table import ItemTable
from trace_ves.records.runs import Run, distinct_names, frame_times_word
from trace_ves.ves.metrics import HEADLINE_DENSITY, Columns, accuracy, accuracy_by_group, family_order
from trace_ves.ves.report import AuditReport, BenchSummary, RunReport
from trace_ves.ves.samplers import SamplerRows
from trace_ves.ves.scoring import IdIndex, ScoredRun, score_run
from trace_ves.ves.signature import signature, walked
from trace_ves.ves.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trace_ves.records import Item, Prediction
    from trace_ves.ves.row_table import RowTable
    from trace_ves.ves.statistics import Progress

    Runs = Mapping[str, Sequence[Prediction]] | Sequence[Run] | Sequence[Prediction] | Sequence[ScoredRun]

RESAMPLES: Final = 1000


def audit(
    items: Sequence[Item] | ItemTable,
    runs: Runs = (),
    *,
    samplers: Sequence[int | str] = (),
    frame_times: Callable[[Item], FrameTimes] | None = None,
    fps: float = ASSUMED_FPS,
    k: int = HEADLINE_DENSITY,
    resamples: int = RESAMPLES,
    seed: int = 0,
    left_out: frozenset[str] = frozenset(),
    unlimited: frozenset[str] = frozenset(),
    on_progress: Progress | None = None,
) -> AuditReport:
    """Check which evidence the frames of each run really covered.

    `runs` maps a name to its predictions; a plain list of predictions is one run. Files that are too large for memory
    come as an `ItemTable` (`scan_bench`) and scored runs (`score_files`). `samplers` are schedules to audit without a
    model: frame counts of centred uniform ones, or names such as `linspace-32`, which choose among the frames that
    `frame_times` gives for an item, or that its duration has at `fps` frames a second; the item comes without its
    words. Predictions for the ids in `left_out` are passed over and counted. `unlimited` names runs of methods that
    state no frame budget, so that the table can say so.
    """
    _check_arguments(items, k=k, resamples=resamples, seed=seed)
    table = items if isinstance(items, ItemTable) else ItemTable.of(items)  # in order of ids, whatever that of lines
    scored = _scored(table, runs, left_out)
    rows = {run.name: run.rows for run in scored}
    schedules = SamplerRows(table, frame_times or partial(_assumed_times, fps=fps))
    rows |= schedules.of(samplers, taken=rows)
    if not rows:
        raise InputError("nothing to audit: give at least one run or one sampler.")
    bench = summarise(table)
    measured = _measured(table)
    statistics = Statistics(
        {name: Columns(_only(of_run, measured), bench.ep_ref, k) for name, of_run in rows.items()},
        videos=table.video[measured],
        families={name: table.family[measured] == table.families.index(name) for name in bench.families},
        resamples=resamples,
        seed=seed,
        on_progress=on_progress,
    )
    by_name = {run.name: run for run in scored}
    reports = tuple(
        _run_report(
            name,
            by_name.get(name),
            table=table,
            rows=of_run,
            of=statistics,
            has_budget=name not in unlimited,
            fps=fps,
        )
        for name, of_run in rows.items()
    )
    return AuditReport(
        bench=bench,
        runs=reports,
        comparisons=statistics.comparisons(),
        signature=signature(
            table,
            measured=bench.measured,
            k=k,
            resamples=resamples,
            seed=seed,
            placed=_placed(scored, schedules.exact_times, fps),
        ),
        k=k,
        warnings=tuple(warning for run in scored for warning in run.warnings),
    )


def summarise(items: Sequence[Item] | ItemTable) -> BenchSummary:
    """The bench's own numbers, EP_ref among them."""
    table = items if isinstance(items, ItemTable) else ItemTable.of(items)
    has_evidence = table.intervals > 0
    shares = np.minimum(1.0, table.evidence_seconds[has_evidence] / table.duration[has_evidence])
    counts = np.bincount(table.family[_measured(table)], minlength=len(table.families)).tolist()
    families = {name: count for name, count in zip(table.families, counts, strict=True) if count}
    is_finite = np.isfinite(table.duration)
    of_videos = np.full(len(table.videos), np.nan)
    of_videos[table.video[is_finite]] = table.duration[is_finite]  # of several, the last
    of_videos = of_videos[~np.isnan(of_videos)]
    return BenchSummary(
        questions=len(table),
        measured=len(shares),
        videos=len(table.videos),
        ep_ref=100 * math.fsum(walked(shares)) / len(shares) if len(shares) else None,
        families={name: families[name] for name in family_order(families)},
        mean_duration=math.fsum(walked(of_videos)) / len(of_videos) if len(of_videos) else None,
        mean_intervals=len(table.start) / len(shares) if len(shares) else None,
        mean_interval_length=math.fsum(walked(table.end - table.start)) / len(table.start)
        if len(table.start)
        else None,
    )


def _measured(table: ItemTable) -> NDArray[np.bool_]:
    """The questions that the metrics are over: those with evidence, or all where none has any."""
    has_evidence = table.intervals > 0
    return has_evidence if has_evidence.any() else ~has_evidence


def _only(rows: RowTable, chosen: NDArray[np.bool_]) -> RowTable:
    return rows if chosen.all() else rows.where(chosen)


def _check_arguments(items: Sequence[Item] | ItemTable, *, k: int, resamples: int, seed: int) -> None:
    if not len(items):
        raise InputError("the bench has no questions.")
    for name, value, least in (("k", k, 1), ("resamples", resamples, 1), ("seed", seed, 0)):
        if value < least:
            raise InputError(f"{name} must be at least {least}, got {value}.")
    if isinstance(items, ItemTable):
        return  # whoever read it has looked
    twice = [name for name, count in Counter(item.question.id for item in items).items() if count > 1]
    if twice:
        raise InputError(f"the bench has question {twice[0]!r} more than once.")
    for item in items:
        if item.evidence and not math.isfinite(item.duration):
            raise InputError(f"question {item.question.id!r} has evidence but no duration; EP_ref needs it.")


def _scored(table: ItemTable, runs: Runs, left_out: frozenset[str]) -> tuple[ScoredRun, ...]:
    """The runs with their rows; those that were scored already stay as they are."""
    if isinstance(runs, Mapping):
        named = tuple(Run(name, predictions) for name, predictions in runs.items())
    else:
        already = [run for run in runs if isinstance(run, Run)]
        scored = [run for run in runs if isinstance(run, ScoredRun)]
        predictions = [run for run in runs if not isinstance(run, (Run, ScoredRun))]
        if scored:
            return distinct_names(scored)
        if predictions:
            run = Run("run", predictions)
            already.append(Run(run.method or run.name, predictions))
        named = distinct_names(already)
    index = IdIndex(table)
    return tuple(score_run(table, index, run, left_out) for run in named)


def _assumed_times(item: Item, fps: float) -> FrameTimes:
    return FrameTimes.assumed(item.duration, fps)


def _placed(runs: Sequence[ScoredRun], sampler_times: frozenset[bool], fps: float) -> dict[str, str]:
    """What the signature says of timestamps that no run logged: the schedules, and the frames they chose among."""
    made = [run.reconstruction for run in runs if run.reconstruction]
    facts = {}
    if made:
        names = sorted({each.sampler for each in made})
        facts = {"timestamps": f"reconstructed({','.join(names)})"}
    if exact := sampler_times.union(*(each.exact_times for each in made)):
        facts["frames-of"] = frame_times_word(exact, fps)
    return facts


def _run_report(
    name: str,
    run: ScoredRun | None,
    *,
    table: ItemTable,
    rows: RowTable,
    of: Statistics,
    has_budget: bool,
    fps: float,
) -> RunReport:
    stages = run.frames_by_stage or {} if run else {}
    return RunReport(
        name=name,
        method=(run.method or run.name) if run else name.removesuffix(" (sampler)"),
        backbone=run.backbone if run else "",
        is_sampler=run is None,
        questions=len(of.table[name].rows),
        metrics=of.means(name),
        ci95=of.intervals(name, of.by_question),
        ci95_by_video=of.intervals(name, of.by_video),
        families=of.families(name),
        answer_only=accuracy(rows.correct),
        groups=accuracy_by_group(table, rows.correct),
        frames_by_stage={stage: count / len(table) for stage, count in stages.items()},
        unanswered=run.unanswered if run else 0,
        has_budget=has_budget,
        reconstructed=run.reconstruction.described(fps) if run and run.reconstruction else None,
        rows=rows,
    )
