"""A question as a method may see it, and the answer that a method returns."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trace_ves.core.observation import Clip

LETTERS: Final = string.ascii_uppercase
MIN_OPTIONS: Final = 2
MAX_OPTIONS: Final = len(LETTERS)

TEMPORAL_ORDERING: Final = "temporal-ordering"
EVENT_COUNTING: Final = "event-counting"

ASKS_FOR_COUNT: Final = re.compile(r"\bhow (?:many|often)\b|\bnumber of\b|\bcount\b", re.IGNORECASE)
_COUNT: Final = re.compile(r"(?:exactly |only |at least )?(\d{1,4}|[a-z-]+)(?: times?)?\.?", re.IGNORECASE)
_COUNT_WORDS: Final = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "  # noqa: SIM905  shorter than a list
        "seventeen eighteen nineteen twenty".split()
    )
} | {"never": 0, "once": 1, "twice": 2}


def parse_count(words: str) -> int | None:
    """The number in words or digits; None if there is none."""
    match = _COUNT.fullmatch(words.strip())
    if match is None:
        return None
    return int(match[1]) if match[1].isdigit() else _COUNT_WORDS.get(match[1].lower())


@dataclass(frozen=True, slots=True)
class Question:
    """The part of a question that a method may see: not its answer, not its evidence."""

    id: str
    video: str
    text: str
    options: tuple[str, ...] = ()
    """Two to twenty-six options, lettered from A; empty for an open question."""
    family: str = ""
    """`temporal-ordering`, `event-counting`, or any other word."""

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters of the options; empty for an open question."""
        return tuple(LETTERS[: len(self.options)])

    @property
    def is_open(self) -> bool:
        """Whether the answer is free text instead of an option."""
        return not self.options

    def option(self, letter: str) -> str:
        """The text of the option with this letter."""
        return self.options[self.letters.index(letter)]


class Termination(StrEnum):
    """Why a method stopped."""

    STABLE_PREFIX_FOUND = "stable-prefix-found"
    """The answer was stable as evidence grew, and a replay over the same clips agreed."""
    NO_STABLE_PREFIX = "no-stable-prefix"
    """The answer was forced; the evidence may be insufficient."""
    SINGLE_PASS = "single-pass"
    """The method looks once."""
    SELF_REPORTED = "self-reported"
    """The model said that it had seen enough."""
    EXHAUSTED = "exhausted"
    """Rounds, steps or budget ran out."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method returns for one question."""

    option: str | None
    """The letter of an option, or the text of an open answer. None means no answer and is scored as wrong."""
    termination: Termination = Termination.SINGLE_PASS
    bundle: tuple[Clip, ...] = ()
    """The raw clips that support the answer."""
    record: Mapping[str, object] = field(default_factory=dict)
    """The method's record of its search, as JSON values; `trajectory` in a run file."""
