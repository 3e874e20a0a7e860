"""Make a run from a log and a bench; timestamps are logged, recorded or reconstructed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trace_ves.benches.logs.formats import LOG_FORMATS, Fields, LoggedSample
from trace_ves.benches.logs.letters import read_letter
from trace_ves.core.errors import InputError
from trace_ves.core.schedules import ASSUMED_FPS, FrameTimes, Schedule
from trace_ves.records import Item, Prediction
from trace_ves.records.run_file import Reconstruction, Run, distinguish_runs

if TYPE_CHECKING:
    FrameTimesOf = Callable[[Item], FrameTimes]
    Progress = Callable[[str, int, int], None]


def assumed_times(item: Item, fps: float = ASSUMED_FPS) -> FrameTimes:
    """The frame times of an item's video, from its duration and a frame rate."""
    return FrameTimes.assumed(item.duration, fps)


def read_logs(paths: Sequence[Path], log_format: str, items: Sequence[Item], **options: Any) -> tuple[Run, ...]:
    """Read logs, or all logs in a folder, as runs on a bench; `options` are those of `read_log`."""
    files = [file for path in paths for file in _files(path, log_format)]
    runs, skipped = [], []
    for file in files:
        try:
            runs.append(read_log(file, log_format, items, **options))
        except OtherBenchError as error:
            if file in paths or (file == files[-1] and not runs):
                raise
            skipped.append(f"{error} It was skipped.")
    runs[0] = replace(runs[0], warnings=(*skipped, *runs[0].warnings))
    folders = {file.parent for file in files}
    names = [f"{run.path.parent.name}_" * (len(folders) > 1) + _stem(run.path) for run in runs if run.path]
    return distinguish_runs(
        [
            replace(run, name=name) if run.path and run.name == _stem(run.path) else run
            for run, name in zip(runs, _shorten_names(names), strict=True)
        ]
    )


class OtherBenchError(InputError):
    """The log has no question of this bench; in a folder, it may belong to another task."""


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").rpartition(".")[0] or path.stem


def _shorten_names(names: Sequence[str]) -> Sequence[str]:
    """Remove the words that all names begin or end with; underscores separate words."""
    words = [name.split("_") for name in names]
    if len(set(names)) < max(2, len(names)):
        return names
    while all(len(each) > 1 for each in words) and len({each[0] for each in words}) == 1:
        words = [each[1:] for each in words]
    while all(len(each) > 1 for each in words) and len({each[-1] for each in words}) == 1:
        words = [each[:-1] for each in words]
    return ["_".join(each) for each in words]


def read_log(
    path: Path,
    log_format: str,
    items: Sequence[Item],
    *,
    sampler: Schedule | None = None,
    recorded: Mapping[str, Prediction] | None = None,
    selection: Run | None = None,
    frame_times: FrameTimesOf = assumed_times,
    fields: Fields | None = None,
    on_progress: Progress | None = None,
) -> Run:
    """Read one log as a run on this bench.

    Timestamps come from the log, else from `recorded` (by question id) or `selection`, else from `sampler`, which
    chooses among the frames that `frame_times` returns for an item. The run records their source.
    """
    report = None if on_progress is None else lambda done, total: on_progress(f"reading {path.name}", done, total)
    lines = selection.predictions if selection else ()
    recorded = {line.question_id: replace(line, extra={}) for line in lines} or recorded or {}
    builder = _RunBuilder(path, {item.question.id: item for item in items}, sampler, recorded, frame_times)
    for sample in LOG_FORMATS[log_format].samples(path, fields or Fields(), report):
        builder.add(sample)
    run = builder.run()
    if selection is None:
        return run
    return replace(run, reconstruction=selection.reconstruction, warnings=(*selection.warnings, *run.warnings))


