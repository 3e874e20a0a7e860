"""The numbers of TRACE. The paper fixes the storyboard; the rest aims at its cost of about 100 supplied frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from trace_ves.core import ObservationStrategy

DEFAULT_BUDGET: Final = 128
"""Supplied frames for one question; most questions end below it."""

LookFor = Literal["general", "fast-motion", "small-object", "text", "state-change"]

STRATEGIES: Final[dict[LookFor, ObservationStrategy]] = {
    "general": ObservationStrategy(fps=0.5, height=360),
    "fast-motion": ObservationStrategy(fps=2.0, height=360),
    "small-object": ObservationStrategy(fps=0.5, height=720),
    "text": ObservationStrategy(fps=0.5, height=720),
    "state-change": ObservationStrategy(fps=1.0, height=360),
}
"""How to look for what: the rate and size that each kind of evidence needs."""


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """What a run of TRACE is configured with, besides its modules."""

    storyboard_frames: int = 32
    storyboard_height: int = 360
    resupply_storyboard: bool = False
    """Whether later proposals see the storyboard's frames again, and pay for them, instead of the notes made of it."""
    candidates_per_round: int = 4
    candidate_frames: int = 8
    """At most this many frames of a candidate are looked at in extraction."""
    least_anchor_frames: int = 3
    most_anchor_frames: int = 3
    """The paper's anchors have 3 to 5 frames. Every frame of an anchor is paid for again in each bundle it is part of,
    and fewer of them leave more of the budget to the search.
    """
    expand_limit: int = 3
    """K: how many unexplored spans EXPAND may name."""
    shortest_segment: float = 2.0
    """Unexplored slivers up to this many seconds are dropped."""
    max_rounds: int = 6
    layout: Literal["priority", "chronological"] = "priority"
    """The order of clips in a call. By priority, each bundle is a literal prefix of the next."""

    @property
    def least_budget(self) -> int:
        """Frames that one anchor and its replay can need; with fewer, no answer could ever be reached."""
        return self.storyboard_frames + self.candidate_frames + 2 * self.most_anchor_frames
