"""The five stages by name, and the slots of an item in which their judgements stand."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Stage(StrEnum):
    """The paper's stages, in their order."""

    PROPOSAL = "proposal"
    VERIFICATION = "visual-verification"
    LEAVE_ONE_OUT = "leave-one-out"
    SHORTCUT = "shortcut-probe"
    ADJUDICATION = "adjudication"


PROPOSAL_SLOT: Final = "proposal"
LANGUAGE_SLOT: Final = "shortcut/language-only"
GIST_SLOT: Final = "shortcut/gist"


def verification_slot(who: str) -> str:
    """Where a person's verdict on the intervals stands."""
    return f"verification/{who}"


def human_slot(who: str, left_out: int) -> str:
    """Where a person's answer without one interval stands."""
    return f"without/{who}/{left_out}"


def probe_slot(left_out: int) -> str:
    """Where the model's answers without one interval stand."""
    return f"probe/{left_out}"


def settlement_slot(kind: str) -> str:
    """Where the adjudicator's word on one kind of disagreement stands."""
    return f"settlement/{kind}"
