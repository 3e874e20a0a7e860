"""A question as a method may see it, and the answer that a method returns."""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.core.observation import Clip

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


class Termination(StrEnum):
    """Why a method stopped."""

    STABLE_PREFIX_FOUND = "stable-prefix-found"
    """The answer was stable as evidence grew, and a replay over the same clips agreed."""
    NO_STABLE_PREFIX = "no-stable-prefix"
    """A forced answer; sufficiency is not claimed."""
    SINGLE_PASS = "single-pass"
    """The method looks once and claims nothing about stopping."""
    SELF_REPORTED = "self-reported"
    """The model itself said that it had seen enough."""
    EXHAUSTED = "exhausted"
    """Rounds, steps or budget ran out, and the method answered from what it had."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method gives back for one question."""

    option: str | None
    """The letter of an option, or the words of an open answer. None is "no answer": scored wrong, never guessed."""
    termination: Termination = Termination.SINGLE_PASS
    bundle: tuple[Clip, ...] = ()
    """The raw clips that support the answer."""
    record: Mapping[str, object] = field(default_factory=dict)
    """The method's record of its search, ready for JSON; `trajectory` in a run file."""
