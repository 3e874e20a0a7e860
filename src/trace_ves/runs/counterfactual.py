"""The counterfactual check: whether covered, correct answers change when one evidence interval is masked.

Each prediction is answered three times from its clips: as they are, without one evidence interval, and without as many
frames elsewhere. The three go out as one batch through the same backbone and the prompt of final answer replay, so that
only the masked frames differ between them.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass
from itertools import count, islice, takewhile, zip_longest
from random import Random
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.agent.anchors import prompt_variables
from trace_ves.agent.final_answer_replay import PROMPT
from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.backbone.replies import answer_reply, same_answer
from trace_ves.core import Clip, InputError, Interval, TraceVesError
from trace_ves.core.display import simulation_notes
from trace_ves.core.jsonl import JsonlAppender, read_jsonl
from trace_ves.core.threads import run_in_daemons
from trace_ves.observer import Observer
from trace_ves.records.base import FieldError
from trace_ves.records.counterfactual import CLIPS, Masked, Outcome
from trace_ves.runs.answering import opener_of
from trace_ves.runs.logged_frames import recorded_bundle, recorded_clip, recorded_frames, refuse_other_video
from trace_ves.runs.video_pool import SharedVideo, bench_folder
from trace_ves.ves.audit import RESAMPLES
from trace_ves.ves.paper import paper
from trace_ves.ves.rows import row_of_prediction
from trace_ves.ves.statistics import bootstrap
from trace_ves.ves.table import Column, Row, Section, Table, Value, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.benches import Bench
    from trace_ves.records import Item, Prediction


WIDEST_STEP_SECONDS: Final = 1.0
NARROWEST_STEP_SECONDS: Final = 0.04
CHUNK: Final = 16  # Moments that are decoded at a time in search of replacement frames

Swap = dict[float, float]  # The timestamp of the frame that replaces each masked one


@dataclass(frozen=True, slots=True)
class Mask:
    """A span, and the frames of the answer's clips that are taken away because they lie in it."""

    span: Interval
    timestamps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Masks:
    """One question's masks; None where the frames do not allow one."""

    evidence: Mask | None
    control: Mask | None


def mask_of(span: Interval, clip_frames: Sequence[float]) -> Mask:
    """The mask of a span: what the clips have in it."""
    return Mask(span, tuple(seconds for seconds in clip_frames if seconds in span))


def evidence_masks(clip_frames: Sequence[float], evidence: Sequence[Interval]) -> list[Mask]:
    """One mask for each interval that any frame of the clips lies in."""
    masks = (mask_of(interval, clip_frames) for interval in evidence)
    return [mask for mask in masks if mask.timestamps]


def control_spans(supplied: Sequence[float], evidence: Sequence[Interval], size: int) -> list[Interval]:
    """Every span from one supplied frame to another that holds `size` supplied frames and touches no evidence."""
    rows = ((supplied[at], supplied[at + size - 1]) for at in range(len(supplied) - size + 1))
    spans = (Interval(first, last) for first, last in rows)
    return [span for span in spans if all(span.intersection(interval) is None for interval in evidence)]


def choose(
    clip_frames: Sequence[float], supplied: Sequence[float], evidence: Sequence[Interval], draw: Random
) -> Masks:
    """An interval at random, among those that have a control if any has; and a control at random.

    `supplied` are the timestamps of the whole log, in order of time: the control's span holds as many of them as the
    interval does. It may hold none of the clips' own frames; then nothing is taken away.
    """
    pairs = [
        (mask, control_spans(supplied, evidence, sum(seconds in mask.span for seconds in supplied)))
        for mask in evidence_masks(clip_frames, evidence)
    ]
    usable = [pair for pair in pairs if pair[1]] or pairs
    if not usable:
        return Masks(None, None)
    mask, spans = draw.choice(usable)
    return Masks(mask, mask_of(draw.choice(spans), clip_frames) if spans else None)


def outward(mask: Mask, whole: Interval) -> Iterator[float]:
    """Moments around the masked span, nearest first, as far apart as the masked frames are but a second at most."""
    gaps = max(1, len(mask.timestamps) - 1)
    step = min(max(mask.span.length / gaps, NARROWEST_STEP_SECONDS), WIDEST_STEP_SECONDS)
    before = takewhile(lambda moment: moment >= whole.start, (mask.span.start - step * n for n in count(1)))
    after = takewhile(lambda moment: moment <= whole.end, (mask.span.end + step * n for n in count(1)))
    return (moment for pair in zip_longest(before, after) for moment in pair if moment is not None)


