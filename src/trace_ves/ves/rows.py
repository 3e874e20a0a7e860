"""Audit rows: the per-question results of a run. Every metric is a mean over rows."""

from __future__ import annotations

import math
import re
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import FormatError, InputError
from trace_ves.core.interval import Interval, centred_uniform
from trace_ves.core.schedules import FrameTimes, parse_schedule
from trace_ves.records.base import FieldError, quote
from trace_ves.records.run_file import Reconstruction, Run, distinguish_runs, find_common, find_runs, read_predictions

if TYPE_CHECKING:
    from trace_ves.records import Item, Prediction

SHOWN_IDS: Final = 3


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One question of one run: whether it is correct, and how many frames hit the evidence."""

    question_id: str
    correct: bool | None  # None for a sampler without a model, which has no answers
    frames_supplied: int
    frames_distinct: int  # |F|: distinct source timestamps of the supplied frames
    frames_inside: int  # distinct timestamps inside any evidence interval
    density: int
    """Frames inside the least observed evidence interval; Cov@k needs density >= k. 0 without evidence."""
    termination: str | None = None  # how the search ended, if recorded
    answer: str | None = field(default=None, compare=False, repr=False)
    response: int | None = field(default=None, compare=False, repr=False)
    """A hash of what the model wrote, if recorded."""
    frames: int | None = field(default=None, compare=False, repr=False)
    """A hash of the distinct timestamps; None without frames."""
    groups: dict[str, object] | None = field(default=None, compare=False, repr=False)
    """The group keys of a log, for a bench that has none."""
    undetermined: bool = False
    """Whether the answer was drawn from options that fit equally well, if recorded."""

    @property
    def precision(self) -> float:
        """The share of distinct frames inside the evidence; 0 without frames."""
        return self.frames_inside / self.frames_distinct if self.frames_distinct else 0.0


def count_frames(evidence: Iterable[Interval], frames: Sequence[float]) -> tuple[int, int, int]:
    """Count all frames, those inside the evidence, and those inside its least observed interval.

    Intervals are closed; `frames` are distinct and sorted.
    """
    ranges = sorted(
        [(bisect_left(frames, interval.start), bisect_right(frames, interval.end)) for interval in evidence]
    )
    inside = counted = 0
    for first, after in ranges:  # count a frame in two intervals once
        inside += max(0, after - max(first, counted))
        counted = max(counted, after)
    return len(frames), inside, min([after - first for first, after in ranges], default=0)


def row_of_prediction(item: Item, prediction: Prediction | None) -> AuditRow:
    """Audit one prediction; None counts as wrong and unobserved, an invalid one is a `FieldError`."""
    if prediction is None:
        return AuditRow(
            item.question.id, correct=False, frames_supplied=0, frames_distinct=0, frames_inside=0, density=0
        )
    frames = sorted(set(prediction.timestamps))
    _check_frames(item, frames, prediction.frames_supplied)
    answer, response, groups = parse_answer(item, prediction), prediction.extra.get("response"), None
    if prediction.extra and isinstance(logged_groups := prediction.extra.get("groups"), dict):
        groups = logged_groups
    return AuditRow(
        item.question.id,
        None if prediction.extra.get("selection") is True else is_correct(item, answer),
        prediction.frames_supplied,
        *count_frames(item.evidence, frames),
        prediction.termination,
        answer,
        hash(response) if isinstance(response, str) else None,
        hash(tuple(frames)) if frames else None,
        groups,
        prediction.undetermined,
    )


def row_of_sampler(item: Item, count: int) -> AuditRow:
    """Audit the centred uniform schedule of `count` frames, which only depends on the bench."""
    return row_of_schedule(item, centred_uniform(Interval(0.0, item.duration), count))


def row_of_schedule(item: Item, timestamps: Sequence[float]) -> AuditRow:
    """Audit the frames of a schedule without a model; a frame that it chose twice counts as supplied twice."""
    frames = sorted(set(timestamps))
    counts = count_frames(item.evidence, frames)
    return AuditRow(item.question.id, None, len(timestamps), *counts, frames=hash(tuple(frames)) if frames else None)


def is_correct(item: Item, answer: str | None) -> bool:
    """Whether this is the right letter; for an open question, whether its words are those of an accepted answer."""
    if answer is None or not item.question.is_open:
        return answer == item.answer
    return _words(answer) in [_words(each) for each in (item.answer, *(item.accepted or ()))]


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.casefold()) if word not in {"a", "an", "the"}]


def parse_answer(item: Item, prediction: Prediction) -> str | None:
    """The letter of the answer, the text of an open answer, or None; anything else is a `FieldError`."""
    if prediction.answer is None or item.question.is_open:
        return prediction.answer
    letter = prediction.answer.strip().upper()
    letters = item.question.letters
    if letter not in letters:
        raise FieldError(
            f"'answer' {quote(prediction.answer)} is not an option of question {quote(item.question.id)}; "
            f"write a letter {letters[0]}-{letters[-1]}, or null for no answer"
        )
    return letter


def _check_frames(item: Item, frames: Sequence[float], frames_supplied: int) -> None:
    """Refuse timestamps outside the video, and a count below the number of timestamps."""
    latest = item.duration + item.slack_seconds
    if frames and not (frames[0] >= 0 and frames[-1] <= latest):
        outside = frames[0] if not frames[0] >= 0 else frames[-1]
        raise FieldError(
            f"timestamp {outside:g} is outside the video of question {quote(item.question.id)}, "
            f"which has 0-{item.duration:g} s; timestamps are seconds from its first frame"
        )
    if frames_supplied < len(frames):
        raise FieldError(
            f"'frames_supplied' is {frames_supplied}, less than the {len(frames)} distinct timestamps; "
            "it counts every frame of every call"
        )
    if frames_supplied > sys.float_info.max:
        raise FieldError("'frames_supplied' is too large a number")


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A run scored on a bench: its rows and the facts about the whole run."""

    name: str
    rows: Sequence[AuditRow]  # one for each question of the bench, sorted by id
    path: Path | None = None
    method: str = ""  # the method of all lines; empty if they differ
    backbone: str = ""
    frames_by_stage: Mapping[str, int] | None = None
    """Frames supplied to the calls of each stage, if the run logged its calls."""
    unanswered: int = 0  # questions of the bench without an answer
    left_out: int = 0  # predictions for questions that were left out of the bench
    missing: Sequence[str] = ()  # questions of the bench without a prediction
    failed: int = 0  # predictions with an error of the method
    file_warnings: tuple[str, ...] = ()
    reconstruction: Reconstruction | None = None
    frames_known: bool = True  # False if the frames of some question are unknown
    read_by: Mapping[str, int] = field(default_factory=dict)
    """Number of answers that each rule read from free text, if the run comes from a log."""
    scans: int = 0  # questions whose recorded looks mostly read consecutive frames

    @property
    def is_selection(self) -> bool:
        """Whether it is a list of frames without answers."""
        return any(row.correct is None for row in self.rows)

    @property
    def warnings(self) -> list[str]:
        """Problems that did not stop the audit, one sentence each."""
        warnings = list(self.file_warnings)
        if self.left_out:
            warnings.append(
                f"{self.name}: {self.left_out} predictions are for questions that were left out of the bench."
            )
        if self.missing:
            examples = ", ".join(self.missing[:SHOWN_IDS]) + (", …" if len(self.missing) > SHOWN_IDS else "")
            lines = len(self.rows) - len(self.missing)
            right = 100 * sum(bool(row.correct) for row in self.rows) / (lines or 1)
            warnings.append(
                f"{self.name}: {len(self.missing)} of {len(self.rows)} questions have no prediction and "
                f"count as wrong and unobserved ({examples})"
                + ("." if self.is_selection else f"; of the other {lines}, {right:.1f}% are correct.")
            )
        if self.failed:
            warnings.append(f"{self.name}: {self.failed} predictions have an error raised by the method.")
        if 2 * self.scans > len(self.rows) - len(self.missing):
            warnings.append(
                f"{self.name}: most recorded looks ({self.scans} questions) read consecutive frames. If the program "
                "used only some of them, record which with trace_ves.frame_log.keep()."
            )
        return warnings


