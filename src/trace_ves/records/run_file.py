"""Run files: an append-only jsonl of one method's predictions, and the configuration in TOML beside it."""

from __future__ import annotations

import json
import os
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from trace_ves.core.errors import FormatError, InputError
from trace_ves.core.files import atomic_path, write_atomic
from trace_ves.core.jsonl import JsonlAppender, dump_line, read_jsonl
from trace_ves.records.base import Count, FieldError, Flag, JsonObject, Number, OpenRecord
from trace_ves.records.prediction import Prediction

if TYPE_CHECKING:
    from trace_ves.ves.rows import ScoredRun

RunT = TypeVar("RunT", "Run", "ScoredRun")


# --- the configuration beside a run file --------------------------------------------------------

NOT_COMPARED: Final = frozenset({"bench", "started", "simulation"})
"""Where a bench lies, when a run began, and words about it may differ between two parts of one run."""


@dataclass(frozen=True, slots=True)
class RunConfiguration(OpenRecord):
    """What a run was made with; it continues only under the same. A file written by hand may have a part of it."""

    trace_ves: str | None = None
    """The version of this package."""
    method: str | None = None
    backbone: str | None = None
    budget: Count | str | None = None
    """Frames for each question; in words, where the method has no stated budget."""
    bench: str | None = None
    """Where the bench lay; from the run's folder if it is relative."""
    bench_sha256: str | None = None
    started: str | None = None
    temperature: Number | None = None
    thinking: str | None = None
    detail: str | None = None
    reply_format: str | None = None
    max_output_tokens: Count | None = None
    method_sha256: str | None = None
    """The source of a user's method."""
    backbone_sha256: str | None = None
    """The source of a user's backbone."""
    subtitles: Flag | None = None
    """True where methods that read subtitles were shown them."""
    simulation: str | None = None
    """That the model behind a run is a simulated one, in words."""
    extra: JsonObject = field(default_factory=dict)
    """Keys that this package does not know; they are compared like the others."""

    def refusal(self, other: RunConfiguration) -> str | None:
        """Why a run made with this cannot continue with the other, as a clause; None where it can."""
        made, wanted = self.to_json(), other.to_json()
        for key in sorted((made.keys() | wanted.keys()) - NOT_COMPARED):
            before, now = made.get(key, "nothing"), wanted.get(key, "nothing")
            if before != now:
                return f"this run was made with {key} = {before}, and now it would be {now}"
        return None


def configuration_path(run: Path) -> Path:
    """The path of the configuration of a run file."""
    return run.with_name(run.name.removesuffix(".jsonl") + ".run.toml")


def read_configuration(run: Path) -> RunConfiguration | None:
    """The configuration of a run file; None where it has none, as an outsider's run."""
    path = configuration_path(run)
    try:
        return RunConfiguration.from_json(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except FieldError as error:
        raise InputError(f"{path}: {error}; it is not what trace-ves run wrote.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML: {error}.") from None


def write_configuration(run: Path, configuration: RunConfiguration) -> None:
    """Write the configuration of a run file."""
    lines = ["# Written by trace-ves run. The run beside this file continues under this configuration only."]
    lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in configuration.to_json().items()]
    write_atomic(configuration_path(run), "\n".join(lines) + "\n")


# --- reading ------------------------------------------------------------------------------------


