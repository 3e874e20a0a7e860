"""The audit: a bench and the predictions of some runs become a report.

Reads no files and draws nothing; it needs the values alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import InputError
from trace_ves.core.schedules import ASSUMED_FPS, FrameTimes
from trace_ves.records.record import FieldError
from trace_ves.ves.groups import accuracy, accuracy_by_group, family_order
from trace_ves.ves.inference import Statistics
from trace_ves.ves.metrics import HEADLINE_DENSITY, columns
from trace_ves.ves.report import AuditReport, BenchSummary, RunReport
from trace_ves.ves.rows import AuditRow, evidence_share, row_of_prediction
from trace_ves.ves.runs import Run, distinct_names, frame_times_word
from trace_ves.ves.samplers import SamplerRows
from trace_ves.ves.signature import signature

if TYPE_CHECKING:
    from collections.abc import Callable

    from trace_ves.records import Item, Prediction
    from trace_ves.ves.inference import Progress

RESAMPLES: Final = 1000
SHOWN_IDS: Final = 3


def audit(
    items: Sequence[Item],
    runs: Mapping[str, Sequence[Prediction]] | Sequence[Run] | Sequence[Prediction] = (),
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

    `runs` maps a name to its predictions; a plain list of predictions is one run. `samplers` are schedules to audit
    without a model: frame counts of centred uniform ones, or names such as `linspace-32`, which choose among the frames
    that `frame_times` gives for an item, or that its duration has at `fps` frames a second. Predictions for the ids in
    `left_out` are passed over and counted. `unlimited` names runs of methods that state no frame budget, so that the
    table can say so.
    """
    _check_arguments(items, k=k, resamples=resamples, seed=seed)
    items = sorted(items, key=lambda item: item.question.id)  # so that no digit depends on the order of lines
    named = _as_runs(runs)
    warnings: list[str] = []
    rows = {run.name: _rows(items, run, left_out, warnings) for run in named}
    schedules = SamplerRows(items, frame_times or partial(_assumed_times, fps=fps))
    rows |= schedules.of(samplers, taken=rows)
    if not rows:
        raise InputError("nothing to audit: give at least one run or one sampler.")
    measured = [index for index, item in enumerate(items) if item.evidence] or list(range(len(items)))
    bench = summarise(items)
    table = {
        name: columns([of_run[index] for index in measured], ep_ref=bench.ep_ref, k=k) for name, of_run in rows.items()
    }
    statistics = Statistics(
        table, [items[index] for index in measured], resamples=resamples, seed=seed, on_progress=on_progress
    )
    by_name = {run.name: run for run in named}
    reports = tuple(
        replace(
            _run_report(name, by_name.get(name), items=items, rows=of_run, questions=len(measured), of=statistics),
            has_budget=name not in unlimited,
            reconstructed=_reconstructed(by_name.get(name), fps),
        )
        for name, of_run in rows.items()
    )
    return AuditReport(
        bench=bench,
        runs=reports,
        comparisons=statistics.comparisons(),
        signature=signature(
            items,
            measured=bench.measured,
            k=k,
            resamples=resamples,
            seed=seed,
            placed=_placed(named, schedules.exact_times, fps),
        ),
        k=k,
        warnings=tuple(warnings),
    )


def summarise(items: Sequence[Item]) -> BenchSummary:
    """The bench's own numbers, EP_ref among them."""
    measured = [item for item in items if item.evidence]
    counts = Counter(item.question.family for item in measured or items)
    shares = [evidence_share(item) for item in measured]
    durations = {item.question.video: item.duration for item in items if math.isfinite(item.duration)}
    intervals = [interval for item in items for interval in item.evidence]
    return BenchSummary(
        questions=len(items),
        measured=len(shares),
        videos=len({item.question.video for item in items}),
        ep_ref=100 * math.fsum(shares) / len(shares) if shares else None,
        families={name: counts[name] for name in family_order(counts)},
        mean_duration=math.fsum(durations.values()) / len(durations) if durations else None,
        mean_intervals=len(intervals) / len(shares) if shares else None,
        mean_interval_length=math.fsum(i.length for i in intervals) / len(intervals) if intervals else None,
    )


