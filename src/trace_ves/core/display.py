"""How methods and stages are shown on pages, in figures and in a terminal: one name and one colour each.

TRACE is always blue. A stage of your own method needs no entry here: it is shown by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PALETTE: Final = {
    "blue": "#0072b2",
    "orange": "#d08a00",
    "purple": "#b45a8a",
    "green": "#009e73",
    "vermillion": "#d55e00",
    "sky": "#3d9fd6",
    "grey": "#6d747c",
}
"""Okabe and Ito's colours, some a little darker to stand out on white; the page has variables of these names."""
TRACE_TERMINAL: Final = "bold #3d94d6"  # TRACE's blue where the background may be black or white

_OWN: Final = {"trace": "blue", "avp": "orange", "vca": "purple"}
_SPARE: Final = ("green", "vermillion", "sky")
_PLAIN: Final = ("uniform-", "blind", "random")  # Methods that others are compared with are grey


def method_colours(methods: Iterable[str]) -> dict[str, str]:
    """The name of a colour in `PALETTE` for each method; those without a fixed one share what is left."""
    names = list(dict.fromkeys(methods))
    chosen = {name: _OWN[name.lower()] for name in names if name.lower() in _OWN}
    chosen |= {name: "grey" for name in names if name.lower().startswith(_PLAIN)}
    others = [name for name in names if name not in chosen]
    chosen |= {name: _SPARE[number % len(_SPARE)] for number, name in enumerate(others)}
    return chosen


def is_trace(run: str) -> bool:
    """Whether a run, named by its method or as `method@backbone`, is TRACE itself and no ablation of it."""
    return run.partition("@")[0].lower() == "trace"


GLANCE_NOTICE: Final = (
    "glance is a small stand-in for a vision-language model: it recognises the drawn things and scenes of the twin's "
    "videos (trace-ves synth); it cannot recognise anything else."
)
"""What the embedded backbone can and cannot see."""

SIMULATIONS: Final = {
    "lab": (
        "lab is a simulation for policy work: no pixel was looked at. Simulated eyes saw the true world of a twin, and "
        "the figures say how a method spends its frames, not how well anything sees."
    )
}
"""What to say of each simulation, by the first word of its spec."""


def simulation_notes(backbones: Iterable[str]) -> str:
    """What must be said beside results with these backbones; empty where none of them is a simulation."""
    schemes = dict.fromkeys(backbone.partition(":")[0] for backbone in backbones)
    return " ".join(SIMULATIONS[scheme] for scheme in schemes if scheme in SIMULATIONS)


@dataclass(frozen=True, slots=True)
class CallStage:
    """One kind of call to the backbone, as it is shown to people."""

    name: str
    """Names its prompt, its calls in a log and its rule in an embedded backbone."""
    title: str
    """A heading."""
    purpose: str
    """What it is for, in a clause."""
    doing: str
    """What happens while it runs, for progress displays."""
    colour: str | None = None
    """The colour of its frames on a page; None for a stage of words alone."""


_STAGES: Final = (
    CallStage(
        "claims",
        "claims",
        "what has to be settled, from the words alone",
        "listing what has to be settled",
    ),
    CallStage(
        "temporal-proposal",
        "temporal proposal",
        "where to look, from the storyboard",
        "looking over the whole video for places to search",
        "sky",
    ),
    CallStage(
        "anchor-extraction",
        "anchor extraction",
        "a closer look at each candidate",
        "looking closely",
        "orange",
    ),
    CallStage(
        "anchor-prioritization",
        "anchor prioritization",
        "one frame of each anchor, to order them",
        "ordering the clips",
        "purple",
    ),
    CallStage(
        "evidence-assembly",
        "evidence assembly",
        "each growing bundle, read on its own",
        "reading the growing bundle of clips",
        "blue",
    ),
    CallStage(
        "trajectory-reconciler",
        "trajectory reconciler",
        "stop, drop, refine or expand",
        "deciding what to do next",
    ),
    CallStage(
        "final-answer-replay",
        "final answer replay",
        "the answer again, from the raw clips",
        "answering again from the raw clips",
        "vermillion",
    ),
    CallStage(
        "forced-answer",
        "forced answer",
        "the best-supported option, where no prefix was stable",
        "choosing the best-supported answer",
        "vermillion",
    ),
    CallStage(
        "same-answer",
        "same answer",
        "do two wordings of an open answer mean the same?",
        "comparing the wording of answers",
    ),
    CallStage("direct-answer", "direct answer", "one call over all frames", "answering", "blue"),
    CallStage("avp-plan", "plan", "what to observe next", "planning what to watch"),
    CallStage("avp-observe", "observe", "the regions of the plan", "watching what the plan names", "orange"),
    CallStage("avp-reflect", "reflect", "is the evidence enough?", "judging the evidence"),
    CallStage("avp-answer", "answer", "from the text of the evidence", "answering from the evidence"),
    CallStage("vca-reward", "reward", "how relevant is each new segment?", "rating segments", "orange"),
    CallStage(
        "vca-explore", "explore", "the memory of frames; explore or answer", "choosing a segment to explore", "blue"
    ),
    CallStage("vca-answer", "answer", "from the memory of frames", "answering from the frames kept", "vermillion"),
)

STAGES: Final = {stage.name: stage for stage in _STAGES}  # The stages of the package's methods by name

_SPARE_STAGE_COLOURS: Final = ("sky", "orange", "purple", "blue", "vermillion", "grey")


def describe_stage(name: str) -> CallStage:
    """The stage of this name; one that is not ours is described by its name alone."""
    return STAGES.get(name) or CallStage(name, name, "", name)


def colour_stages(names: Sequence[str]) -> dict[str, str]:
    """A colour for each of these stages: ours have their own, others take what is left, and start again at the end."""
    chosen = {name: colour for name in names if (colour := describe_stage(name).colour)}
    spare = [colour for colour in _SPARE_STAGE_COLOURS if colour not in chosen.values()] or list(_SPARE_STAGE_COLOURS)
    for number, name in enumerate(name for name in names if name not in chosen):
        chosen[name] = spare[number % len(spare)]
    return chosen
