"""What a method gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.core.observation import Clip


class Termination(StrEnum):
    """How a method came to its end."""

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
    """The raw clips that the answer rests on."""
    record: Mapping[str, object] = field(default_factory=dict)
    """The method's own account of its search, ready for JSON; stands under `trajectory` in a run file."""
