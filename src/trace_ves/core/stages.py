"""Every kind of call that a method of this package makes: its name, its words and its colour, once.

A stage of somebody else's method needs no entry: it is shown by its own name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of call to the backbone, in the words that people read."""

    name: str
    """Names its prompt, its calls in a log and its rule in an embedded backbone."""
    title: str
    """A heading."""
    purpose: str
    """What it is for, in a clause."""
    doing: str
    """What is going on while it runs, for whoever waits."""
    colour: str | None = None
    """The colour of its frames on a page; None for a stage of words alone."""


_ALL: Final = (
    Stage(
        "claims",
        "claims",
        "what has to be settled, from the words alone",
        "listing what has to be settled",
    ),
    Stage(
        "temporal-proposal",
        "temporal proposal",
        "where to look, from the storyboard",
        "looking over the whole video for places to search",
        "sky",
    ),
    Stage(
        "anchor-extraction",
        "anchor extraction",
        "a closer look at each candidate",
        "looking closely",
        "orange",
    ),
    Stage(
        "anchor-prioritization",
        "anchor prioritization",
        "one frame of each anchor, to order them",
        "ordering the clips",
        "purple",
    ),
    Stage(
        "evidence-assembly",
        "evidence assembly",
        "each growing bundle, read on its own",
        "reading the growing bundle of clips",
        "blue",
    ),
    Stage(
        "trajectory-reconciler",
        "trajectory reconciler",
        "stop, drop, refine or expand",
        "deciding what to do next",
    ),
    Stage(
        "final-answer-replay",
        "final answer replay",
        "the answer once more, from the raw clips",
        "answering once more from the raw clips",
        "vermillion",
    ),
    Stage(
        "forced-answer",
        "forced answer",
        "the best-supported option, where no prefix was stable",
        "choosing the best-supported answer",
        "vermillion",
    ),
    Stage(
        "same-answer",
        "same answer",
        "do two wordings of an open answer mean the same?",
        "comparing the wording of answers",
    ),
    Stage("direct-answer", "direct answer", "one call over all frames", "answering", "blue"),
    Stage("avp-plan", "plan", "what to observe next", "planning what to watch"),
    Stage("avp-observe", "observe", "the regions of the plan", "watching what the plan names", "orange"),
    Stage("avp-reflect", "reflect", "is the evidence enough?", "judging the evidence"),
    Stage("avp-answer", "answer", "from the text of the evidence", "answering from the evidence"),
    Stage("vca-reward", "reward", "how relevant is each new segment?", "rating segments", "orange"),
    Stage("vca-explore", "explore", "the memory of frames; explore or answer", "choosing a segment to explore", "blue"),
    Stage("vca-answer", "answer", "from the memory of frames", "answering from the frames kept", "vermillion"),
)

STAGES: Final = {stage.name: stage for stage in _ALL}
"""The stages of the package's methods by name."""

_SPARE_COLOURS: Final = ("sky", "orange", "purple", "blue", "vermillion", "grey")


def describe(name: str) -> Stage:
    """The stage of this name; one that is not ours is described by its name alone."""
    return STAGES.get(name) or Stage(name, name, "", name)


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each of these stages: ours have their own, others take what is left, and start again at the end."""
    chosen = {name: colour for name in names if (colour := describe(name).colour)}
    spare = [colour for colour in _SPARE_COLOURS if colour not in chosen.values()] or list(_SPARE_COLOURS)
    for number, name in enumerate(name for name in names if name not in chosen):
        chosen[name] = spare[number % len(spare)]
    return chosen