def _score(
    items: Sequence[Item],
    name: str,
    path: Path | None,
    lines: Iterable[tuple[int, Prediction]],
    left_out: frozenset[str],
) -> ScoredRun:
    """Score predictions, each given with its line or position."""

    def refuse(reason: str) -> InputError:
        if path is not None:
            return FormatError(f"{reason}.", path=path, line=number)
        return InputError(f"run {name!r}, question {question!r}: {reason}.")

    known = {item.question.id: item for item in sorted(items, key=lambda item: item.question.id)}
    numbers: dict[str, int] = {}
    rows: dict[str, AuditRow] = {}
    methods, backbones = set[str](), set[str]()
    stages, read_by = Counter[str](), Counter[str]()
    answers = failed = scans = 0
    frames_known = True
    for number, prediction in lines:
        question, extra = prediction.question_id, prediction.extra
        if question in numbers:
            place = f"{'line' if path else 'prediction'} {numbers[question]}"
            raise refuse(f"question {question!r} already has a prediction in {place}; remove one of the two")
        numbers[question] = number
        if question not in left_out:
            if question not in known:
                raise refuse(f"question {question!r} is not in the bench; was the run made on another one?")
            try:
                rows[question] = row_of_prediction(known[question], prediction)
            except FieldError as error:
                raise refuse(str(error)) from None
            answers += prediction.answer is not None
        methods.add(prediction.method)
        backbones.add(prediction.backbone)
        failed += prediction.error is not None
        if extra:
            recorded = extra.get("recorded")
            scans += isinstance(recorded, dict) and recorded.get("scan") is True
            frames_known &= extra.get("frames_known") is not False
            read_by.update([rule] if isinstance(rule := extra.get("read_by"), str) else ())
        for call in prediction.observations:
            stages[call.stage] += len(call.timestamps)
    return ScoredRun(
        name,
        [rows.get(each) or row_of_prediction(item, None) for each, item in known.items()],
        path,
        method=find_common(methods),
        backbone=find_common(backbones),
        frames_by_stage=dict(stages),
        unanswered=len(known) - answers,
        left_out=len(numbers) - len(rows),
        missing=[each for each in known if each not in rows],
        failed=failed,
        frames_known=frames_known,
        read_by=dict(read_by.most_common()),
        scans=scans,
    )


