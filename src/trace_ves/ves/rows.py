"""Audit rows: what the audit says about each question of a run before anything is averaged.

Every metric is a mean over rows. A run may be a list of predictions, a file, which is read line by line, or a schedule
that picks frames without a model.
"""

from __future__ import annotations

import math
import re
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from trace_ves.core.errors import FormatError, InputError
from trace_ves.core.interval import Interval, centred_uniform
from trace_ves.core.schedules import schedule
from trace_ves.records.base import FieldError, shown
from trace_ves.records.run_file import constant, distinct_names, read_predictions, run_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from os import PathLike
    from pathlib import Path

    from trace_ves.core.schedules import FrameTimes
    from trace_ves.records import Item, Prediction
    from trace_ves.records.run_file import Reconstruction, Run

SHOWN_IDS: Final = 3


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One question of one run: was it right, and what was looked at."""

    question_id: str
    correct: bool | None
    """None for a sampler without a model: there is no answer to score."""
    frames_supplied: int
    frames_distinct: int
    """|F|: distinct source timestamps that were decoded for the model."""
    frames_inside: int
    """Of those, the ones inside any evidence interval."""
    density: int
    """Frames inside the least observed evidence interval: Cov@k asks for density >= k. 0 where there is no evidence."""
    termination: str | None = None
    """How the search ended, where the run says so."""
    answer: str | None = field(default=None, compare=False, repr=False)
    response: int | None = field(default=None, compare=False, repr=False)
    """A hash of what the model wrote, where the run has it: two runs of the same inputs write the same."""
    frames: int | None = field(default=None, compare=False, repr=False)
    """A hash of the distinct timestamps; None where nothing was decoded."""
    groups: dict[str, object] | None = field(default=None, compare=False, repr=False)
    """The group keys that a log states, for a bench that has none."""
    undetermined: bool = False
    """Whether the answer was a draw among options that fit equally well, where the run says so."""

    @property
    def precision(self) -> float:
        """The share of the distinct frames that is inside the evidence; 0 where nothing was decoded."""
        return self.frames_inside / self.frames_distinct if self.frames_distinct else 0.0


class FrameCounts(NamedTuple):
    """Frames of one question against its evidence."""

    distinct: int
    inside: int
    density: int


def count_frames(evidence: Iterable[Interval], frames: Sequence[float]) -> FrameCounts:
    """Count frames inside evidence intervals, which are closed; `frames` are distinct and in order of time."""
    ranges = sorted(
        [(bisect_left(frames, interval.start), bisect_right(frames, interval.end)) for interval in evidence]
    )
    inside = counted = 0
    for first, after in ranges:  # a frame in two intervals is inside once
        inside += max(0, after - max(first, counted))
        counted = max(counted, after)
    return FrameCounts(len(frames), inside, min([after - first for first, after in ranges], default=0))


def row_of_prediction(item: Item, prediction: Prediction | None) -> AuditRow:
    """Audit one prediction; a missing one is wrong and unobserved. An impossible one is a `FieldError`."""
    if prediction is None:
        return AuditRow(
            item.question.id, correct=False, frames_supplied=0, frames_distinct=0, frames_inside=0, density=0
        )
    frames = sorted(set(prediction.timestamps))
    _check_frames(item, frames, prediction.frames_supplied)
    answer, response, groups = answered(item, prediction), prediction.extra.get("response"), None
    if prediction.extra and isinstance(stated := prediction.extra.get("groups"), dict):
        groups = stated
    return AuditRow(
        item.question.id,
        None if prediction.extra.get("selection") is True else is_right(item, answer),
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
    """Audit the centred uniform schedule of `count` frames: fixed by the bench, the same for every model."""
    return row_of_schedule(item, centred_uniform(Interval(0.0, item.duration), count))


def row_of_schedule(item: Item, timestamps: Sequence[float]) -> AuditRow:
    """Audit the frames that a schedule without a model chose; one that it chose twice was supplied twice."""
    frames = sorted(set(timestamps))
    counts = count_frames(item.evidence, frames)
    return AuditRow(item.question.id, None, len(timestamps), *counts, frames=hash(tuple(frames)) if frames else None)


def is_right(item: Item, answer: str | None) -> bool:
    """Whether this is the right letter; for an open question, one of the accepted wordings, by their words alone."""
    if answer is None or not item.question.is_open:
        return answer == item.answer
    return _words(answer) in [_words(each) for each in (item.answer, *(item.accepted or ()))]


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.casefold()) if word not in {"a", "an", "the"}]


def answered(item: Item, prediction: Prediction) -> str | None:
    """The letter that was answered, None for no answer; anything that is no option is a `FieldError`."""
    if prediction.answer is None or item.question.is_open:
        return prediction.answer
    letter = prediction.answer.strip().upper()
    letters = item.question.letters
    if letter not in letters:
        raise FieldError(
            f"'answer' {shown(prediction.answer)} is no option of question {shown(item.question.id)}; "
            f"write a letter {letters[0]}-{letters[-1]}, or null for no answer"
        )
    return letter


def _check_frames(item: Item, frames: Sequence[float], frames_supplied: int) -> None:
    """Refuse moments that the video does not have, and a count that cannot be."""
    latest = item.duration + item.slack_seconds
    if frames and not (frames[0] >= 0 and frames[-1] <= latest):
        outside = frames[0] if not frames[0] >= 0 else frames[-1]
        raise FieldError(
            f"timestamp {outside:g} lies outside the video of question {shown(item.question.id)}, "
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
    """One run against a bench: its rows, and what is reported about it as a whole."""

    name: str
    rows: Sequence[AuditRow]
    """Every question of the bench, in order of its id."""
    path: Path | None = None
    method: str = ""
    """The method of all lines, or nothing where they differ."""
    backbone: str = ""
    frames_by_stage: Mapping[str, int] | None = None
    """Frames supplied to the calls of each stage, where the run logged its calls."""
    unanswered: int = 0
    """Questions of the bench without an answer."""
    left_out: int = 0
    """Predictions for questions that were left out of the bench."""
    missing: Sequence[str] = ()
    """Questions of the bench without a prediction."""
    failed: int = 0
    """Predictions with an error that the method raised."""
    file_warnings: tuple[str, ...] = ()
    reconstruction: Reconstruction | None = None
    frames_known: bool = True
    """False where a log does not say which frames were looked at for some question."""
    read_by: Mapping[str, int] = field(default_factory=dict)
    """How many answers each rule read from free text, where the run comes from a log."""
    scans: int = 0
    """Questions whose recorded looks mostly read consecutive frames."""

    @property
    def is_selection(self) -> bool:
        """Whether it is a list of frames without answers."""
        return any(row.correct is None for row in self.rows)

    @property
    def warnings(self) -> list[str]:
        """What was counted but not refused, one sentence each."""
        warnings = list(self.file_warnings)
        if self.left_out:
            warnings.append(
                f"{self.name}: {self.left_out} predictions are for questions that were left out of the bench."
            )
        if self.missing:
            examples = ", ".join(self.missing[:SHOWN_IDS]) + (", …" if len(self.missing) > SHOWN_IDS else "")
            warnings.append(
                f"{self.name}: {len(self.missing)} of {len(self.rows)} questions have no prediction and "
                f"count as wrong and unobserved ({examples})."
            )
        if self.failed:
            warnings.append(f"{self.name}: {self.failed} predictions have an error that the method raised.")
        if 2 * self.scans > len(self.rows) - len(self.missing):
            warnings.append(
                f"{self.name}: most recorded looks ({self.scans} questions) read consecutive frames. If the program "
                "kept only some of them, record which with trace_ves.frame_log.keep()."
            )
        return warnings


class _Scorer:
    """Scores the predictions of one run, one after another."""

    def __init__(self, items: Sequence[Item], left_out: frozenset[str], place: str) -> None:
        """`place` names what predictions are numbered by: `line` or `prediction`."""
        self._items = {item.question.id: item for item in sorted(items, key=lambda item: item.question.id)}
        self._left_out, self._place = left_out, place
        self._numbers: dict[str, int] = {}
        self._rows: dict[str, AuditRow] = {}
        self._answers = 0
        self._stages: Counter[str] = Counter()
        self._methods: set[str] = set()
        self._backbones: set[str] = set()
        self._failed = self._scans = 0
        self._frames_known = True
        self._read_by: Counter[str] = Counter()

    def add(self, number: int, prediction: Prediction) -> None:
        """Score one prediction; a `FieldError` says why it cannot be scored."""
        name = prediction.question_id
        if name in self._numbers:
            raise FieldError(
                f"question {name!r} was already predicted in {self._place} {self._numbers[name]}; keep one of the two"
            )
        self._numbers[name] = number
        if name not in self._left_out:
            if name not in self._items:
                raise FieldError(f"question {name!r} is not in the bench; was the run made on another one?")
            self._rows[name] = row_of_prediction(self._items[name], prediction)
            self._answers += prediction.answer is not None
        self._methods.add(prediction.method)
        self._backbones.add(prediction.backbone)
        self._failed += prediction.error is not None
        if extra := prediction.extra:
            recorded = extra.get("recorded")
            self._scans += isinstance(recorded, dict) and recorded.get("scan") is True
            self._frames_known &= extra.get("frames_known") is not False
            self._read_by.update([rule] if isinstance(rule := extra.get("read_by"), str) else ())
        for call in prediction.observations:
            self._stages[call.stage] += len(call.timestamps)

    def result(
        self, name: str, path: Path | None, warnings: tuple[str, ...], reconstruction: Reconstruction | None = None
    ) -> ScoredRun:
        """The run, once all of its predictions were added."""
        return ScoredRun(
            name,
            [self._rows.get(each) or row_of_prediction(item, None) for each, item in self._items.items()],
            path,
            constant(self._methods),
            constant(self._backbones),
            dict(self._stages),
            unanswered=len(self._items) - self._answers,
            left_out=len(self._numbers) - len(self._rows),
            missing=[each for each in self._items if each not in self._rows],
            failed=self._failed,
            file_warnings=warnings,
            reconstruction=reconstruction,
            frames_known=self._frames_known,
            read_by=dict(self._read_by.most_common()),
            scans=self._scans,
        )


def score_run(items: Sequence[Item], run: Run, left_out: frozenset[str] = frozenset()) -> ScoredRun:
    """Score a run that is in memory; an impossible prediction is an `InputError`."""
    scorer = _Scorer(items, left_out, "line" if run.path else "prediction")
    for at, prediction in enumerate(run.predictions):
        try:
            scorer.add(run.lines[at] if run.path else at + 1, prediction)
        except FieldError as error:
            raise run.error(at, str(error)) from None
    return scorer.result(run.name, run.path, run.warnings, run.reconstruction)


def score_files(
    items: Sequence[Item],
    paths: Sequence[str | PathLike[str]],
    *,
    left_out: frozenset[str] = frozenset(),
    on_progress: Callable[[str, int, int], None] | None = None,
) -> tuple[ScoredRun, ...]:
    """Score run files, or every `*.jsonl` of a folder. Each is read once, and only its rows stay in memory."""
    return distinct_names([_score_file(items, file, left_out, on_progress) for file in run_files(paths)])


def _score_file(
    items: Sequence[Item],
    path: Path,
    left_out: frozenset[str],
    on_progress: Callable[[str, int, int], None] | None,
) -> ScoredRun:
    """One run file; it is named after its method, or after the file where the lines do not agree on one."""
    warnings: list[str] = []
    scorer = _Scorer(items, left_out, "line")
    is_empty = True
    report = partial(on_progress, f"reading {path.name}") if on_progress else None
    for number, prediction in read_predictions(path, on_torn_tail=warnings.append, on_progress=report):
        is_empty = False
        try:
            scorer.add(number, prediction)
        except FieldError as error:
            raise FormatError(f"{error}.", path=path, line=number) from None
    if is_empty:
        raise InputError(f"{path}: no prediction in this file; a run has one JSON object per line.")
    run = scorer.result(path.stem, path, tuple(f"{warning}." for warning in warnings))
    return replace(run, name=run.method or run.name)


class SamplerRows:
    """The rows of schedules without a model on the items of a bench."""

    def __init__(self, items: Sequence[Item], frame_times: Callable[[Item], FrameTimes]) -> None:
        self._items = items
        self._frame_times = frame_times
        self._exact: set[bool] = set()

    @property
    def exact_times(self) -> frozenset[bool]:
        """Whether schedules chose among frames of the videos (True), of an assumed rate (False), or of both."""
        return frozenset(self._exact)

    def of(self, samplers: Sequence[int | str], *, taken: Collection[str]) -> dict[str, list[AuditRow]]:
        """The rows of each sampler under its name; ` (sampler)` is added to a name that a run has already."""
        names = dict.fromkeys(f"uniform-{each}" if isinstance(each, int) else each for each in samplers)
        endless = next((item for item in self._items if not math.isfinite(item.duration)), None)
        if names and endless is not None:
            raise InputError(
                f"question {endless.question.id!r} has no duration in this bench, so no sampler can be placed on it."
            )
        return {f"{name} (sampler)" if name in taken else name: self._rows(name) for name in names}

    def _rows(self, name: str) -> list[AuditRow]:
        chosen = schedule(name)
        if uniform := re.fullmatch(r"uniform-(\d+)", name):  # fixed by durations alone: the paper's own rows
            return [row_of_sampler(item, int(uniform[1])) for item in self._items]
        rows = []
        for item in self._items:
            times = self._frame_times(item)
            self._exact.add(times.is_exact)
            rows.append(row_of_schedule(item, chosen.timestamps(times)))
        return rows
