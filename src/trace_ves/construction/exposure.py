"""What each person has seen of each video, over all items. It decides who can judge a partial set blind.

Everything is derived from the history. The holder of an assignment counts as having seen its footage.
"""

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from trace_ves.construction.judged_item import Evidence, JudgedItem, partial_set
from trace_ves.construction.ledger import PROPOSAL_SLOT, Ledger, LedgerEntry, Stage
from trace_ves.construction.people import PERSON_SLOT
from trace_ves.records.base import validate

EDGE_SECONDS: Final = 0.05  # a clip may extend this far beyond an interval without showing anything new


class Blindness(IntEnum):
    """How much an annotator has seen of the video of a partial set; smaller is better."""

    FRESH = 0  # nothing but the clips of the partial set
    REPEAT = 1  # other clips of the video; may judge only if the settings allow it and no fresh annotator is left
    EXPOSED = 2  # the whole video, or the hidden interval in another item; must not judge


@dataclass(frozen=True, slots=True)
class _Exposure:
    """Footage that an annotator has seen."""

    number: int
    item: str
    spans: Evidence | None  # None for the whole video


class Exposures:
    """The footage that each person has seen so far. Threads may share it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._read = 0
        self._videos: dict[str, str] = {}
        self._seen: dict[tuple[str, str], list[_Exposure]] = defaultdict(list)
        self.assignments: Counter[str] = Counter()  # the number of assignments each annotator has held
        self.active_at: dict[str, float] = {}  # when each person was last active, or invited
        self.whole_viewers: dict[str, frozenset[str]] = {}  # who could see all of a video, by video
        self.catch_up()

    def has_seen(self, who: str, video: str) -> bool:
        """Whether an annotator has seen any part of a video."""
        return (who, video) in self._seen

    def blindness(self, who: str, judged: JudgedItem, left_out: int, *, since: int = 0) -> Blindness:
        """How blind an annotator is to a partial set; with `since`, considering only what they saw after that entry."""
        video = judged.proposal.video
        if not since and who in self.whole_viewers.get(video, ()):
            return Blindness.EXPOSED  # a shortcut for the comparison below
        seen = [each for each in self._seen.get((who, video), ()) if each.number > since]
        return max((_blindness_after(each, judged, left_out) for each in seen), default=Blindness.FRESH)

    def catch_up(self) -> None:
        """Read the entries written since the last call."""
        with self._lock:
            for entry in self._ledger.entries[self._read :]:
                self._add(entry)
                self._read += 1

    def _add(self, entry: LedgerEntry) -> None:
        value = entry.after or {}
        self.active_at[entry.subject.removeprefix("person:") if entry.slot == PERSON_SLOT else entry.who] = entry.at
        if entry.slot == PROPOSAL_SLOT:
            self._videos[entry.subject] = str(value.get("video", ""))
            return
        kind, _, rest = entry.slot.partition("/")
        who = entry.who
        spans: Evidence | None
        if kind == "seat" and "who" in value:
            who = str(value["who"])  # the entry's author may be the operator who assigned it
            self.assignments[who] += 1
            spans = None if rest.startswith(Stage.VERIFICATION.value) else validate(Evidence, value.get("spans", []))
        elif kind in {"verification", "settlement"}:
            spans = None
        elif kind == "without" and value:
            spans = partial_set(validate(Evidence, value["evidence"]), int(rest.rpartition("/")[2]))
        else:
            return
        video = self._videos.get(entry.subject)
        if video is not None and (spans is None or spans):
            self._seen[who, video].append(_Exposure(entry.number, entry.subject, spans))
            if spans is None:
                self.whole_viewers[video] = self.whole_viewers.get(video, frozenset()) | {who}


def _blindness_after(exposure: _Exposure, judged: JudgedItem, left_out: int) -> Blindness:
    """The blindness to a partial set after one exposure."""
    if exposure.spans is None:
        return Blindness.EXPOSED
    evidence = judged.partial_evidence
    partial = [(span.start - EDGE_SECONDS, span.end + EDGE_SECONDS) for span in partial_set(evidence, left_out)]
    if all(any(start <= span.start and span.end <= end for start, end in partial) for span in exposure.spans):
        return Blindness.FRESH
    hidden = evidence[left_out]
    overlaps = (span.intersection(hidden) for span in exposure.spans)
    is_hidden = exposure.item == judged.id or all(each is None or each.length <= EDGE_SECONDS for each in overlaps)
    return Blindness.REPEAT if is_hidden else Blindness.EXPOSED
