"""A question as a method may see it, and the same with its gold answer and evidence as an auditor sees it."""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.core.interval import Interval

LETTERS: Final = string.ascii_uppercase
MIN_OPTIONS: Final = 2
MAX_OPTIONS: Final = len(LETTERS)

TEMPORAL_ORDERING: Final = "temporal-ordering"
EVENT_COUNTING: Final = "event-counting"


@dataclass(frozen=True, slots=True)
class Question:
    """What a method may see: never the answer, never the evidence set."""

    id: str
    video: str
    text: str
    options: tuple[str, ...] = ()
    """Two to twenty-six options, lettered from A; empty for an open question."""
    family: str = ""
    """`temporal-ordering`, `event-counting`, or any other word."""

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters that are answers; empty for an open question."""
        return tuple(LETTERS[: len(self.options)])

    @property
    def is_open(self) -> bool:
        """Whether the answer is free text instead of an option."""
        return not self.options

    def option(self, letter: str) -> str:
        """The words of the option with this letter."""
        return self.options[self.letters.index(letter)]


@dataclass(frozen=True, slots=True)
class Item:
    """A question with its gold answer and its jointly necessary evidence set G."""

    question: Question
    answer: str
    """The letter of the right option."""
    evidence: tuple[Interval, ...]
    """Empty where a benchmark has no evidence: such an item can be scored for accuracy alone."""
    duration: float
    """Seconds of the source video, from the benchmark's metadata."""
    extra: Mapping[str, object] = field(default_factory=dict)
    """Keys of the bench file that this package does not know, kept as they were."""