def read_predictions(
    path: Path,
    *,
    on_torn_tail: Callable[[str], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[int, Prediction]]:
    """Every prediction of a run file with the number of its line; what is wrong with a line is a `FormatError`."""
    for line in read_jsonl(path, on_torn_tail=on_torn_tail, on_progress=on_progress):
        try:
            yield line.number, Prediction.from_json(line.record)
        except FieldError as error:
            raise FormatError(f"{error}.", path=path, line=line.number) from None


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """How timestamps that were not logged were reconstructed: by a schedule, on frames of the video or of a rate."""

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
    lines: Sequence[int] = ()  # the line of each prediction in `path`
    warnings: tuple[str, ...] = ()
    reconstruction: Reconstruction | None = None
    """Where the timestamps were not logged but follow from a schedule."""

    @property
    def method(self) -> str:
        """The method of all lines, or nothing where they differ."""
        return constant(prediction.method for prediction in self.predictions)

    @property
    def backbone(self) -> str:
        """The backbone of all lines, or nothing where they differ."""
        return constant(prediction.backbone for prediction in self.predictions)


def constant(values: Iterable[str]) -> str:
    """The value that all of these are; nothing where they differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""


def load_run(path: Path) -> Run:
    """Read a run file; it is named after its method, or after the file where the lines do not agree on one."""
    warnings: list[str] = []
    found = list(read_predictions(path, on_torn_tail=warnings.append))
    if not found:
        raise InputError(f"{path}: no prediction in this file; a run has one JSON object per line.")
    lines, predictions = zip(*found, strict=True)
    run = Run(path.stem, predictions, path, lines, tuple(warnings))
    return replace(run, name=run.method) if run.method else run


def load_runs(paths: Sequence[str | PathLike[str]]) -> tuple[Run, ...]:
    """Read run files, or every `*.jsonl` of a folder; runs of one name are distinguished by backbone or file."""
    return distinct_names([load_run(file) for file in run_files(paths)])


def run_files(paths: Sequence[str | PathLike[str]]) -> list[Path]:
    """The files that were named, and those of the folders that were named."""
    files: list[Path] = []
    for path in map(Path, paths):
        own = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not own:
            raise InputError(f"{path}: no run in this folder; a run is a file that ends with .jsonl.")
        files += own
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
        raise InputError(f"two runs are named {twice[0]!r}; give each run once, or under a different name.")
    return named


def read_retried(run: Path) -> Iterator[Prediction]:
    """The lines of a run that ended in an error and were asked again: they are not answers, but they were paid for."""
    file = run.with_suffix(".failed")
    if file.exists():
        yield from (prediction for _, prediction in read_predictions(file, on_torn_tail=lambda _: None))


# --- writing ------------------------------------------------------------------------------------


class RunFile(AbstractContextManager["RunFile"]):
    """The lines of one run. Opening it heals what a kill left behind, and refuses another configuration."""

    def __init__(self, folder: Path, name: str, configuration: RunConfiguration) -> None:
        self.path: Final = folder / f"{name}.jsonl"
        self._appender = JsonlAppender(self.path)
        try:
            self._check(configuration)
            self.finished = {each.question_id: each.summary() for _, each in read_predictions(self.path)}
            self.retried = [each.summary() for each in read_retried(self.path)]
        except BaseException:
            self.close()
            raise

    def append(self, prediction: Prediction) -> None:
        """Write one line."""
        self._appender.append(prediction.to_json())
        self.finished[prediction.question_id] = prediction.summary()

    def forget_errors(self) -> None:
        """Take the lines with an error out, so that their questions are asked again; they stay in `.failed`."""
        if all(each.error is None for each in self.finished.values()):
            return
        # A kill may have come after the copy to `.failed` and before the run file was replaced.
        copied = {dump_line(each.to_json()) for each in read_retried(self.path)}
        before = self._appender  # its lock keeps other processes out until the new file has one
        with (
            atomic_path(self.path) as partial,
            partial.open("wb") as kept,
            JsonlAppender(self.path.with_suffix(".failed")) as log,
        ):
            for _, each in read_predictions(self.path):
                line = dump_line(each.to_json())
                if each.error is None:
                    kept.write(line)
                elif line not in copied:
                    log.append(each.to_json())
            kept.flush()
            os.fsync(kept.fileno())
        self._appender = JsonlAppender(self.path)
        before.close()
        self.finished = {name: each for name, each in self.finished.items() if each.error is None}
        self.retried = [each.summary() for each in read_retried(self.path)]

    def close(self) -> None:
        """Sync the file to disk and close it; a run without a line leaves no file behind."""
        self._appender.close()
        # The size decides, not `finished`: an interrupt can come between writing a line and noting it there.
        if self.path.exists() and self.path.stat().st_size == 0:
            self.path.unlink()
            configuration_path(self.path).unlink(missing_ok=True)

    def _check(self, wanted: RunConfiguration) -> None:
        if self.path.stat().st_size == 0:
            write_configuration(self.path, wanted)
            return
        sidecar, found = configuration_path(self.path), read_configuration(self.path)
        if found is None:
            raise InputError(f"{sidecar} is missing, so this run cannot be continued; give another --out.")
        if refusal := found.refusal(wanted):
            raise InputError(f"{sidecar}: {refusal}; give another --out.")

    def __exit__(self, *_: object) -> None:
        self.close()
