"""The five stages by name, and the slots of an item in which their judgements stand."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trace_ves.core import Interval


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
GOLD_SLOT: Final = "gold"


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


def seat_slot(assignment: str, seat: int) -> str:
    """Where it stands who holds a seat of an assignment."""
    return f"seat/{assignment}/{seat}"


def skip_slot(who: str) -> str:
    """Where it stands why a person did not want to judge an item."""
    return f"skip/{who}"


@lru_cache(maxsize=1 << 16)
def assignment_key(stage: Stage, evidence: tuple[Interval, ...] = (), left_out: int | None = None) -> str:
    """An assignment of an item by name: a stage, and for leave-one-out the intervals and which of them is hidden."""
    if left_out is None:
        return stage.value
    edges = ",".join(f"{span.start:.3f}-{span.end:.3f}" for span in evidence)
    digest = hashlib.sha256(edges.encode()).hexdigest()[:12]
    return f"{stage.value}:{left_out}:{digest}"
