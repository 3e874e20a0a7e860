"""One colour for each method, wherever it is shown: on pages, in figures and in a terminal. TRACE is always blue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

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
TRACE_TERMINAL: Final = "bold #3d94d6"
"""TRACE's blue where the background may be black or white."""

_OWN: Final = {"trace": "blue", "avp": "orange", "vca": "purple"}
_SPARE: Final = ("green", "vermillion", "sky")
_PLAIN: Final = ("uniform-", "blind", "random")
"""Methods that others are compared with are grey."""


def method_colours(methods: Iterable[str]) -> dict[str, str]:
    """The name of a colour in `PALETTE` for each method; those without one of their own share what is left."""
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
