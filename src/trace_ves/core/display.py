"""The names and colours of methods and stages on pages, in figures and in a terminal.

TRACE is always blue. A stage of your own method needs no entry here; it is shown by its name.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

PALETTE: Final = {
    "blue": "#0072b2",
    "orange": "#d08a00",
    "purple": "#b45a8a",
    "green": "#009e73",
    "vermillion": "#d55e00",
    "sky": "#3d9fd6",
    "grey": "#6d747c",
}
"""Okabe and Ito's colours, some a little darker for white backgrounds; the CSS variables have these names."""
TRACE_TERMINAL: Final = "bold #3d94d6"  # TRACE's blue on black or white

_FIXED_COLOURS: Final = {"trace": "blue", "avp": "orange", "vca": "purple"}
_SPARE_COLOURS: Final = ("green", "vermillion", "sky")
_REFERENCE_METHODS: Final = ("uniform-", "blind", "random")  # These are grey


def method_colours(methods: Iterable[str]) -> dict[str, str]:
    """The name of a colour in `PALETTE` for each method; those without a fixed colour share the others."""
    names = list(dict.fromkeys(methods))
    colours = {name: _FIXED_COLOURS[name.lower()] for name in names if name.lower() in _FIXED_COLOURS}
    colours |= {name: "grey" for name in names if name.lower().startswith(_REFERENCE_METHODS)}
    others = [name for name in names if name not in colours]
    colours |= {name: _SPARE_COLOURS[number % len(_SPARE_COLOURS)] for number, name in enumerate(others)}
    return colours


def is_trace(run: str) -> bool:
    """Whether a run, named by its method or as `method@backbone`, is TRACE itself and not an ablation."""
    return run.partition("@")[0].lower() == "trace"


def count_words(number: int, noun: str) -> str:
    """A number with its noun: `1 clip`, `2 clips`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_words(size: int) -> str:
    """Format a number of bytes."""
    return f"{size / 10**9:.1f} GB" if size >= 10**9 else f"{size / 10**6:.1f} MB"


GLANCE_NOTICE: Final = (
    "glance is a small stand-in for a vision-language model: it recognises the things and scenes in the synthetic "
    "videos of trace-ves synth; it cannot recognise anything else."
)
"""What the embedded backbone can see."""

LAB_NOTICE: Final = (
    "lab is a simulation to test search policies: it does not look at pixels. It reads the contents of a twin, so the "
    "figures show how a method spends its frames, not how well a model sees."
)


def simulation_notes(backbones: Iterable[str]) -> str:
    """The note next to results with these backbones; empty if none is a simulation."""
    return LAB_NOTICE if any(backbone.partition(":")[0] == "lab" for backbone in backbones) else ""


@dataclass(frozen=True, slots=True)
class CallStage:
    """One kind of call to the backbone, as users see it."""

    name: str  # Its prompt, its calls in a log and its rule in glance have the same name
    title: str
    purpose: str  # A clause
    activity: str  # For progress displays
    colour: str | None = None  # Of its frames on a page; None for a stage without frames


STAGES: Final = {
    name: CallStage(name, re.sub("^(avp|vca)-", "", name).replace("-", " "), purpose, activity, colour)
    for name, purpose, activity, colour in (
        ("claims", "what has to be settled, from the text only", "listing what has to be settled", None),
        (
            "temporal-proposal",
            "where to look, from the storyboard",
            "looking over the video for places to search",
            "sky",
        ),
        ("anchor-extraction", "a closer look at each candidate", "looking closely", "orange"),
        ("anchor-prioritization", "one frame of each anchor, to order them", "ordering the clips", "purple"),
        ("evidence-assembly", "each growing bundle, read on its own", "reading the growing bundle of clips", "blue"),
        ("trajectory-reconciler", "stop, drop, refine or expand", "deciding what to do next", None),
        (
            "final-answer-replay",
            "the answer again, from the raw clips",
            "answering again from the raw clips",
            "vermillion",
        ),
        (
            "forced-answer",
            "the best option if no prefix was stable",
            "choosing the best-supported answer",
            "vermillion",
        ),
        ("same-answer", "do two wordings of an open answer mean the same?", "comparing the wording of answers", None),
        ("direct-answer", "one call over all frames", "answering", "blue"),
        ("avp-plan", "what to observe next", "planning what to watch", None),
        ("avp-observe", "the regions of the plan", "watching what the plan names", "orange"),
        ("avp-reflect", "is the evidence enough?", "judging the evidence", None),
        ("avp-answer", "from the text of the evidence", "answering from the evidence", None),
        ("vca-reward", "how relevant is each new segment?", "rating segments", "orange"),
        ("vca-explore", "the memory of frames; explore or answer", "choosing a segment to explore", "blue"),
        ("vca-answer", "from the memory of frames", "answering from the stored frames", "vermillion"),
    )
}
"""The stages of the package's methods."""

_SPARE_STAGE_COLOURS: Final = ("sky", "orange", "purple", "blue", "vermillion", "grey")


def describe_stage(name: str) -> CallStage:
    """The stage of this name; for a stage of another method, only its name is known."""
    return STAGES.get(name) or CallStage(name, name, "", name)


def colour_stages(names: Sequence[str]) -> dict[str, str]:
    """A colour for each of these stages: fixed for ours, and the remaining colours in turn for others."""
    colours = {name: colour for name in names if (colour := describe_stage(name).colour)}
    spare = [colour for colour in _SPARE_STAGE_COLOURS if colour not in colours.values()] or list(_SPARE_STAGE_COLOURS)
    for number, name in enumerate(name for name in names if name not in colours):
        colours[name] = spare[number % len(spare)]
    return colours