def score_run(items: Sequence[Item], run: Run, left_out: frozenset[str] = frozenset()) -> ScoredRun:
    """Score a run in memory; an invalid prediction is an `InputError`."""
    numbers = run.lines if run.path else range(1, len(run.predictions) + 1)
    scored = _score(items, run.name, run.path, zip(numbers, run.predictions, strict=True), left_out)
    return replace(scored, file_warnings=run.warnings, reconstruction=run.reconstruction)


def score_files(
    items: Sequence[Item],
    paths: Sequence[str | PathLike[str]],
    *,
    left_out: frozenset[str] = frozenset(),
    on_progress: Callable[[str, int, int], None] | None = None,
) -> tuple[ScoredRun, ...]:
    """Score run files, or every `*.jsonl` of a folder. Each file is read once, and only its rows stay in memory.

    A run is named after its method, or after its file if the methods of the lines differ.
    """
    runs = []
    for path in find_runs(paths):
        warnings: list[str] = []
        report = partial(on_progress, f"reading {path.name}") if on_progress else None
        lines = read_predictions(path, on_torn_tail=warnings.append, on_progress=report)
        run = _score(items, path.stem, path, lines, left_out)
        if len(run.missing) == len(run.rows) and not run.left_out:
            raise InputError(f"{path}: no prediction in this file; a run has one JSON object per line.")
        runs.append(replace(run, name=run.method or run.name, file_warnings=tuple(warnings)))
    return distinguish_runs(runs)


def score_samplers(
    items: Sequence[Item], samplers: Sequence[int | str], frame_times: Callable[[Item], FrameTimes]
) -> tuple[dict[str, list[AuditRow]], frozenset[bool]]:
    """The rows of each schedule, and whether it used the frame times of the videos (True) or an assumed rate."""
    names = dict.fromkeys(f"uniform-{each}" if isinstance(each, int) else each for each in samplers)
    without_duration = next((item for item in items if not math.isfinite(item.duration)), None)
    if names and without_duration is not None:
        raise InputError(
            f"question {without_duration.question.id!r} has no duration in this bench, so no sampler applies to it."
        )
    rows: dict[str, list[AuditRow]] = {}
    exact: set[bool] = set()
    for name in names:
        sampler = parse_schedule(name)
        if uniform := re.fullmatch(r"uniform-(\d+)", name):  # only depends on durations, as in the paper
            rows[name] = [row_of_sampler(item, int(uniform[1])) for item in items]
            continue
        times = [frame_times(item) for item in items]
        exact.update(each.is_exact for each in times)
        frames = map(sampler.timestamps, times)
        rows[name] = [row_of_schedule(*pair) for pair in zip(items, frames, strict=True)]
    return rows, frozenset(exact)