@dataclass(slots=True)
class _RunBuilder:
    path: Path
    items: Mapping[str, Item]
    sampler: Schedule | None
    recorded: Mapping[str, Prediction]
    frame_times: FrameTimesOf
    predictions: dict[str, Prediction] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    counted: dict[str, list[str]] = field(default_factory=dict)
    """Question ids by warning."""
    exact_times: set[bool] = field(default_factory=set)
    _texts: list[tuple[Item, list[str]]] = field(default_factory=list)

    def add(self, sample: LoggedSample) -> None:
        name = sample.question_id
        item = self._find_by_prompt(sample) if name is None else self.items.get(name)
        if item is None or item.question.id in self.predictions:
            self._count(UNKNOWN if item is None else REPEATED, name or f"line {sample.number}")
            return
        if name is None:
            self._count(BY_PROMPT, item.question.id)
        if sample.target in item.question.letters and sample.target != item.answer:
            self._count(OTHER_KEY, item.question.id)
        self.predictions[item.question.id] = sample.prediction or self._prediction(item, sample)
        self.lines.append(sample.number)

    def _find_by_prompt(self, sample: LoggedSample) -> Item | None:
        """The item whose question and options the prompt contains: the one at the same position, else the only one."""
        if not self._texts:
            self._texts = [
                (item, [_squeeze(text) for text in (item.question.text, *item.question.options)])
                for item in self.items.values()
            ]
        prompt, at = _squeeze(sample.prompt or ""), sample.number - 1
        for candidates in (self._texts[at : at + 1], self._texts):
            same = [item for item, texts in candidates if all(text in prompt for text in texts)]
            if len(same) == 1:
                return same[0]
        return None

    def _count(self, warning: str, question_id: str) -> None:
        self.counted.setdefault(warning, []).append(question_id)

    def _prediction(self, item: Item, sample: LoggedSample) -> Prediction:
        answer: str | None = None
        extra: dict[str, object] = {"groups": sample.groups} if sample.groups else {}
        if sample.response and item.question.is_open:
            answer = sample.response
        elif sample.response or sample.raw:  # if the tool extracted no answer, there is none
            answer, extra["read_by"] = read_letter(sample.response or "", item.question)
            if answer is None:
                self._count(UNREAD, item.question.id)
        if sample.raw is not None:
            extra["response"] = sample.raw
        supplied = self._find_frames(item)
        if supplied is None:
            return Prediction(item.question.id, answer, error=sample.error, extra={**extra, "frames_known": False})
        return replace(supplied, answer=answer, error=sample.error, extra={**supplied.extra, **extra})

    def _find_frames(self, item: Item) -> Prediction | None:
        """The supplied frames as a prediction without an answer; None if they are unknown."""
        name = item.question.id
        if (recorded := self.recorded.get(name)) is not None:
            if not recorded.extra.get("exact", True):
                self._count(ROUNDED, name)
            return recorded
        if self.sampler is None:
            if item.evidence:
                raise InputError(
                    f"{self.path}: the log does not contain the supplied frames (question {name!r}); give the "
                    "schedule of the run with --sampler, such as linspace-32, or give --frames or --recorded."
                )
            return None
        if not math.isfinite(item.duration):
            self._count(UNPLACED, name)
            return None
        times = self.frame_times(item)
        self.exact_times.add(times.is_exact)
        timestamps = self.sampler.timestamps(times)
        return Prediction(name, None, timestamps=timestamps, frames_supplied=len(timestamps))

    def run(self) -> Run:
        if not self.predictions:
            unknown = self.counted.get(UNKNOWN)
            first = f"the first sample is {unknown[0]!r}" if unknown else "it has no samples"
            raise OtherBenchError(f"{self.path}: no question of the bench is in this log; {first}.")
        warnings = []
        for warning, names in self.counted.items():
            examples = ", ".join(name[:60] for name in names[:3]) + (", …" if len(names) > 3 else "")
            warnings.append(f"{self.path}: {warning.format(len(names), sampler=self.sampler)} ({examples}).")
        predictions = list(self.predictions.values())
        run = Run(_stem(self.path), predictions, self.path, self.lines, tuple(warnings))
        if self.sampler is not None and self.exact_times:
            run = replace(run, reconstruction=Reconstruction(self.sampler.name, frozenset(self.exact_times)))
        return replace(run, name=run.method or run.name)


BY_PROMPT: Final = "{} samples have no question id; they were matched by the question and options in the prompt"
UNKNOWN: Final = "{} samples are not questions of this bench and were skipped"
REPEATED: Final = "{} samples repeat an earlier question; the first of each counts"
OTHER_KEY: Final = "the right answers of {} questions differ from the bench, which may be another version"
UNREAD: Final = "{} responses do not name exactly one option and count as no answer"
ROUNDED: Final = "the recorded timestamps of {} questions come from the decoding library and were not checked"
UNPLACED: Final = "{} questions have no duration in this bench, so {sampler.name} gives no frames for them"


def _squeeze(text: str) -> str:
    return " ".join(text.split()).casefold()


def _files(path: Path, log_format: str) -> list[Path]:
    """The file itself, or the logs in a folder or below it, because lmms-eval makes a folder for each model."""
    if not path.is_dir():
        return [path]
    patterns = LOG_FORMATS[log_format].patterns
    for pattern in patterns:
        if files := sorted(path.glob(pattern)) or sorted(path.rglob(pattern)):
            return files
    raise InputError(f"{path}: no log of {log_format} in this folder ({', '.join(patterns)}).")
