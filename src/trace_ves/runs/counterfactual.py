"""The counterfactual check: whether covered, correct answers change when one evidence interval is masked.

Each prediction is answered three times from its clips: unchanged, without one evidence interval, and without the same
number of frames elsewhere. All three use the same backbone and the prompt of final answer replay, in one batch, so that
only the masked frames differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count, islice, takewhile, zip_longest
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import numpy as np
from pydantic import Field, PlainSerializer

from trace_ves.agent.anchors import prompt_variables
from trace_ves.agent.final_answer_replay import PROMPT
from trace_ves.backbone.protocol import Backbone, ModelFault, Request
from trace_ves.backbone.replies import answer_reply, same_answer
from trace_ves.core import Clip, InputError, Interval, TraceVesError
from trace_ves.core.display import simulation_notes
from trace_ves.core.jsonl import JsonlAppender, read_jsonl
from trace_ves.core.threads import run_in_daemons
from trace_ves.observer import Observer
from trace_ves.records.base import FieldError, Record
from trace_ves.records.counterfactual import Masked, Outcome
from trace_ves.runs.answering import find_opener
from trace_ves.runs.logged_frames import recorded_bundle, recorded_frames, refuse_other_video
from trace_ves.runs.video_pool import SharedVideo, bench_folder
from trace_ves.ves.audit import RESAMPLES
from trace_ves.ves.paper import paper
from trace_ves.ves.rows import row_of_prediction
from trace_ves.ves.statistics import bootstrap, percentile_interval
from trace_ves.ves.table import Column, Row, Section, Table, Value, as_value

if TYPE_CHECKING:
    from trace_ves.benches import Bench
    from trace_ves.records import Item, Prediction


WIDEST_STEP_SECONDS: Final = 1.0
NARROWEST_STEP_SECONDS: Final = 0.04
CHUNK: Final = 16  # Moments decoded at a time in the search for replacement frames

Swap = dict[float, float]  # The timestamp of the frame that replaces each masked one


@dataclass(frozen=True, slots=True)
class Mask:
    """A span, and the frames of the answer's clips that lie in it and are masked."""

    span: Interval
    timestamps: tuple[float, ...]


class Masks(NamedTuple):
    """The masks of one question; None if its frames do not allow one."""

    evidence: Mask | None
    control: Mask | None


def make_mask(span: Interval, clip_frames: Sequence[float]) -> Mask:
    """The mask of a span: the frames of the clips in it."""
    return Mask(span, tuple(seconds for seconds in clip_frames if seconds in span))


def list_control_spans(supplied: Sequence[float], evidence: Sequence[Interval], size: int) -> list[Interval]:
    """Every span from one supplied frame to another with `size` supplied frames and no evidence."""
    rows = ((supplied[at], supplied[at + size - 1]) for at in range(len(supplied) - size + 1))
    spans = (Interval(first, last) for first, last in rows)
    return [span for span in spans if all(span.intersection(interval) is None for interval in evidence)]


def choose_masks(
    clip_frames: Sequence[float], supplied: Sequence[float], evidence: Sequence[Interval], draw: Random
) -> Masks:
    """Draw an evidence interval, preferably one that has a control, and a control.

    `supplied` are the timestamps of the whole log in order of time: the control's span has the same number of them as
    the interval. A control without frames of the clips masks nothing.
    """
    pairs = [
        (mask, list_control_spans(supplied, evidence, sum(seconds in mask.span for seconds in supplied)))
        for mask in (make_mask(interval, clip_frames) for interval in evidence)
        if mask.timestamps
    ]
    usable = [pair for pair in pairs if pair[1]] or pairs
    if not usable:
        return Masks(None, None)
    mask, spans = draw.choice(usable)
    return Masks(mask, make_mask(draw.choice(spans), clip_frames) if spans else None)


def iterate_outward(mask: Mask, whole: Interval) -> Iterator[float]:
    """Moments around the masked span, the nearest first, spaced like the masked frames but at most a second apart."""
    gaps = max(1, len(mask.timestamps) - 1)
    step = min(max(mask.span.length / gaps, NARROWEST_STEP_SECONDS), WIDEST_STEP_SECONDS)
    before = takewhile(lambda moment: moment >= whole.start, (mask.span.start - step * n for n in count(1)))
    after = takewhile(lambda moment: moment <= whole.end, (mask.span.end + step * n for n in count(1)))
    return (moment for pair in zip_longest(before, after) for moment in pair if moment is not None)


