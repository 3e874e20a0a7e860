"""Run files: an append-only jsonl of one method's predictions, and a TOML file with its configuration."""

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


# --- the configuration of a run file ------------------------------------------------------------

_UNCOMPARED_KEYS: Final = frozenset({"bench", "started", "simulation"})
"""Keys that may change when a run is continued."""


@dataclass(frozen=True, slots=True)
class RunConfiguration(OpenRecord):
    """The settings of a run, which can only be continued with the same ones. All keys are optional."""

    trace_ves: str | None = None
    """The version of this package."""
    method: str | None = None
    backbone: str | None = None
    budget: Count | str | None = None
    """Frames for each question; a phrase if the method states no budget."""
    bench: str | None = None
    """The path of the bench; a relative path starts at the run's folder."""
    bench_sha256: str | None = None
    started: str | None = None
    temperature: Number | None = None
    thinking: str | None = None
    detail: str | None = None
    reply_format: str | None = None
    max_output_tokens: Count | None = None
    method_sha256: str | None = None
    """The digest of the source of a user's method."""
    backbone_sha256: str | None = None
    """The digest of the source of a user's backbone."""
    subtitles: Flag | None = None
    """True if methods that read subtitles got them."""
    simulation: str | None = None
    """A note that the model behind the run is simulated."""
    extra: JsonObject = field(default_factory=dict)
    """Unknown keys; they are compared like the others."""

    def explain_difference(self, other: RunConfiguration) -> str | None:
        """Why a run with this configuration cannot continue with the other, as a clause; None if it can."""
        old, new = self.to_json(), other.to_json()
        for key in sorted((old.keys() | new.keys()) - _UNCOMPARED_KEYS):
            before, now = old.get(key, "nothing"), new.get(key, "nothing")
            if before != now:
                return f"this run was made with {key} = {before}, and now it would be {now}"
        return None


def configuration_path(run: Path) -> Path:
    """The path of the configuration of a run file."""
    return run.with_name(run.name.removesuffix(".jsonl") + ".run.toml")


def read_configuration(run: Path) -> RunConfiguration | None:
    """The configuration of a run file; None if there is none, as for runs of other programs."""
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
    """Every prediction of a run file with its line number. Raises `FormatError` for an invalid line."""
    for line in read_jsonl(path, on_torn_tail=on_torn_tail, on_progress=on_progress):
        try:
            yield line.number, Prediction.from_json(line.record)
        except FieldError as error:
            raise FormatError(f"{error}.", path=path, line=line.number) from None


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """How a schedule reconstructed timestamps that were not logged."""

    sampler: str
    exact_times: frozenset[bool]
    """Whether the frame times came from the videos (True), from an assumed frame rate (False), or from both."""

    def describe(self, fps: float) -> str:
        """The reconstruction in words, such as `linspace-32 on 30fps`."""
        return f"{self.sampler} on {name_frame_times(self.exact_times, fps)}"


def name_frame_times(exact: frozenset[bool], fps: float) -> str:
    """The source of frame times in a signature: `video`, `30fps` or `video+30fps`."""
    return "+".join(word for is_exact, word in ((True, "video"), (False, f"{fps:g}fps")) if is_exact in exact)


@dataclass(frozen=True, slots=True)
class Run:
    """The predictions of one method on one bench."""

    name: str
    predictions: Sequence[Prediction]
    path: Path | None = None
    lines: Sequence[int] = ()  # The line of each prediction in `path`
    warnings: tuple[str, ...] = ()
    reconstruction: Reconstruction | None = None
    """Set if the timestamps were reconstructed from a schedule."""

    @property
    def method(self) -> str:
        """The method of all lines, or an empty string if they differ."""
        return find_common(prediction.method for prediction in self.predictions)

    @property
    def backbone(self) -> str:
        """The backbone of all lines, or an empty string if they differ."""
        return find_common(prediction.backbone for prediction in self.predictions)


