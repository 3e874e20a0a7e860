"""The rows of one run, column by column: a few bytes for each question, and a row as a value when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np

from trace_ves.ves.rows import AuditRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trace_ves.records.item_table import Texts

    Counts = NDArray[np.integer[Any]]

UNSCORED: Final = -1
"""In `correct`, for a sampler without a model."""
NO_TERMINATION: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class RowTable(Sequence[AuditRow]):
    """What the audit says of every question of one run, in the order of the bench."""

    ids: Texts | Sequence[str]
    correct: NDArray[np.int8]
    """1 where the answer is right, 0 where it is not, `UNSCORED` where there is none to score."""
    frames_supplied: Counts | NDArray[np.float64]
    frames_distinct: Counts
    frames_inside: Counts
    density: Counts
    termination: Counts
    """The place of each row's termination in `terminations`, or `NO_TERMINATION`."""
    terminations: tuple[str, ...] = ()

    @classmethod
    def empty(cls) -> RowTable:
        """No rows."""
        columns: dict[str, Any] = dict.fromkeys(COLUMNS, np.empty(0, np.int8))
        return cls((), **columns)

    def __len__(self) -> int:
        return len(self.correct)

    @overload
    def __getitem__(self, at: int) -> AuditRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[AuditRow]: ...
    def __getitem__(self, at: int | slice) -> AuditRow | list[AuditRow]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        place = range(len(self))[at]
        termination = int(self.termination[place])
        correct = int(self.correct[place])
        return AuditRow(
            self.ids[place],
            correct=None if correct == UNSCORED else bool(correct),
            frames_supplied=int(self.frames_supplied[place]),
            frames_distinct=int(self.frames_distinct[place]),
            frames_inside=int(self.frames_inside[place]),
            density=int(self.density[place]),
            termination=None if termination == NO_TERMINATION else self.terminations[termination],
        )

    def __iter__(self) -> Iterator[AuditRow]:
        return (self[at] for at in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'RowTable'")  # as of any list

    @property
    def is_scored(self) -> bool:
        """Whether there are answers."""
        return not np.any(self.correct == UNSCORED)

    @property
    def precision(self) -> NDArray[np.float64]:
        """The share of each question's distinct frames that is inside the evidence; 0 where nothing was decoded."""
        distinct = self.frames_distinct.astype(np.float64)
        return np.divide(self.frames_inside, distinct, out=np.zeros(len(self)), where=distinct > 0)

    def within(self, start: int, stop: int) -> RowTable:
        """The rows of a stretch, without their ids; nothing is copied."""
        here = slice(start, stop)
        return replace(self, ids=(), **{name: getattr(self, name)[here] for name in COLUMNS})

    def where(self, chosen: NDArray[np.bool_]) -> RowTable:
        """The rows of a mask, without their ids."""
        return replace(self, ids=(), **{name: getattr(self, name)[chosen] for name in COLUMNS})

    def packed(self) -> RowTable:
        """The same in the smallest types that hold it."""
        columns: dict[str, Any] = {name: _smallest(getattr(self, name)) for name in COLUMNS}
        return replace(self, **columns)


COLUMNS: Final = ("correct", "frames_supplied", "frames_distinct", "frames_inside", "density", "termination")


def _smallest(column: NDArray[Any]) -> NDArray[Any]:
    if not len(column) or column.dtype == np.int8:
        return column
    least, most = column.min(), column.max()
    if column.dtype == np.float64 and most >= 2**53:
        return column
    kind = np.promote_types(np.min_scalar_type(int(least)), np.min_scalar_type(int(most)))
    return column.astype(kind)
