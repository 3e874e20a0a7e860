"""What an audit takes from a line of a run file, without making the whole prediction.

Most lines are plainly right: their values have the types that the format asks for, and nothing heavy is among them.
Those are taken as they are; every other line goes through `Prediction`, which also says what is wrong with it.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from trace_ves.core.errors import FormatError
from trace_ves.core.jsonl import read_jsonl
from trace_ves.records.prediction import Prediction
from trace_ves.records.record import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from trace_ves.records.calls import Call


class AuditedLine(NamedTuple):
    """The part of a prediction that is counted."""

    question_id: str
    answer: str | None
    timestamps: array[float]
    frames_supplied: int
    termination: str | None
    method: str
    backbone: str
    error: str | None
    observations: tuple[Call, ...] = ()

    @classmethod
    def of(cls, prediction: Prediction) -> Self:
        """The part of a prediction that was read or made as a whole."""
        return cls(
            prediction.question_id,
            prediction.answer,
            array("d", prediction.timestamps),
            prediction.frames_supplied,
            prediction.termination,
            prediction.method,
            prediction.backbone,
            prediction.error,
            prediction.observations,
        )

    @property
    def prediction(self) -> Prediction:
        """The same as a prediction that has nothing else."""
        return Prediction(
            self.question_id, self.answer, tuple(self.timestamps), self.frames_supplied, termination=self.termination
        )


def read_audited_lines(
    path: Path,
    *,
    on_torn_tail: Callable[[str], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[int, AuditedLine]]:
    """Every line of a run file with its number; what is wrong with one is a `FormatError`, as in `read_predictions`."""
    for number, record, raw in read_jsonl(path, on_torn_tail=on_torn_tail, on_progress=on_progress):
        try:
            yield number, plain_line(record, raw) or AuditedLine.of(Prediction.from_json(record))
        except FieldError as error:
            raise FormatError(f"{error}.", path=path, line=number) from None


_CHECKED_ELSEWHERE: Final = frozenset({"observations", "trajectory", "bundle", "usage", "seconds"})


def plain_line(record: Mapping[str, object], raw: bytes) -> AuditedLine | None:
    """The line of this record, where it is plainly right; None leaves it to `Prediction`. `raw` is its text."""
    get = record.get
    name, answer, seen = get("question_id"), get("answer", _MISSING), get("timestamps")
    ending, error = get("termination"), get("error")
    method, backbone = get("method", ""), get("backbone", "")
    if (
        type(name) is not str
        or not name.strip()
        or not (type(answer) is str or answer is None)
        or type(seen) is not list
        or not (type(ending) is str or ending is None)
        or not (type(error) is str or error is None)
        or type(method) is not str
        or type(backbone) is not str
        or not _CHECKED_ELSEWHERE.isdisjoint(record)
        or _may_have_booleans(raw)
    ):
        return None
    supplied = get("frames_supplied", len(seen))
    if type(supplied) is not int or supplied < 0:
        return None
    try:
        if not math.isfinite(sum(seen)):
            return None
        return AuditedLine(name, answer, array("d", seen), supplied, ending, method, backbone, error)
    except (TypeError, OverflowError):
        return None


_MISSING: Final = object()


def _may_have_booleans(raw: bytes) -> bool:
    """Whether `true` or `false` may stand among the timestamps, where an array of numbers would take them for 1 and 0.

    In an object without objects inside, this text is the key of the line itself, or its first quote is escaped.
    """
    key = raw.find(_TIMESTAMPS)
    start = key + len(_TIMESTAMPS)
    if key < 0 or raw[key - 1 : key] == b"\\" or raw.find(b"{") != raw.rfind(b"{"):
        return True
    return raw.find(b"e", start, raw.find(b"]", start)) >= 0


_TIMESTAMPS: Final = b'"timestamps":'
