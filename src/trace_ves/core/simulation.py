"""Backbones that simulate looking, and the sentence that stands wherever their results are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

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
