"""The numbers of TRACE. The paper fixes the storyboard; the others lead to its cost of about 100 supplied frames."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

from trace_ves.core import Interval, ObservationStrategy

DEFAULT_BUDGET: Final = 112  # Supplied frames for one question; most questions end below it

LookFor = Literal["general", "fast-motion", "small-object", "text", "state-change"]

STRATEGIES: Final[dict[LookFor, ObservationStrategy]] = {
    "general": ObservationStrategy(fps=0.2, height=360),
    "fast-motion": ObservationStrategy(fps=1.0, height=360),
    "small-object": ObservationStrategy(fps=0.2, height=720),
    "text": ObservationStrategy(fps=0.2, height=720),
    "state-change": ObservationStrategy(fps=0.4, height=360),
}
"""The lowest frame rate and the height for each kind of evidence."""


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """The numbers of a search."""

    storyboard_frames: int = 32
    storyboard_height: int = 360
    resupply_storyboard: bool = False
    """Whether later proposals see the storyboard's frames again instead of its notes. The frames are charged again."""
    scan_frames: int = 24  # At most this many frames of a scan between the storyboard's frames; 0 for no scan
    least_scan_frames: int = 6  # A scan with fewer frames is not worth a call
    candidates_per_round: int = 8
    look_frames_per_round: int = 40
    """The most frames of the first looks of a round; their results decide where to look next."""
    candidate_frames: int = 5  # The most frames of one look
    fast_candidate_frames: int = 8  # The same for a look with a frame every second
    least_candidate_frames: int = 3  # A look with fewer frames is not worth a call
    least_anchor_frames: int = 3
    most_anchor_frames: int = 4
    """The paper's anchors have 3 to 5 frames. Each bundle with an anchor is charged for its frames, so fewer frames
    leave more of the budget for the search.
    """
    seen_spacing_seconds: float = 5.0
    """A wider gap between two frames is unexplored."""
    occurrence_share: float = 0.5  # For a count, a gap may be as wide as this part of the shortest occurrence found
    adjoining_seconds: float = 3.0  # Spans no farther apart show one event, if nothing else is seen between them
    expand_limit: int = 4  # K: how many unexplored spans EXPAND may name
    shortest_segment: float = 2.0  # Unexplored slivers up to this many seconds are dropped
    max_rounds: int = 12
    proposal_subtitle_chars: int = 24_000  # The most characters of subtitles in a proposal
    assembly_subtitle_chars: int = 4_000  # The same for the clips of one bundle in Evidence Assembly
    layout: Literal["priority", "chronological"] = "priority"
    """The order of clips in a call. By priority, each bundle is a literal prefix of the next."""

    def for_count(self) -> TraceSettings:
        """The settings for a count: small looks, because an occurrence can be anywhere."""
        return replace(self, fast_candidate_frames=self.candidate_frames)

    @property
    def least_budget(self) -> int:
        """The smallest budget that can lead to an answer: the storyboard, one look and one anchor."""
        return self.storyboard_frames + self.least_candidate_frames + self.least_anchor_frames

    def longest_look(self, strategy: ObservationStrategy) -> float:
        """The longest span of one look of this kind, in seconds."""
        return self.most_look_frames(strategy) / strategy.fps

    def most_look_frames(self, strategy: ObservationStrategy) -> int:
        """The most frames of one look of this kind."""
        return self.fast_candidate_frames if strategy.fps >= 1 else self.candidate_frames

    def look_frames(self, span: Interval, strategy: ObservationStrategy) -> int:
        """The frames of a look at a span: by the frame rate, within limits."""
        frames = math.ceil(span.length * strategy.fps - 1e-9)
        return min(max(frames, self.least_candidate_frames), self.most_look_frames(strategy))
