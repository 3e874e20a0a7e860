"""One run on disk: an append-only jsonl of predictions and, beside it, the configuration under which it may grow."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Final, Self

from trace_ves.core import FormatError, InputError
from trace_ves.core.atomic import write_atomic
from trace_ves.core.fields import FieldError
from trace_ves.core.jsonl import JsonlAppender, dump_line, read_jsonl
from trace_ves.records import Prediction

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

Configuration = dict[str, str | float]

NOT_COMPARED: Final = frozenset({"bench", "started", "simulation"})
"""Where a bench lies, when a run began, and words about it may differ between two parts of one run."""


class RunFile:
    """The lines of one run. Opening it heals what a kill left behind, and refuses another configuration."""

    def __init__(self, folder: Path, name: str, configuration: Mapping[str, str | float]) -> None:
        self.path: Final = folder / f"{name}.jsonl"
        self._appender = JsonlAppender(self.path)
        try:
            _hold_to(configuration_path(self.path), configuration, is_new=self.path.stat().st_size == 0)
            self.predictions: Final = _by_question(self.path)
        except BaseException:
            self._appender.close()
            raise

    def append(self, prediction: Prediction) -> None:
        """Write one line."""
        self._appender.append(prediction.to_json())
        self.predictions[prediction.question_id] = prediction

    def forget_errors(self) -> int:
        """Take the lines with an error out, so that their questions are asked again; they are kept in `.failed`."""
        failed = {key: each for key, each in self.predictions.items() if each.error is not None}
        if not failed:
            return 0
        with self.path.with_suffix(".failed").open("ab") as log:
            log.writelines(dump_line(each.to_json()) for each in failed.values())
        kept = [each for key, each in self.predictions.items() if key not in failed]
        self._appender.close()
        write_atomic(self.path, b"".join(dump_line(each.to_json()) for each in kept))
        self._appender = JsonlAppender(self.path)
        for key in failed:
            del self.predictions[key]
        return len(failed)

    def close(self) -> None:
        """Have it all on disk and let go of it; a run without a line leaves no file behind."""
        self._appender.close()
        if not self.predictions:
            self.path.unlink(missing_ok=True)
            configuration_path(self.path).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def configuration_path(run: Path) -> Path:
    """Where the configuration of a run file stands."""
    return run.with_name(run.name.removesuffix(".jsonl") + ".run.toml")


def read_configuration(run: Path) -> dict[str, object]:
    """The configuration of a run file; empty where it has none, as an outsider's run."""
    path = configuration_path(run)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML: {error}.") from None


def write_configuration(path: Path, configuration: Mapping[str, object]) -> None:
    """Write a configuration of plain values as TOML."""
    lines = ["# Written by trace-ves run. The run beside this file continues under this configuration only."]
    lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in configuration.items()]
    write_atomic(path, ("\n".join(lines) + "\n").encode("utf-8"))


def _hold_to(path: Path, wanted: Mapping[str, str | float], *, is_new: bool) -> None:
    if is_new:
        write_configuration(path, wanted)
        return
    found = read_configuration(path.with_name(path.name.removesuffix(".run.toml") + ".jsonl"))
    if not found:
        raise InputError(f"{path} is missing, so this run cannot be continued; give another --out.")
    for key in sorted((found.keys() | wanted.keys()) - NOT_COMPARED):
        if found.get(key) != wanted.get(key):
            raise InputError(
                f"{path}: this run was made with {key} = {_shown(found, key)}, and now it would be "
                f"{_shown(wanted, key)}; give another --out."
            )


def _shown(configuration: Mapping[str, object], key: str) -> str:
    return str(configuration.get(key, "nothing"))


def _by_question(path: Path) -> dict[str, Prediction]:
    found: dict[str, Prediction] = {}
    for line in read_jsonl(path):
        try:
            prediction = Prediction.from_json(line.record)
        except FieldError as error:
            raise FormatError(f"{error}.", path=path, line=line.number) from None
        found[prediction.question_id] = prediction
    return found
