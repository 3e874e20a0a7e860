"""A log and a bench become a run: answers as the log has them, timestamps as logged, recorded or reconstructed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from trace_ves.benches.logs.formats import LOG_FORMATS, Fields, LogFormat
from trace_ves.core.errors import InputError
from trace_ves.core.schedules import ASSUMED_FPS, FrameTimes
from trace_ves.records import Prediction
from trace_ves.records.run_file import Reconstruction, Run, distinct_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from trace_ves.benches.logs.formats import LoggedSample
    from trace_ves.core.question import Question
    from trace_ves.core.schedules import Schedule
    from trace_ves.records import Item

    FrameTimesOf = Callable[[Item], FrameTimes]
    Progress = Callable[[str, int, int], None]


def assumed_times(item: Item, fps: float = ASSUMED_FPS) -> FrameTimes:
    """The frames of an item's video by its duration and a frame rate."""
    return FrameTimes.assumed(item.duration, fps)


def read_logs(paths: Sequence[Path], log_format: str, items: Sequence[Item], **options: Any) -> tuple[Run, ...]:
    """Read logs, or every log of a folder, as runs on this bench; `options` are those of `read_log`."""
    files = [file for path in paths for file in _files(path, log_format)]
    return distinct_names([read_log(file, log_format, items, **options) for file in files])


def read_log(
    path: Path,
    log_format: str,
    items: Sequence[Item],
    *,
    sampler: Schedule | None = None,
    recorded: Mapping[str, Prediction] | None = None,
    frame_times: FrameTimesOf = assumed_times,
    fields: Fields | None = None,
    on_progress: Progress | None = None,
) -> Run:
    """Read one log as a run on this bench.

    Timestamps are those that the log has, else those in `recorded` (by question id), else where `sampler` puts them on
    the frames that `frame_times` gives for an item; the run then says that they were reconstructed.
    """
    report = None if on_progress is None else lambda done, total: on_progress(f"reading {path.name}", done, total)
    builder = _RunBuilder(path, {item.question.id: item for item in items}, sampler, recorded or {}, frame_times)
    for sample in _format(log_format).samples(path, fields or Fields(), report):
        builder.add(sample)
    return builder.run()


@dataclass(slots=True)
class _RunBuilder:
    path: Path
    items: Mapping[str, Item]
    sampler: Schedule | None
    recorded: Mapping[str, Prediction]
    frame_times: FrameTimesOf
    predictions: list[Prediction] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    rounded: list[str] = field(default_factory=list)
    exact_times: set[bool] = field(default_factory=set)

    def add(self, sample: LoggedSample) -> None:
        item = self.items.get(sample.question_id)
        if item is None:
            self.strangers.append(sample.question_id)
            return
        self.predictions.append(sample.prediction or self._prediction(item, sample))
        self.lines.append(sample.number)

    def _prediction(self, item: Item, sample: LoggedSample) -> Prediction:
        answer = None if sample.response is None else letter_in(sample.response, item.question)
        if sample.response and answer is None:
            self.unread.append(item.question.id)
        seen, supplied = self._find_frames(item)
        return Prediction(item.question.id, answer, timestamps=seen, frames_supplied=supplied, error=sample.error)

    def _find_frames(self, item: Item) -> tuple[tuple[float, ...], int]:
        if (kept := self.recorded.get(item.question.id)) is not None:
            if not kept.extra.get("exact", True):
                self.rounded.append(item.question.id)
            return kept.timestamps, kept.frames_supplied
        if self.sampler is None:
            raise InputError(
                f"{self.path}: the log does not say which frames were looked at (question {item.question.id!r}); "
                "name the schedule of the run with --sampler, such as linspace-32, or give --recorded."
            )
        if not math.isfinite(item.duration):
            raise InputError(
                f"question {item.question.id!r} has no duration in this bench, so no sampler can be placed on it."
            )
        times = self.frame_times(item)
        self.exact_times.add(times.is_exact)
        seen = self.sampler.timestamps(times)
        return seen, len(seen)

    def run(self) -> Run:
        if not self.predictions:
            first = f"the first sample is {self.strangers[0]!r}" if self.strangers else "it has no samples"
            raise InputError(f"{self.path}: no question of the bench is in this log; {first}.")
        warnings = []
        for names, text in (
            (self.strangers, "{} samples are not questions of this bench and were passed over"),
            (self.unread, "{} responses name no single option and count as no answer"),
            (
                self.rounded,
                "the recorded timestamps of {} questions are those of the decoding library, not held to the video",
            ),
        ):
            some = ", ".join(name[:60] for name in names[:3]) + (", …" if len(names) > 3 else "")
            warnings += [f"{self.path}: {text.format(len(names))} ({some})."] if names else []
        made = Run(self.path.stem, self.predictions, self.path, self.lines, tuple(warnings))
        if self.sampler is not None and self.exact_times:
            made = replace(made, reconstruction=Reconstruction(self.sampler.name, frozenset(self.exact_times)))
        return replace(made, name=made.method or made.name)


def _format(name: str) -> LogFormat:
    if name not in LOG_FORMATS:
        raise InputError(f"there is no log format {name!r}; there are {', '.join(LOG_FORMATS)}.")
    return LOG_FORMATS[name]


def _files(path: Path, log_format: str) -> list[Path]:
    if not path.is_dir():
        return [path]
    patterns = _format(log_format).patterns
    for pattern in patterns:
        if files := sorted(path.glob(pattern)):
            return files
    raise InputError(f"{path}: no log of {log_format} in this folder ({', '.join(patterns)}).")


LONGEST_READ: Final = 20_000  # Characters of a response that are read, from its end: the answer follows the reasoning

_FORMS: Final = (
    r"\A\W*([A-Za-z])\W*\Z",  # B, (b), **B.**
    r"\A\W*([A-Z])\s*[.):\n]",  # B. the hunter
    r"(?i:\banswer\b)\W*(?:is\b)?\W*([A-Z])\b",  # The answer is (B).
    r"\\boxed\{\W*([A-Z])\W*\}",
)
"""The ways in which models name an option, the surest first."""


def letter_in(text: str, question: Question) -> str | None:
    """The letter of the option that a response names; None where it names none, or more than one."""
    response = text[-LONGEST_READ:].strip()
    for form in _FORMS:
        named: list[str] = [
            letter.upper() for letter in re.findall(form, response) if letter.upper() in question.letters
        ]
        if named:
            return named[-1]  # what is said last, after a thought, is the answer
    same = [
        letter
        for letter, option in zip(question.letters, question.options, strict=True)
        if _plain(option) and _plain(option) == _plain(response)
    ]
    if same:
        return same[0] if len(same) == 1 else None
    alone = {each for each in re.findall(r"(?<![\w'])([A-Z])(?![\w'])", response) if each in question.letters}
    return alone.pop() if len(alone) == 1 and "A" not in alone else None  # a lone A may be the article


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
