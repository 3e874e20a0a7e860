"""The audit: makes a report from a bench and predictions. It reads no files and draws nothing."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves._version import __version__
from trace_ves.core.errors import InputError
from trace_ves.core.interval import union_length
from trace_ves.core.schedules import ASSUMED_FPS, FrameTimes
from trace_ves.records.run_file import Run, distinguish_runs, name_frame_times
from trace_ves.ves.agreement import measure_agreement
from trace_ves.ves.metrics import (
    HEADLINE_DENSITY,
    Columns,
    accuracy,
    accuracy_by_group,
    class_masks,
    family_order,
    group_accuracy,
)
from trace_ves.ves.report import AuditReport, BenchFigures, ClassFigures, RunFigures
from trace_ves.ves.rows import AuditRow, ScoredRun, score_run, score_samplers
from trace_ves.ves.statistics import Progress, Statistics

if TYPE_CHECKING:
    from trace_ves.records import Item, Prediction

    Runs = Mapping[str, Sequence[Prediction]] | Sequence[Run] | Sequence[Prediction] | Sequence[ScoredRun]

RESAMPLES: Final = 1000


def audit(
    items: Sequence[Item],
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
    """Check which evidence the frames of each run covered.

    `runs` maps a name to its predictions; a plain list of predictions is one run. For runs that are too large for
    memory, use `score_files`. `samplers` are schedules to audit without a model: a frame count (centred uniform) or a
    name such as `linspace-32`. They choose among the frames that `frame_times` returns for an item; the default assumes
    `fps` frames per second. Predictions for the ids in `left_out` are skipped and counted. `unlimited` names runs of
    methods without a frame budget, which the table notes.
    """
    _check_arguments(items, k=k, resamples=resamples, seed=seed)
    items = sorted(items, key=lambda item: item.question.id)  # so that the order of lines has no effect
    scored = _score(items, runs, left_out)
    rows = {run.name: run.rows for run in scored}
    sampled, exact_times = score_samplers(
        items, samplers, frame_times or (lambda item: FrameTimes.assumed(item.duration, fps))
    )
    rows |= {f"{name} (sampler)" if name in rows else name: of_sampler for name, of_sampler in sampled.items()}
    if not rows:
        raise InputError("nothing to audit; name at least one run or sampler.")
    by_name = {run.name: run for run in scored}
    bench = summarise(items)
    is_measured = [bool(item.evidence) or not bench.measured for item in items]
    measured_items = [item for item, included in zip(items, is_measured, strict=True) if included]
    measured = [item.question for item in measured_items]
    masks = class_masks(measured_items) if bench.measured else {}
    families = {name: np.array([question.family == name for question in measured]) for name in bench.families}
    videos = {name: at for at, name in enumerate(dict.fromkeys(question.video for question in measured))}
    columns = {
        name: Columns(
            [row for row, included in zip(of_run, is_measured, strict=True) if included],
            bench.ep_ref,
            k,
            frames_known=name not in by_name or by_name[name].frames_known,
        )
        for name, of_run in rows.items()
    }
    statistics = Statistics(
        columns,
        videos=np.array([videos[question.video] for question in measured], np.int64),
        resamples=resamples,
        seed=seed,
        on_progress=on_progress,
    )
    facts = {
        "bench": bench_hash(items),
        "questions": len(items),
        "with-evidence": bench.measured,
        "k": k,
        "intervals": "closed",
        "ci": "percentile-bootstrap",
        "resamples": resamples,
        "seed": seed,
        **_describe_times(scored, exact_times, fps),
        "version": __version__,
    }
    line = "|".join(f"{key}:{value}" for key, value in facts.items())

    def report(name: str, of_run: Sequence[AuditRow]) -> RunFigures:
        run = by_name.get(name)
        stages = run.frames_by_stage or {} if run else {}
        return RunFigures(
            name=name,
            method=(run.method or run.name) if run else name.removesuffix(" (sampler)"),
            backbone=run.backbone if run else "",
            is_sampler=run is None or run.is_selection,
            signature=line,
            questions=columns[name].questions,
            metrics=statistics.means[name],
            ci95=statistics.intervals(name, statistics.by_question),
            ci95_by_video=statistics.intervals(name, statistics.by_video),
            families={family: columns[name].means(mask) for family, mask in families.items()},
            answer_only=accuracy(of_run),
            groups=accuracy_by_group(items, of_run),
            question_groups=group_accuracy(items, of_run),
            classes={
                key: {word: ClassFigures(int(mask.sum()), columns[name].means(mask)) for word, mask in of_class.items()}
                for key, of_class in masks.items()
            },
            missing=len(run.missing) if run and run.missing else None,
            read_by=dict(run.read_by) if run else None,
            frames_by_stage={stage: count / len(items) for stage, count in stages.items()},
            unanswered=run.unanswered if run and not run.is_selection else 0,
            has_budget=name not in unlimited,
            reconstructed=run.reconstruction.describe(fps) if run and run.reconstruction else None,
            rows=of_run,
        )

    agreement, suspicions = measure_agreement(items, scored)
    return AuditReport(
        signature=line,
        bench=bench,
        runs=tuple(report(name, of_run) for name, of_run in rows.items()),
        comparisons=statistics.comparisons(),
        agreement=agreement,
        warnings=(*(warning for run in scored for warning in run.warnings), *suspicions),
        k=k,
    )


def summarise(items: Sequence[Item]) -> BenchFigures:
    """The figures of the bench, including EP_ref."""
    items = sorted(items, key=lambda item: item.question.id)
    with_evidence = [item for item in items if item.evidence]
    shares = [min(1.0, union_length(item.evidence) / item.duration) for item in with_evidence]
    families = Counter(item.question.family for item in with_evidence or items)
    durations = {item.question.video: item.duration for item in items if math.isfinite(item.duration)}
    lengths = [interval.length for item in with_evidence for interval in item.evidence]
    return BenchFigures(
        questions=len(items),
        measured=len(with_evidence),
        videos=len({item.question.video for item in items}),
        ep_ref=100 * math.fsum(shares) / len(shares) if shares else None,
        families={name: families[name] for name in family_order(families)},
        mean_duration=math.fsum(durations.values()) / len(durations) if durations else None,
        mean_intervals=len(lengths) / len(shares) if shares else None,
        mean_interval_length=math.fsum(lengths) / len(lengths) if lengths else None,
    )


def _check_arguments(items: Sequence[Item], *, k: int, resamples: int, seed: int) -> None:
    if not items:
        raise InputError("the bench has no questions.")
    for name, value, least in (("k", k, 1), ("resamples", resamples, 1), ("seed", seed, 0)):
        if value < least:
            raise InputError(f"{name} must be at least {least}, got {value}.")
    if twice := [name for name, count in Counter(item.question.id for item in items).items() if count > 1]:
        raise InputError(f"the bench has question {twice[0]!r} more than once.")
    for item in items:
        if item.evidence and not math.isfinite(item.duration):
            raise InputError(f"question {item.question.id!r} has evidence but no duration; EP_ref needs it.")


def _score(items: Sequence[Item], runs: Runs, left_out: frozenset[str]) -> tuple[ScoredRun, ...]:
    """Score the runs, and give each a distinct name."""
    if isinstance(runs, Mapping):
        return tuple(score_run(items, Run(name, predictions), left_out) for name, predictions in runs.items())
    scored = [run for run in runs if isinstance(run, ScoredRun)]
    in_memory = [run for run in runs if isinstance(run, Run)]
    predictions = [run for run in runs if not isinstance(run, (Run, ScoredRun))]
    if predictions:
        run = Run("run", predictions)
        in_memory.append(Run(run.method or run.name, predictions))
    return distinguish_runs(scored) + tuple(score_run(items, run, left_out) for run in distinguish_runs(in_memory))


def _describe_times(runs: Sequence[ScoredRun], sampler_times: frozenset[bool], fps: float) -> dict[str, str]:
    """The signature's entries about timestamps that were not logged: their schedules and the frames they used."""
    reconstructions = [run.reconstruction for run in runs if run.reconstruction]
    names = ",".join(sorted({each.sampler for each in reconstructions}))
    facts = {"timestamps": f"reconstructed({names})"} if names else {}
    if exact := sampler_times.union(*(each.exact_times for each in reconstructions)):
        facts["frames-of"] = name_frame_times(exact, fps)
    return facts


def bench_hash(items: Sequence[Item]) -> str:
    """Twelve hex digits over everything an audit depends on, independent of the order of the questions."""
    digest = hashlib.sha256()
    for item in sorted(items, key=lambda item: item.question.id):
        question = item.question
        duration = float(item.duration) if math.isfinite(item.duration) else None
        evidence = sorted([float(interval.start), float(interval.end)] for interval in item.evidence)
        line = [question.id, question.video, question.family, len(question.options), item.answer, duration, evidence]
        digest.update(f"{json.dumps(line)}\n".encode())
    return digest.hexdigest()[:12]