def _check_arguments(items: Sequence[Item], *, k: int, resamples: int, seed: int) -> None:
    if not items:
        raise InputError("the bench has no questions.")
    for name, value, least in (("k", k, 1), ("resamples", resamples, 1), ("seed", seed, 0)):
        if value < least:
            raise InputError(f"{name} must be at least {least}, got {value}.")
    twice = [name for name, count in Counter(item.question.id for item in items).items() if count > 1]
    if twice:
        raise InputError(f"the bench has question {twice[0]!r} more than once.")
    for item in items:
        if item.evidence and not math.isfinite(item.duration):
            raise InputError(f"question {item.question.id!r} has evidence but no duration; EP_ref needs it.")


def _as_runs(runs: Mapping[str, Sequence[Prediction]] | Sequence[Run] | Sequence[Prediction]) -> tuple[Run, ...]:
    if isinstance(runs, Mapping):
        return tuple(Run(name, predictions) for name, predictions in runs.items())
    already = [run for run in runs if isinstance(run, Run)]
    predictions = [run for run in runs if not isinstance(run, Run)]
    if predictions:
        run = Run("run", predictions)
        already.append(Run(run.method or run.name, predictions))
    return distinct_names(already)


def _rows(items: Sequence[Item], run: Run, left_out: frozenset[str], warnings: list[str]) -> list[AuditRow]:
    """The rows of one run in the order of the bench; whatever the run lacks or has too much of is said."""
    by_id = {item.question.id: item for item in items}
    rows: dict[str, AuditRow] = {}
    first_index: dict[str, int] = {}
    ignored = 0
    for index, prediction in enumerate(run.predictions):
        name = prediction.question_id
        if name in first_index:
            first = f"line {run.lines[first_index[name]]}" if run.path else f"prediction {first_index[name] + 1}"
            raise run.error(index, f"question {name!r} was already predicted in {first}; keep one of the two")
        first_index[name] = index
        if name in left_out:
            ignored += 1
            continue
        if name not in by_id:
            raise run.error(index, f"question {name!r} is not in the bench; was the run made on another one?")
        try:
            rows[name] = row_of_prediction(by_id[name], prediction)
        except FieldError as error:
            raise run.error(index, str(error)) from None
    warnings.extend(run.warnings)
    if ignored:
        warnings.append(f"{run.name}: {ignored} predictions are for questions that were left out of the bench.")
    missing = [name for name in by_id if name not in rows]
    if missing:
        examples = ", ".join(missing[:SHOWN_IDS]) + (", …" if len(missing) > SHOWN_IDS else "")
        warnings.append(
            f"{run.path or run.name}: {len(missing)} of {len(by_id)} questions have no prediction and count as wrong "
            f"and unobserved ({examples})."
        )
    failed = sum(prediction.error is not None for prediction in run.predictions)
    if failed:
        warnings.append(f"{run.path or run.name}: {failed} predictions carry an error of the method's own.")
    return [rows[name] if name in rows else row_of_prediction(item, None) for name, item in by_id.items()]


def _assumed_times(item: Item, fps: float) -> FrameTimes:
    return FrameTimes.assumed(item.duration, fps)


def _reconstructed(run: Run | None, fps: float) -> str | None:
    return run.reconstruction.described(fps) if run and run.reconstruction else None


def _placed(runs: Sequence[Run], sampler_times: frozenset[bool], fps: float) -> dict[str, str]:
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
    name: str, run: Run | None, *, items: Sequence[Item], rows: Sequence[AuditRow], questions: int, of: Statistics
) -> RunReport:
    correct = [row.correct for row in rows]
    return RunReport(
        name=name,
        method=(run.method or run.name) if run else name.removesuffix(" (sampler)"),
        backbone=run.backbone if run else "",
        is_sampler=run is None,
        questions=questions,
        metrics=of.table[name].means(),
        ci95=of.intervals(name, of.by_question),
        ci95_by_video=of.intervals(name, of.by_video),
        families=of.families(name),
        answer_only=accuracy(correct),
        groups=accuracy_by_group(items, correct),
        frames_by_stage=_frames_by_stage(run, len(items)) if run else {},
        unanswered=_unanswered(run, items) if run else 0,
        rows=tuple(rows),
    )


def _unanswered(run: Run, items: Sequence[Item]) -> int:
    answered = {prediction.question_id for prediction in run.predictions if prediction.answer is not None}
    return sum(item.question.id not in answered for item in items)


def _frames_by_stage(run: Run, questions: int) -> dict[str, float]:
    frames: Counter[str] = Counter()
    for prediction in run.predictions:
        for call in prediction.observations:
            frames[call.stage] += len(call.timestamps)
    return {stage: count / questions for stage, count in frames.items()}