def check_question(item: Item, prediction: Prediction, path: Path, backbone: Backbone, *, seed: int) -> Outcome:
    """Answer one question three times: unmasked, evidence masked, control masked."""
    opener = find_opener(backbone)
    if opener is None:
        refuse_other_video(prediction, path)
    with closing(SharedVideo(path, opener)) as video:
        observer = Observer(video, backbone)
        clips = tuple(
            Clip(clip.span, clip.strategy, recorded_frames(video, clip.timestamps, clip.height))
            for clip in recorded_bundle(prediction)
        )
        clip_frames = sorted({frame.seconds for clip in clips for frame in clip.frames})
        supplied = sorted({*prediction.timestamps, *clip_frames})
        # the draw depends only on the seed and the question, not on the order of questions
        digest = hashlib.sha256(f"{seed}:{item.question.id}".encode()).digest()
        masks = choose_masks(clip_frames, supplied, item.evidence, Random(digest))  # noqa: S311  chance, not a secret
        swaps = {
            mask: swap
            for mask in masks
            if mask is not None and (swap := _find_swap(observer, mask, item, clip_frames)) is not None
        }
        versions = [clips, *(tuple(replace_frames(observer, clip, swap) for clip in clips) for swap in swaps.values())]
        question = item.question
        requests = [Request(PROMPT, prompt_variables(question), answer_reply(question), each) for each in versions]
        replies = observer.ask(requests)
        replayed, *answers = [None if isinstance(reply, ModelFault) else reply.answer for reply in replies]
        masked = {}
        for (mask, swap), answer in zip(swaps.items(), answers, strict=True):
            changed = answer is not None and not same_answer(answer, replayed)
            masked[mask] = Masked(mask.span, mask.timestamps, tuple(swap.values()), answer, changed=changed)
        return Outcome(
            item.question.id,
            prediction.answer,
            replayed,
            evidence=masked.get(masks.evidence) if masks.evidence else None,
            control=masked.get(masks.control) if masks.control else None,
            observations=observer.log.calls,
            backbone=backbone.name,
            seed=seed,
        )


def _find_swap(observer: Observer, mask: Mask, item: Item, clip_frames: Sequence[float]) -> Swap | None:
    """A replacement for each masked frame, outside all evidence and not in the clips; None if there are too few."""
    in_clips, needed, excluded = set(clip_frames), len(mask.timestamps), (*item.evidence, mask.span)
    frames: set[float] = set()
    moments = iterate_outward(mask, observer.whole)
    while len(frames) < needed and (chunk := list(islice(moments, CHUNK))):
        for frame in observer.video.frames_at(chunk):
            usable = frame.seconds not in in_clips and not any(frame.seconds in span for span in excluded)
            if usable and len(frames) < needed:
                frames.add(frame.seconds)
    return dict(zip(mask.timestamps, sorted(frames), strict=True)) if len(frames) == needed else None


def replace_frames(observer: Observer, clip: Clip, swap: Swap) -> Clip:
    """The clip with its replacement frames in order of time, and a span that fits them."""
    if not any(frame.seconds in swap for frame in clip.frames):
        return clip
    moments = sorted(swap.get(frame.seconds, frame.seconds) for frame in clip.frames)
    frames = recorded_frames(observer.video, moments, clip.strategy.height)
    return Clip(Interval(moments[0], moments[-1]), clip.strategy, frames)


def select_eligible(bench: Bench, predictions: Sequence[Prediction], k: int) -> list[tuple[Item, Prediction]]:
    """The predictions that are correct with at least k frames in every evidence interval.

    Raises `InputError` for a question that is not in the bench: the run belongs to another bench.
    """
    by_id = {item.question.id: item for item in bench.items}
    pairs = []
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
            pairs.append((item, prediction))
    return pairs


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
    """Check every pair that is not in the log yet."""
    folder = bench_folder(bench)
    settings = {"backbone": backbone.name, "seed": seed}

    def one(item: Item, prediction: Prediction) -> Outcome:
        try:
            return check_question(item, prediction, folder / item.question.video, backbone, seed=seed)
        except TraceVesError as error:
            return Outcome(item.question.id, prediction.answer, None, error=str(error))

    with JsonlAppender(log) as appender:
        by_id = _read_outcomes(log, settings, {prediction.question_id: prediction.answer for _, prediction in pairs})
        unchecked = [(item, prediction) for item, prediction in pairs if item.question.id not in by_id]
        with closing(run_in_daemons(lambda pair, _: one(*pair), unchecked, workers=workers)) as outcomes:
            for _, outcome in outcomes:
                if outcome.error is None:
                    appender.append(outcome.to_json())
                by_id[outcome.question_id] = outcome
                if on_progress is not None:
                    on_progress(len(by_id), len(pairs))
    return [by_id[item.question.id] for item, _ in pairs]


