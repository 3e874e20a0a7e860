"""One question about many videos: in which of them it was found, the surest first.

The order is plain: a settled answer comes before a guess, a guess before an answer that says no, that before none, and
an error last. Among equals, fewer open claims come first, then more clips of evidence, then the name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.replies import folded
from trace_ves.core import Interval, Termination
from trace_ves.records import ClipRecord
from trace_ves.records.search import read_search
from trace_ves.records.trace import TraceRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trace_ves.records import Prediction


class Found(IntEnum):
    """How sure it is that what was asked for is in a video, the surest first."""

    SETTLED = 1
    GUESS = 2
    NO = 3
    NOTHING = 4
    ERROR = 5


WORDS: Final = {
    Found.SETTLED: "found",
    Found.GUESS: "a guess",
    Found.NO: "not there",
    Found.NOTHING: "nothing found",
    Found.ERROR: "error",
}
_DENIALS: Final = frozenset({"no", "none", "nothing", "nowhere", "never", "nobody", "not", "0", "zero", "absent"})
"""An answer that begins with one of these says that it is not there."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One video and what was found in it."""

    video: str
    found: Found
    text: str | None
    """The answer in words."""
    evidence: tuple[Interval, ...]
    """Where, in order of time."""
    open_claims: int
    line: Prediction

    @property
    def is_found(self) -> bool:
        """Whether there is something to show in it."""
        return self.found <= Found.GUESS

    def to_json(self) -> dict[str, object]:
        """For machines."""
        return {
            "video": self.video,
            "found": WORDS[self.found],
            "answer": self.line.answer,
            "text": self.text,
            "evidence": [[span.start, span.end] for span in self.evidence],
            "open_claims": self.open_claims,
            "frames_supplied": self.line.frames_supplied,
            "error": self.line.error,
        }


def ranking(lines: Iterable[Prediction]) -> list[Ranked]:
    """The videos of these lines, the one where it was found most surely first."""
    rows = [_ranked(line) for line in lines]
    return sorted(rows, key=lambda row: (row.found, row.open_claims, -len(row.evidence), row.video))


def evidence_of(line: Prediction) -> tuple[Interval, ...]:
    """The spans of the clips that an answer rests on, in order of time."""
    return tuple(sorted(clip.span for clip in line.bundle if isinstance(clip, ClipRecord)))


def _ranked(line: Prediction) -> Ranked:
    text = line.extra.get("text")
    words = text if isinstance(text, str) else None
    search = read_search(line.trajectory)
    needs = 0
    if isinstance(search, TraceRecord) and search.rounds and search.rounds[-1].flags is not None:
        needs = len(search.rounds[-1].flags.unmet_needs)
    return Ranked(line.question_id, _found(line, words), words, evidence_of(line), needs, line)


def _found(line: Prediction, words: str | None) -> Found:
    if line.error is not None:
        return Found.ERROR
    if words is None:
        return Found.NOTHING
    if folded(words)[:1] and folded(words)[0] in _DENIALS:
        return Found.NO
    return Found.SETTLED if line.termination == Termination.STABLE_PREFIX_FOUND else Found.GUESS
