"""One run on disk: an append-only jsonl of predictions and, beside it, the configuration under which it may grow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from trace_ves.core.errors import FormatError, InputError
from trace_ves.core.files import atomic_path
from trace_ves.core.jsonl import JsonlAppender, dump_line, read_jsonl
from trace_ves.records.calls import flex_usage
from trace_ves.records.prediction import Prediction
from trace_ves.records.record import FieldError
from trace_ves.records.run_configuration import configuration_path, read_configuration, write_configuration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType

    from trace_ves.records.calls import Usage
    from trace_ves.records.run_configuration import RunConfiguration


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
class FinishedLine:
    """What is kept in memory of a line: enough to count it. The rest is on disk alone."""

    answer: str | None
    failed: bool
    usage: Usage
    flex_usage: Usage
    """The part of it that the cheaper tier of a service answered."""

    @classmethod
    def of(cls, prediction: Prediction) -> FinishedLine:
        """The part of a prediction that is counted."""
        return cls(
            prediction.answer, prediction.error is not None, prediction.usage, flex_usage(prediction.observations)
        )


class RunFile:
    """The lines of one run. Opening it heals what a kill left behind, and refuses another configuration."""

    def __init__(self, folder: Path, name: str, configuration: RunConfiguration) -> None:
        self.path: Final = folder / f"{name}.jsonl"
        self._appender = JsonlAppender(self.path)
        try:
            self._check(configuration)
            self.finished: Final = {each.question_id: FinishedLine.of(each) for _, each in read_predictions(self.path)}
        except BaseException:
            self._appender.close()
            raise

    def append(self, prediction: Prediction) -> None:
        """Write one line."""
        self._appender.append(prediction.to_json())
        self.finished[prediction.question_id] = FinishedLine.of(prediction)

    def forget_errors(self) -> int:
        """Take the lines with an error out, so that their questions are asked again; they are kept in `.failed`."""
        failed = [name for name, each in self.finished.items() if each.failed]
        if not failed:
            return 0
        self._appender.close()
        with (
            atomic_path(self.path) as partial,
            partial.open("wb") as kept,
            self.path.with_suffix(".failed").open("ab") as log,
        ):
            for _, each in read_predictions(self.path):
                (kept if each.error is None else log).write(dump_line(each.to_json()))
            kept.flush()
            os.fsync(kept.fileno())
        self._appender = JsonlAppender(self.path)
        for name in failed:
            del self.finished[name]
        return len(failed)

    def close(self) -> None:
        """Have it all on disk and let go of it; a run without a line leaves no file behind."""
        self._appender.close()
        if not self.finished:
            self.path.unlink(missing_ok=True)
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
