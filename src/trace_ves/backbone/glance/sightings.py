"""What eyes report of one picture, and what was seen at a moment of a video.

Plain values. Whoever looks gets pixels alone; the moment is put beside the view afterwards, by the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from trace_ves.core import Interval

SEEN: Final = 0.4
"""A sighting with this score counts as seen: the score at which the eyes' precision and recall are measured."""
GLIMPSED: Final = 0.2
"""A sighting with this score is worth another look, and settles nothing."""

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Sighting:
    """One thing in one picture."""

    name: str
    score: float
    """From 0 to 1."""
    box: Box = (0.0, 0.0, 0.0, 0.0)
    """Left, top, right, bottom, as parts of the picture's sides."""

    @property
    def size(self) -> float:
        """The longer side of the box, as a part of the picture's side."""
        left, top, right, bottom = self.box
        return max(right - left, bottom - top)


@dataclass(frozen=True, slots=True)
class View:
    """Everything that eyes report of one picture."""

    sightings: tuple[Sighting, ...] = ()
    scene: str | None = None
    """The kind of place, where the eyes are sure of it."""

    def best(self, name: str) -> Sighting | None:
        """The sighting of this name with the highest score."""
        return max((s for s in self.sightings if s.name == name), key=lambda s: s.score, default=None)

    def score(self, name: str) -> float:
        """How surely something of this name is in the picture; 0 where it is not."""
        best = self.best(name)
        return best.score if best else 0.0

    def shows(self, name: str) -> bool:
        """Whether this is seen: a thing, words, or the scene itself."""
        return self.score(name) >= SEEN or self.scene == name


Eyes: TypeAlias = "Callable[[NDArray[np.uint8]], View]"
"""Whatever turns the pixels of one picture (height x width x 3) into a view."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A view, and when in the video it was."""

    seconds: float
    view: View
    aspect: float = 16 / 9
    """The picture's width over its height: boxes are parts of its sides."""


@dataclass(frozen=True, slots=True)
class SeenClip:
    """A clip of the call, after looking."""

    span: Interval
    moments: tuple[Moment, ...]
    """In order of time."""

    @property
    def spacing_seconds(self) -> float:
        """The usual time between two frames; the whole span where there is only one."""
        if len(self.moments) < 2:
            return self.span.length
        return (self.moments[-1].seconds - self.moments[0].seconds) / (len(self.moments) - 1)
