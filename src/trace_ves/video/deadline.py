"""A limit on how long one piece of work may take, so that a hostile file cannot hold a caller for ever."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trace_ves.core import VideoError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment after which the work is given up."""

    path: Path
    doing: str
    """What is being done, as in "opening it"."""
    seconds: float
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_end", time.monotonic() + self.seconds)

    def check(self) -> None:
        """Raise the error once the time is up."""
        if time.monotonic() > self._end:
            raise self.error()

    def remaining_seconds(self) -> float:
        """Time that is left."""
        return max(0.0, self._end - time.monotonic())

    def error(self) -> VideoError:
        """The sentence that says that the time is up."""
        return VideoError(
            f"{self.path}: {self.doing} took longer than the deadline of {self.seconds:g} s; "
            "give a longer deadline, or re-encode the video with more keyframes."
        )
