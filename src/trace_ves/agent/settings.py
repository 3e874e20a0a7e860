"""The numbers of TRACE. The paper fixes the storyboard; the rest aims at its cost of about 100 supplied frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from trace_ves.core import Interval, ObservationStrategy

DEFAULT_BUDGET: Final = 112
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
    candidates_per_round: int = 5
    candidate_frames: int = 5
    """At most this many frames of a candidate are looked at in extraction."""
    least_candidate_frames: int = 3
    """A look with fewer frames is not worth a call."""
    least_anchor_frames: int = 4
    most_anchor_frames: int = 4
    """The paper's anchors have 3 to 5 frames. Every frame of an anchor is paid for again in each bundle it is part of,
    and fewer of them leave more of the budget to the search.
    """
    likely_anchors: float = 0.5
    """The part of a round's candidates that are expected to become anchors when its frames are reserved."""
    seen_spacing_seconds: float = 5.0
    """Frames no farther apart than this show what happens between them; a wider gap stays unexplored."""
    change_spacing_seconds: float = 2.5
    """The same for a look at something that changes, which takes two moments to see."""
    occurrence_share: float = 0.7
    """For a count, a gap may be as wide as this part of the shortest occurrence found."""
    expand_limit: int = 3
    """K: how many unexplored spans EXPAND may name."""
    shortest_segment: float = 2.0
    """Unexplored slivers up to this many seconds are dropped."""
    max_rounds: int = 12
    proposal_subtitle_chars: int = 24_000
    """Of the subtitles, where they are shown, so much stands in a proposal."""
    assembly_subtitle_chars: int = 4_000
    """The same for the clips of one bundle in Evidence Assembly."""
    layout: Literal["priority", "chronological"] = "priority"
    """The order of clips in a call. By priority, each bundle is a literal prefix of the next."""

    @property
    def least_budget(self) -> int:
        """Frames that one look and the answer from what it finds can need; with fewer, no answer could be reached."""
        return self.storyboard_frames + self.least_candidate_frames + self.least_anchor_frames

    @property
    def look_seconds(self) -> float:
        """The longest span that one look at the general rate can see well enough."""
        return self.longest_look(STRATEGIES["general"])

    def longest_look(self, strategy: ObservationStrategy) -> float:
        """The longest span that one look of this kind can see well enough."""
        return self.candidate_frames * self.look_spacing(strategy)

    def look_spacing(self, strategy: ObservationStrategy) -> float:
        """Seconds between frames at which a look still sees what its strategy is for."""
        return self.change_spacing_seconds if strategy == STRATEGIES["state-change"] else self.seen_spacing_seconds

    def look_frames(self, span: Interval, strategy: ObservationStrategy) -> int:
        """Frames of a look at a span: the strategy's rate, within bounds."""
        wanted = round(span.length * strategy.fps)
        return min(max(wanted, self.least_candidate_frames), self.candidate_frames)