def is_reproduced(outcome: Outcome) -> bool:
    """Whether the clips alone give the prediction's answer; if not, a change says nothing about the mask."""
    return same_answer(outcome.answer, outcome.replayed)


def check(item: Item, prediction: Prediction, path: Path, backbone: Backbone, *, seed: int) -> Outcome:
    """Answer one question three times: unmasked, evidence masked, control masked."""
    opener = opener_of(backbone)
    if opener is None:
        refuse_other_video(prediction, path)
    with closing(SharedVideo(path, opener)) as video:
        observer = Observer(video, backbone)
        clips = tuple(recorded_clip(video, clip) for clip in recorded_bundle(prediction))
        clip_frames = sorted({frame.seconds for clip in clips for frame in clip.frames})
        supplied = sorted({*prediction.timestamps, *clip_frames})
        # Chance depends on the seed and the question alone, not on the order of work.
        digest = hashlib.sha256(f"{seed}:{item.question.id}".encode()).digest()
        masks = choose(clip_frames, supplied, item.evidence, Random(digest))  # noqa: S311  chance, not a secret
        swaps = {
            mask: swap
            for mask in (masks.evidence, masks.control)
            if mask is not None and (swap := _find_swap(observer, mask, item, clip_frames)) is not None
        }
        versions = [clips, *(tuple(replace_frames(observer, clip, swap) for clip in clips) for swap in swaps.values())]
        question = item.question
        requests = [Request(PROMPT, prompt_variables(question), answer_reply(question), shown) for shown in versions]
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
    """As many frames as are masked, from outside all evidence and not among the clips' own; None if there are not."""
    taken, wanted, outside = set(clip_frames), len(mask.timestamps), (*item.evidence, mask.span)
    frames: set[float] = set()
    moments = outward(mask, observer.whole)
    while len(frames) < wanted and (chunk := list(islice(moments, CHUNK))):
        for frame in observer.video.frames_at(chunk):
            usable = frame.seconds not in taken and not any(frame.seconds in interval for interval in outside)
            if usable and len(frames) < wanted:
                frames.add(frame.seconds)
    return dict(zip(mask.timestamps, sorted(frames), strict=True)) if len(frames) == wanted else None


def replace_frames(observer: Observer, clip: Clip, swap: Swap) -> Clip:
    """The clip with its replacement frames in order of time; its span follows its frames, so that it stays true."""
    if not any(frame.seconds in swap for frame in clip.frames):
        return clip
    moments = sorted(swap.get(frame.seconds, frame.seconds) for frame in clip.frames)
    frames = recorded_frames(observer.video, moments, clip.strategy.height)
    return Clip(Interval(moments[0], moments[-1]), clip.strategy, frames)


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
    folder = bench_folder(bench)
    settings = {"backbone": backbone.name, "seed": seed}

    def one(item: Item, prediction: Prediction) -> Outcome:
        try:
            return check(item, prediction, folder / item.question.video, backbone, seed=seed)
        except TraceVesError as error:
            return Outcome(item.question.id, prediction.answer, None, error=str(error))

    with JsonlAppender(log) as appender:
        done = _read_outcomes(log, settings, {prediction.question_id: prediction.answer for _, prediction in pairs})
        todo = [(item, prediction) for item, prediction in pairs if item.question.id not in done]
        with closing(run_in_daemons(lambda pair, _: one(*pair), todo, workers=workers)) as outcomes:
            for _, outcome in outcomes:
                if outcome.error is None:
                    appender.append(outcome.to_json())
                done[outcome.question_id] = outcome
                if on_progress is not None:
                    on_progress(len(done), len(pairs))
    return [done[item.question.id] for item, _ in pairs]


def _read_outcomes(log: Path, settings: Mapping[str, object], answers: Mapping[str, str | None]) -> dict[str, Outcome]:
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