def _read_outcomes(log: Path, settings: Mapping[str, object], answers: Mapping[str, str | None]) -> dict[str, Outcome]:
    """The outcomes of an earlier check of the same predictions under the same settings."""
    outcomes: dict[str, Outcome] = {}
    for line in read_jsonl(log):
        record = line.record
        for key, value in settings.items():
            if record.get(key) != value:
                raise InputError(
                    f"{log}:{line.number}: this log was made with {key} = {record.get(key)}, but this command "
                    f"uses {value}; give another --out."
                )
        try:
            outcome = Outcome.from_json(record)
        except FieldError as error:
            raise InputError(f"{log}:{line.number}: {error}.") from None
        if outcome.question_id in answers and answers[outcome.question_id] == outcome.answer:
            outcomes[outcome.question_id] = outcome
    return outcomes


Percent = Annotated[float | None, PlainSerializer(lambda rate: None if rate is None else round(rate, 4))]
Bounds = Annotated[
    tuple[float, float] | None,
    PlainSerializer(lambda bounds: None if bounds is None else [round(bound, 4) for bound in bounds]),
]


@dataclass(frozen=True, slots=True)
class FlipRate(Record):
    """Changed answers in percent, with the 95% bootstrap interval. No answer counts as changed."""

    questions: int
    percent: Annotated[Percent, Field(alias="changed")] = None
    another: Annotated[Percent, Field(alias="another_answer")] = None
    no_answer: Percent = None
    ci95: Bounds = None


@dataclass(frozen=True, slots=True)
class Summary(Record):
    """Both rates, and the predictions that were not counted."""

    eligible: int
    """Predictions that are correct and covered."""
    not_reproduced: int
    """Eligible predictions whose unmasked clips gave another answer."""
    undetermined: int
    """Eligible predictions whose unmasked clips gave no answer: a forced answer cannot be checked."""
    no_mask: int
    """Reproduced, but without evidence frames in the clips or without replacements."""
    no_control: int
    """Masked, but without a span of the same number of frames outside the evidence."""
    failed: int
    evidence: FlipRate
    control: FlipRate


def summarise(outcomes: Sequence[Outcome], *, resamples: int = RESAMPLES, seed: int = 0) -> Summary:
    """Count the changed answers. Only questions whose unmasked clips reproduce the answer count."""
    answered = [each for each in outcomes if each.error is None and each.replayed is not None]
    counted = [each for each in answered if same_answer(each.answer, each.replayed)]
    masked = [outcome for outcome in counted if outcome.evidence is not None]
    return Summary(
        eligible=len(outcomes),
        not_reproduced=len(answered) - len(counted),
        undetermined=sum(outcome.error is None and outcome.replayed is None for outcome in outcomes),
        no_mask=len(counted) - len(masked),
        no_control=sum(outcome.control is None for outcome in masked),
        failed=sum(outcome.error is not None for outcome in outcomes),
        evidence=_rate([outcome.evidence for outcome in masked], resamples, seed),
        control=_rate([outcome.control for outcome in masked], resamples, seed),
    )


def _rate(masked: Sequence[Masked | None], resamples: int, seed: int) -> FlipRate:
    outcomes = [each for each in masked if each is not None]
    if not outcomes:
        return FlipRate(0)
    another = np.array([100.0 * each.changed for each in outcomes])
    no_answer = np.array([100.0 * (each.answer is None) for each in outcomes])
    changed = np.maximum(another, no_answer)
    interval = percentile_interval(bootstrap(changed[:, np.newaxis], resamples=resamples, seed=seed))
    return FlipRate(len(outcomes), float(changed.mean()), float(another.mean()), float(no_answer.mean()), interval)


def flip_table(summary: Summary, run: str, backbone: str = "") -> Table:
    """Both rates, and a note about what was not counted and about simulated backbones."""
    published = paper()["counterfactual"]
    rows = (
        _make_row("one evidence interval", summary.evidence, published["evidence"]),
        _make_row("a segment of the same number of frames outside the evidence", summary.control, published["control"]),
    )
    return Table(
        key="counterfactual",
        title=f"Changed answers without some frames: {run}",
        first_column="Masked",
        columns=(
            Column("Questions"),
            Column("Changed", "(%)"),
            Column("to another", "(%)"),
            Column("to none", "(%)"),
            Column("Paper", "changed (%)"),
        ),
        sections=(Section("", rows),),
        note=f"{summary.eligible} predictions are correct and covered. Clips that do not decide the answer: "
        f"{summary.undetermined}; that give another: {summary.not_reproduced} (these cannot be checked). Nothing "
        f"to mask: {summary.no_mask}; no control: {summary.no_control}; failed: {summary.failed}. A missing answer "
        "counts as changed; the paper does not distinguish the two. "
        f"{simulation_notes([backbone])}".rstrip(),
    )


def _make_row(name: str, rate: FlipRate, paper: float) -> Row:
    half = None if rate.ci95 is None or rate.questions < 2 else (rate.ci95[1] - rate.ci95[0]) / 2
    parts = map(as_value, (rate.another, rate.no_answer, paper))
    cells = (Value(str(rate.questions)), as_value(rate.percent, half=half), *parts)
    return Row(name, tuple((cell,) for cell in cells))
