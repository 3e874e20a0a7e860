"""Run files: one method's predictions, read with their line numbers, and the name that the tables give them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from trace_ves.core.errors import FormatError, InputError
from trace_ves.records.run_file import read_predictions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from os import PathLike

    from trace_ves.records import Prediction
    from trace_ves.ves.scoring import ScoredRun

RunT = TypeVar("RunT", "Run", "ScoredRun")


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """How timestamps that nobody logged were put together: by a schedule, on frames of the video or of a rate."""

    sampler: str
    exact_times: frozenset[bool]
    """Whether the frames came from the videos (True), from durations and an assumed rate (False), or from both."""

    def described(self, fps: float) -> str:
        """In words, such as `linspace-32 at 30 fps`."""
        return f"{self.sampler} on {frame_times_word(self.exact_times, fps)}"


def frame_times_word(exact: frozenset[bool], fps: float) -> str:
    """Where the times of frames came from, as the signature has it."""
    return "+".join(word for known, word in ((True, "video"), (False, f"{fps:g}fps")) if known in exact)


@dataclass(frozen=True, slots=True)
class Run:
    """The predictions of one method on one bench."""

    name: str
    predictions: Sequence[Prediction]
    path: Path | None = None
    lines: Sequence[int] = ()
    """The line of each prediction in `path`."""
    warnings: tuple[str, ...] = ()
    reconstruction: Reconstruction | None = None
    """Where the timestamps were not logged but follow from a schedule."""

    def error(self, index: int, message: str) -> InputError:
        """An error about one prediction, with its place in the file where there is one."""
        if self.path is None:
            return InputError(f"run {self.name!r}, question {self.predictions[index].question_id!r}: {message}.")
        return FormatError(f"{message}.", path=self.path, line=self.lines[index])

    @property
    def method(self) -> str:
        """The method of all lines, or nothing where they differ."""
        return _constant(prediction.method for prediction in self.predictions)

    @property
    def backbone(self) -> str:
        """The backbone of all lines, or nothing where they differ."""
        return _constant(prediction.backbone for prediction in self.predictions)


def _constant(values: Iterable[str]) -> str:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""


def load_run(path: Path, *, on_progress: Callable[[int, int], None] | None = None) -> Run:
    """Read a run file; it is named after its method, or after the file where the lines do not agree on one."""
    warnings: list[str] = []
    predictions: list[Prediction] = []
    lines: list[int] = []
    for number, prediction in read_predictions(path, on_torn_tail=warnings.append, on_progress=on_progress):
        predictions.append(prediction)
        lines.append(number)
    if not predictions:
        raise InputError(f"{path}: no prediction in this file; a run has one JSON object per line.")
    run = Run(path.stem, predictions, path, lines, tuple(f"{warning}." for warning in warnings))
    return replace(run, name=run.method) if run.method else run


def load_runs(
    paths: Sequence[str | PathLike[str]], *, on_progress: Callable[[str, int, int], None] | None = None
) -> tuple[Run, ...]:
    """Read run files, or every `*.jsonl` of a folder; runs of one name are told apart by backbone or file."""
    runs = []
    for file in run_files(paths):
        report = None if on_progress is None else _labelled(on_progress, f"reading {file.name}")
        runs.append(load_run(file, on_progress=report))
    return distinct_names(runs)


def _labelled(on_progress: Callable[[str, int, int], None], label: str) -> Callable[[int, int], None]:
    return lambda done, total: on_progress(label, done, total)


def run_files(paths: Sequence[str | PathLike[str]]) -> list[Path]:
    """The files that were named, and those of the folders that were named."""
    return [file for path in paths for file in _files(Path(path))]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.jsonl"))
    if not files:
        raise InputError(f"{path}: no run in this folder; a run is a file that ends with .jsonl.")
    return files


def distinct_names(runs: Sequence[RunT]) -> tuple[RunT, ...]:
    """The same runs under names that no two share."""
    suffixes: list[Callable[[RunT], str]] = [
        lambda run: run.backbone,
        lambda run: run.path.stem if run.path else "",
        lambda run: str(run.path) if run.path else "",
    ]
    named = tuple(runs)
    for suffix in suffixes:
        shared = {name for name, count in Counter(run.name for run in named).items() if count > 1}
        named = tuple(
            replace(run, name=f"{run.name} ({suffix(run)})") if run.name in shared and suffix(run) else run
            for run in named
        )
    twice = [name for name, count in Counter(run.name for run in named).items() if count > 1]
    if twice:
        raise InputError(f"two runs are named {twice[0]!r}; give each run once, or under a name of its own.")
    return named
