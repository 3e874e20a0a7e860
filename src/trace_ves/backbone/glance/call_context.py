"""One request as the rules see it: what is asked, what was seen in its frames, and the words that came with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trace_ves.backbone.glance.acts import conduct_of
from trace_ves.backbone.glance.sightings import GLIMPSED
from trace_ves.backbone.glance.visits import moments_of, visits_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.backbone.glance.acts import Conduct
    from trace_ves.backbone.glance.lexicon import Lexicon
    from trace_ves.backbone.glance.parsed_question import ParsedQuestion
    from trace_ves.backbone.glance.sightings import Moment, SeenClip
    from trace_ves.backbone.glance.visits import Visits


@dataclass(frozen=True)
class CallContext:
    """A request after looking. A rule sees this and nothing else."""

    asked: ParsedQuestion
    variables: Mapping[str, Any]
    """What filled the prompt."""
    clips: tuple[SeenClip, ...]
    lexicon: Lexicon
    sample: int = 0

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """Everything seen in this call, in order of time; for a choice of scenes, only where its subject is seen."""
        moments = moments_of(self.clips)
        if not self.asked.among:
            return moments
        return tuple(m for m in moments if any(m.view.shows(name) for name in self.asked.among))

    @cached_property
    def conduct(self) -> dict[str, Conduct]:
        """What each of those did whose acts are asked for."""
        return {name: conduct_of(name, self.moments) for name in self.asked.acts}

    @cached_property
    def visits(self) -> Visits:
        """When each of the wanted names was seen in this call, doing what is asked for."""
        seen = visits_of(self.asked.wanted, self.moments)
        return seen | {name: self.conduct[name].doing(act) for name, act in self.asked.acts.items()}

    def glimpsed(self, name: str) -> Visits:
        """When this name was at least glimpsed; where its act is asked for, when nothing told what it did."""
        if name in self.asked.acts:
            return {name: self.conduct[name].unsettled}
        return visits_of([name], self.moments, threshold=GLIMPSED)

    def names_in(self, text: str) -> tuple[str, ...]:
        """The wanted names that a text mentions, in words of the lexicon or as they stand on the screen."""
        mentioned = set(self.lexicon.find(text))
        written = {name for name in self.asked.written if name.casefold() in text.casefold()}
        return tuple(name for name in self.asked.wanted if name in mentioned | written)
