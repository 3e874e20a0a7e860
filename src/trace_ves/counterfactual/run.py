"""The check over a whole run: every correct, covered prediction, in parallel, with a log that can be continued."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from trace_ves.core import InputError, TraceVesError
from trace_ves.core.daemon_pool import run_in_daemons
from trace_ves.core.jsonl import JsonlAppender, read_jsonl
from trace_ves.counterfactual.check import check
from trace_ves.records.counterfactual import Outcome
from trace_ves.records.record import FieldError
from trace_ves.ves.rows import row_of_prediction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.benchmarks import Bench
    from trace_ves.records import Item, Prediction


def eligible(bench: Bench, predictions: Sequence[Prediction], k: int) -> list[tuple[Item, Prediction]]:
    """The predictions that are correct with at least k frames in every evidence interval.

    A question that the bench does not have is an error: the run was made on another one.
    """
    by_id = {item.question.id: item for item in bench.items}
    found = []
    for prediction in predictions:
        item = by_id.get(prediction.question_id)
        if item is None and prediction.question_id not in bench.left_out:
            raise InputError(
                f"question {prediction.question_id!r} of the run is not in {bench.path}; was the run made on another "
                "bench?"
            )
        if item is None or not item.evidence:
            continue
        try:
            row = row_of_prediction(item, prediction)
        except FieldError as error:
            raise InputError(f"question {prediction.question_id!r}: {error}.") from None
        if row.correct and row.density >= k:
            found.append((item, prediction))
    return found


def run_check(
    bench: Bench,
    pairs: Sequence[tuple[Item, Prediction]],
    backbone: Backbone,
    log: Path,
    *,
    seed: int,
    workers: int = 8,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Outcome]:
    """Check every pair; what the log has already is not asked again."""
    if bench.path is None:
        raise InputError("the check needs a bench that was read from a file.")
    folder = bench.path.absolute().parent
    settings = {"backbone": backbone.name, "seed": seed}

    def one(item: Item, prediction: Prediction) -> Outcome:
        try:
            return check(item, prediction, folder / item.question.video, backbone, seed=seed)
        except TraceVesError as error:
            return Outcome(item.question.id, prediction.answer, None, error=str(error))

    with JsonlAppender(log) as appender:
        done = _finished(log, settings, {prediction.question_id: prediction.answer for _, prediction in pairs})
        todo = [(item, prediction) for item, prediction in pairs if item.question.id not in done]
        with closing(run_in_daemons(lambda pair, _: one(*pair), todo, workers=workers)) as outcomes:
            for _, outcome in outcomes:
                if outcome.error is None:
                    appender.append(outcome.to_json())
                done[outcome.question_id] = outcome
                if on_progress is not None:
                    on_progress(len(done), len(pairs))
    return [done[item.question.id] for item, _ in pairs]


def _finished(log: Path, settings: Mapping[str, object], answers: Mapping[str, str | None]) -> dict[str, Outcome]:
    """The outcomes of an earlier check of the same predictions under the same settings."""
    found: dict[str, Outcome] = {}
    for line in read_jsonl(log):
        record = line.record
        for key, value in settings.items():
            if record.get(key) != value:
                raise InputError(
                    f"{log}:{line.number}: this log was made with {key} = {record.get(key)}, and now it would be "
                    f"{value}; give another --out."
                )
        try:
            outcome = Outcome.from_json(record)
        except FieldError as error:
            raise InputError(f"{log}:{line.number}: {error}.") from None
        if outcome.question_id in answers and answers[outcome.question_id] == outcome.answer:
            found[outcome.question_id] = outcome
    return found
