"""A question as a method may see it."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Final

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