def find_common(values: Iterable[str]) -> str:
    """The value if all are equal, else an empty string."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""


def load_run(path: Path) -> Run:
    """Read a run file. The run has the name of its method, or of the file if its lines have several methods."""
    warnings: list[str] = []
    numbered = list(read_predictions(path, on_torn_tail=warnings.append))
    if not numbered:
        raise InputError(f"{path}: no prediction in this file; a run has one JSON object per line.")
    lines, predictions = zip(*numbered, strict=True)
    run = Run(path.stem, predictions, path, lines, tuple(warnings))
    return replace(run, name=run.method) if run.method else run


def load_runs(paths: Sequence[str | PathLike[str]]) -> tuple[Run, ...]:
    """Read run files, or every `*.jsonl` of a folder, and give the runs distinct names."""
    return distinguish_runs([load_run(file) for file in find_runs(paths)])


def find_runs(paths: Sequence[str | PathLike[str]]) -> list[Path]:
    """These files, and the `*.jsonl` of these folders."""
    files: list[Path] = []
    for path in map(Path, paths):
        runs = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not runs:
            raise InputError(f"{path}: no run in this folder; a run is a file that ends with .jsonl.")
        files += runs
    return files


def distinguish_runs(runs: Sequence[RunT]) -> tuple[RunT, ...]:
    """The runs with distinct names: where two are equal, the backbone, file or path is added."""
    suffixes: list[Callable[[RunT], str]] = [
        lambda run: run.backbone,
        lambda run: run.path.stem if run.path else "",
        lambda run: str(run.path) if run.path else "",
    ]
    renamed = tuple(runs)
    for suffix in suffixes:
        shared = {name for name, count in Counter(run.name for run in renamed).items() if count > 1}
        renamed = tuple(
            replace(run, name=f"{run.name} ({suffix(run)})") if run.name in shared and suffix(run) else run
            for run in renamed
        )
    duplicates = [name for name, count in Counter(run.name for run in renamed).items() if count > 1]
    if duplicates:
        raise InputError(f"two runs are named {duplicates[0]!r}; give each run once, or under a different name.")
    return renamed


def read_retried(run: Path) -> Iterator[Prediction]:
    """The failed lines of questions that were asked again: they are no longer answers, but their calls cost money."""
    file = run.with_suffix(".failed")
    if file.exists():
        yield from (prediction for _, prediction in read_predictions(file, on_torn_tail=lambda _: None))


# --- writing ------------------------------------------------------------------------------------


class RunFile(AbstractContextManager["RunFile"]):
    """The lines of one run. Opening it repairs a torn last line, and refuses another configuration."""

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

    def move_errors(self) -> None:
        """Move the lines with an error to the `.failed` file, so that their questions are asked again."""
        if all(each.error is None for each in self.finished.values()):
            return
        # An earlier call may have been killed after the copy to `.failed` and before the run file was replaced.
        copied = {dump_line(each.to_json()) for each in read_retried(self.path)}
        old_appender = self._appender  # its lock keeps other processes out until the new file has one
        with (
            atomic_path(self.path) as partial,
            partial.open("wb") as file,
            JsonlAppender(self.path.with_suffix(".failed")) as log,
        ):
            for _, each in read_predictions(self.path):
                line = dump_line(each.to_json())
                if each.error is None:
                    file.write(line)
                elif line not in copied:
                    log.append(each.to_json())
            file.flush()
            os.fsync(file.fileno())
        self._appender = JsonlAppender(self.path)
        old_appender.close()
        self.finished = {name: each for name, each in self.finished.items() if each.error is None}
        self.retried = [each.summary() for each in read_retried(self.path)]

    def close(self) -> None:
        """Sync the file to disk and close it; delete it if it has no line."""
        self._appender.close()
        # An interrupt can come between writing a line and adding it to `finished`, so check the size.
        if self.path.exists() and self.path.stat().st_size == 0:
            self.path.unlink()
            configuration_path(self.path).unlink(missing_ok=True)

    def _check(self, configuration: RunConfiguration) -> None:
        if self.path.stat().st_size == 0:
            write_configuration(self.path, configuration)
            return
        sidecar, earlier = configuration_path(self.path), read_configuration(self.path)
        if earlier is None:
            raise InputError(f"{sidecar} is missing, so this run cannot be continued; give another --out.")
        if difference := earlier.explain_difference(configuration):
            raise InputError(f"{sidecar}: {difference}; give another --out.")

    def __exit__(self, *_: object) -> None:
        self.close()