@dataclass(frozen=True, slots=True)
class FlipRate:
    """Changed answers in percent, over so many questions, with the 95% bootstrap interval."""

    questions: int
    percent: float | None
    ci95: tuple[float, float] | None
    no_answer: float | None = None
    """Questions in percent that got no answer any more; none of them counts as changed."""

    def to_json(self) -> dict[str, object]:
        """As `--json` prints it."""
        ci95 = None if self.ci95 is None else [round(bound, 4) for bound in self.ci95]
        changed, no_answer = (None if each is None else round(each, 4) for each in (self.percent, self.no_answer))
        return {"questions": self.questions, "changed": changed, "ci95": ci95, "no_answer": no_answer}


@dataclass(frozen=True, slots=True)
class Summary:
    """Both rates, and what did not count towards them."""

    eligible: int
    """Predictions that are correct and covered."""
    not_reproduced: int
    """Of those, the ones whose clips alone did not give the answer again."""
    no_mask: int
    """Reproduced, but no evidence frame among the clips, or no frames to replace them."""
    no_control: int
    """Masked, but the log has no span outside the evidence with as many frames."""
    failed: int
    evidence: FlipRate
    control: FlipRate
    older: int
    """Of the masked ones, those of a log of version 0.1, whose control was drawn from the clips alone."""

    def to_json(self) -> dict[str, object]:
        """As `--json` prints it."""
        counts = ("eligible", "not_reproduced", "no_mask", "no_control", "failed", "older")
        rates = {"evidence": self.evidence.to_json(), "control": self.control.to_json()}
        return {name: getattr(self, name) for name in counts} | rates


def summarise(outcomes: Sequence[Outcome], *, resamples: int = RESAMPLES, seed: int = 0) -> Summary:
    """Count the changes."""
    counted = [outcome for outcome in outcomes if outcome.error is None and is_reproduced(outcome)]
    masked = [outcome for outcome in counted if outcome.evidence is not None]
    return Summary(
        eligible=len(outcomes),
        not_reproduced=sum(outcome.error is None and not is_reproduced(outcome) for outcome in outcomes),
        no_mask=len(counted) - len(masked),
        no_control=sum(outcome.control is None for outcome in masked),
        failed=sum(outcome.error is not None for outcome in outcomes),
        evidence=_rate([outcome.evidence for outcome in masked], resamples, seed),
        control=_rate([outcome.control for outcome in masked], resamples, seed),
        older=sum(outcome.control_of == CLIPS for outcome in masked),
    )


def _rate(masked: Sequence[Masked | None], resamples: int, seed: int) -> FlipRate:
    found = [each for each in masked if each is not None]
    if not found:
        return FlipRate(0, None, None)
    changed = np.array([[100.0 * each.changed] for each in found])
    interval = bootstrap(changed, resamples=resamples, seed=seed).interval(0)
    no_answer = 100.0 * sum(each.answer is None for each in found) / len(found)
    return FlipRate(len(found), float(changed.mean()), interval, no_answer)


def flip_table(summary: Summary, run: str, backbone: str = "") -> Table:
    """Both rates, with what did not count towards them in the note, and that the backbone simulates where it does."""
    theirs = paper()["counterfactual"]
    rows = (
        _row("one evidence interval", summary.evidence, theirs["evidence"]),
        _row("a segment of as many frames that are no evidence", summary.control, theirs["control"]),
    )
    older = f" {summary.older} come from a log of version 0.1, with a control among the clips." if summary.older else ""
    return Table(
        key="counterfactual",
        title=f"Changed answers without some frames: {run}",
        first_column="Masked",
        columns=(
            Column("Questions"),
            Column("Changed", "(%)"),
            Column("No answer", "(%)"),
            Column("Paper", "changed (%)"),
        ),
        sections=(Section("", rows),),
        note=f"{summary.eligible} predictions are correct and covered; {summary.not_reproduced} of them do not get "
        f"their answer from their clips alone, {summary.no_mask} have nothing to mask, {summary.no_control} have "
        f"no control, {summary.failed} failed. No answer any more is not counted as a changed one; the paper does not "
        f"tell the two apart.{older} {simulation_notes([backbone])}".rstrip(),
    )


def _row(name: str, rate: FlipRate, paper: float) -> Row:
    half = None if rate.ci95 is None else (rate.ci95[1] - rate.ci95[0]) / 2
    cells = (Value(str(rate.questions)), number(rate.percent, half=half), number(rate.no_answer), number(paper))
    return Row(name, tuple((cell,) for cell in cells))
