"""What each person has had on screen of each video, in any item: who can still judge a partial set blind.

Follows from the history alone. Holding an assignment counts as having seen what it shows, whether or not it was judged.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.leave_one_out import partial_set
from trace_ves.construction.people import PERSON_SLOT
from trace_ves.construction.stages import PROPOSAL_SLOT, Stage
from trace_ves.construction.visual_verification import Evidence, evidence_from_history

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from trace_ves.construction.ledger import Entry, Ledger
    from trace_ves.core import Interval

EDGE_SECONDS: Final = 0.05
"""A clip that reaches this little beyond an interval shows nothing new."""


class Blindness(IntEnum):
    """How a person stands to a partial set; the smaller, the better."""

    FRESH = 0
    """Has seen nothing of the video that the partial set does not show."""
    REPEAT = 1
    """Has seen other clips of the video: another partial set of the item, or clips of other items elsewhere in it.
    May judge only where the build's settings say so and nobody else is left."""
    EXPOSED = 2
    """Has had the whole video, or the hidden interval in another item; must not judge."""


@dataclass(frozen=True, slots=True)
class PartialSet:
    """Evidence without one interval, as a person would judge it."""

    item: str
    video: str
    evidence: Evidence
    left_out: int

    @property
    def shown(self) -> Evidence:
        """The intervals that are shown."""
        return partial_set(self.evidence, self.left_out)

    @property
    def hidden(self) -> Interval:
        """The interval that is not."""
        return self.evidence[self.left_out]


@dataclass(frozen=True, slots=True)
class _Shown:
    """One thing that was on a person's screen."""

    number: int
    item: str
    spans: Evidence | None
    """None for the whole video."""


class Exposures:
    """What was shown to whom, kept up to date with the history. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read = 0
        self._videos: dict[str, str] = {}
        self._shown: dict[tuple[str, str], list[_Shown]] = defaultdict(list)
        self._assignments: Counter[str] = Counter()
        self._active_at: dict[str, float] = {}
        self._whole: dict[str, frozenset[str]] = {}

    def update(self, ledger: Ledger) -> None:
        """Take in what was written since the last call."""
        with self._lock:
            entries = ledger.entries[self._read :]
            self._read += len(entries)
            for entry in entries:
                self._add(entry)

    def assignments_of(self, who: str) -> int:
        """How many assignments a person was ever given."""
        with self._lock:
            return self._assignments[who]

    def active_at(self, who: str) -> float:
        """When a person was invited or last wrote something."""
        with self._lock:
            return self._active_at.get(who, 0.0)

    def has_seen(self, who: str, video: str) -> bool:
        """Whether a person has had anything of a video on screen."""
        return bool(self._of(who, video))

    def whole_viewers(self, video: str) -> frozenset[str]:
        """Who has had the whole video at their disposal."""
        return self._whole.get(video, frozenset())

    def blindness(self, who: str, hiding: PartialSet, *, since: int = 0) -> Blindness:
        """How a person stands to a partial set; with `since`, by what they saw after that entry of the history."""
        worst = Blindness.FRESH
        for shown in self._of(who, hiding.video):
            if shown.number > since:
                worst = max(worst, _after(shown, hiding))
        return worst

    def _of(self, who: str, video: str) -> list[_Shown]:
        with self._lock:
            return list(self._shown.get((who, video), ()))

    def _add(self, entry: Entry) -> None:
        value = entry.after or {}
        self._active_at[entry.subject.removeprefix("person:") if entry.slot == PERSON_SLOT else entry.who] = entry.at
        if entry.slot == PROPOSAL_SLOT:
            self._videos[entry.subject] = str(value.get("video", ""))
            return
        kind, _, rest = entry.slot.partition("/")
        who = entry.who
        spans: Evidence | None
        if kind == "seat" and "who" in value:
            who = str(value["who"])  # an operator may have given it to them
            self._assignments[who] += 1
            spans = None if rest.startswith(Stage.VERIFICATION.value) else evidence_from_history(value.get("spans", []))
        elif kind in {"verification", "settlement"}:
            spans = None
        elif kind == "without" and value:
            spans = _partial(rest, value)
        else:
            return
        video = self._videos.get(entry.subject)
        if video is not None and (spans is None or spans):
            self._shown[who, video].append(_Shown(entry.number, entry.subject, spans))
            if spans is None:
                self._whole[video] = self._whole.get(video, frozenset()) | {who}


def _partial(rest: str, value: Mapping[str, Any]) -> Evidence:
    evidence = evidence_from_history(value["evidence"])
    return partial_set(evidence, int(rest.rpartition("/")[2]))


def _after(shown: _Shown, hiding: PartialSet) -> Blindness:
    """How somebody stands to a partial set who has seen one other thing."""
    if shown.spans is None:
        return Blindness.EXPOSED
    if _is_within(shown.spans, hiding.shown):
        return Blindness.FRESH
    hides = shown.item == hiding.item or all(_overlap(span, hiding.hidden) <= EDGE_SECONDS for span in shown.spans)
    return Blindness.REPEAT if hides else Blindness.EXPOSED


def _overlap(one: Interval, other: Interval) -> float:
    return min(one.end, other.end) - max(one.start, other.start)


def _is_within(spans: Evidence, partial: Evidence) -> bool:
    return all(
        any(known.start - EDGE_SECONDS <= span.start and span.end <= known.end + EDGE_SECONDS for known in partial)
        for span in spans
    )


REPORT_FILE: Final = "construction.json"
"""What an exported bench tells of its construction."""


def model_of(spec: str) -> str:
    """The model behind a spec, whoever serves it: `openai:Qwen/Qwen3-VL-8B@http://…` and `hf:qwen3-vl-8b` are one."""
    scheme, colon, rest = spec.partition(":")
    name = rest.partition("@")[0] if colon else scheme
    return name.rstrip("/").rpartition("/")[2].casefold()


def overlap_warning(audited: Iterable[str], spec: str, doing: str) -> str | None:
    """What to tell a person whose construction backbone is also audited; None where it is not."""
    same = next((each for each in audited if model_of(each) == model_of(spec)), None)
    if same is None:
        return None
    return f"{spec} is used for {doing} and audited too ({same}); no model should be audited on what it helped to build"


def warnings_of_bench(bench: Path, audited: Sequence[str]) -> list[str]:
    """The same for a bench that was built with `trace-ves build`; any other bench has nothing to tell."""
    try:
        used = json.loads((bench / REPORT_FILE).read_text(encoding="utf-8"))["backbones"]
        pairs = [(str(stage), str(spec)) for stage, specs in used.items() for spec in specs]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    found = (overlap_warning(audited, spec, f"this bench's {stage}") for stage, spec in pairs)
    return [warning for warning in found if warning]
