"""What a proposal must be to reach a person: the reply of the proposing model, and the schema of each family.

Pure rules. A draft that breaks its family's schema is refused with a reason; nothing in it is mended but slivers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING, Interval, Question
from trace_ves.core.question import LETTERS
from trace_ves.records.record import Number, Record, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

OPTIONS: Final = 4
FEWEST_INTERVALS: Final = 2
MOST_INTERVALS: Final = 24
SHORTEST_SECONDS: Final = 1.0
"""A shorter interval is widened: what a model saw in one frame still needs something to play."""

LEAST_SECONDS: Final = 0.1
"""No annotator may make an interval shorter."""
LONGEST_SHARE: Final = 0.5
"""An interval that is longer than this part of its video points at nothing."""

SCHEMAS: Final = {
    TEMPORAL_ORDERING: (
        "Ask for the relative order of two or more events that happen once each. The options are four different orders "
        "of the same events. The evidence has one interval for each event, in order of time."
    ),
    EVENT_COUNTING: (
        "Ask how many separate times one event happens. The options are four different whole numbers, in digits. The "
        "evidence has one interval for every occurrence in the video, in order of time, so that the right number is "
        "the number of intervals."
    ),
}
"""What the proposing model is told about each family."""


class ItemDraft(BaseModel):
    """One item as the model drafts it."""

    question: str = Field(min_length=1, max_length=1000)
    options: list[str] = Field(description="Four options.")
    answer: str = Field(description="The letter of the right option, A to D.")
    evidence: list[list[float]] = Field(description="Start and end of each interval, in seconds of the video.")
    rationales: list[str] = Field(description="For each interval, the visual fact that it should attest.")


class DraftsReply(BaseModel):
    """What the proposing model replies."""

    model_config = ConfigDict(extra="ignore")
    items: list[ItemDraft]


@dataclass(frozen=True, slots=True)
class ProposedItem(Record):
    """An item as it was proposed."""

    video: str
    """Path below the build's folder."""
    duration: Number
    family: str
    text: Annotated[str, Field(alias="question")]
    options: tuple[str, ...]
    answer: str
    evidence: tuple[Span, ...]
    rationales: tuple[str, ...]

    def question(self, name: str) -> Question:
        """The question as a method or a probe may see it."""
        return Question(name, self.video, self.text, self.options, self.family)


class DraftError(ValueError):
    """A draft breaks its family's schema; the message is a clause."""


def checked(draft: ItemDraft, *, video: str, duration: float, family: str) -> ProposedItem:
    """The draft as a proposal, or a `DraftError` that says which rule it breaks."""
    options = tuple(option.strip() for option in draft.options)
    if len(options) != OPTIONS or len({option.casefold() for option in options}) != OPTIONS or not all(options):
        raise DraftError(f"it needs {OPTIONS} different options, found {len(options)}")
    answer = draft.answer.strip().strip("().").upper()
    if len(answer) != 1 or answer not in LETTERS[:OPTIONS]:
        raise DraftError(f"its answer must be one of A-{LETTERS[OPTIONS - 1]}, found {draft.answer[:20]!r}")
    evidence = tuple(_interval(pair, duration) for pair in draft.evidence)
    check_evidence(evidence, duration)
    if len(draft.rationales) != len(evidence) or not all(text.strip() for text in draft.rationales):
        raise DraftError(f"it needs a rationale for each of {len(evidence)} intervals, found {len(draft.rationales)}")
    check_count(family, options[LETTERS.index(answer)], evidence)
    rationales = tuple(text.strip()[:500] for text in draft.rationales)
    return ProposedItem(video, duration, family, draft.question.strip(), options, answer, evidence, rationales)


def _interval(pair: list[float], duration: float) -> Interval:
    if len(pair) != 2:
        raise DraftError(f"an interval has two numbers, found {len(pair)}")
    start, end = pair
    if not 0 <= start <= end <= duration:
        raise DraftError(f"the interval {start:g}-{end:g} s does not lie in the video of {duration:g} s")
    if end - start < SHORTEST_SECONDS:
        start = min(max(0.0, (start + end - SHORTEST_SECONDS) / 2), max(0.0, duration - SHORTEST_SECONDS))
        end = min(duration, start + SHORTEST_SECONDS)
    return Interval(round(start, 3), min(round(end, 3), duration))


def check_evidence(evidence: Sequence[Interval], duration: float) -> None:
    """A `DraftError` where intervals are too few, many, short or long, overlap, or leave the video."""
    if not FEWEST_INTERVALS <= len(evidence) <= MOST_INTERVALS:
        raise DraftError(f"it needs {FEWEST_INTERVALS} to {MOST_INTERVALS} intervals, found {len(evidence)}")
    for interval in evidence:
        name = f"the interval {interval.start:g}-{interval.end:g} s"
        if not 0 <= interval.start <= interval.end <= duration:
            raise DraftError(f"{name} does not lie in the video of {duration:g} s")
        if not LEAST_SECONDS <= interval.length <= LONGEST_SHARE * duration:
            raise DraftError(f"{name} must be {LEAST_SECONDS:g} to {LONGEST_SHARE * duration:g} s long")
    if any(later.start < earlier.end for earlier, later in pairwise(evidence)):
        raise DraftError("its intervals overlap or are not in order of time")


def check_count(family: str, right: str, evidence: Sequence[Interval]) -> None:
    """A `DraftError` where a counting item's right option is not the number of its intervals."""
    number = re.search(r"\d+", right)
    if family == EVENT_COUNTING and (number is None or int(number[0]) != len(evidence)):
        raise DraftError(f"the right count is {right[:20]!r}, but there are {len(evidence)} intervals")
