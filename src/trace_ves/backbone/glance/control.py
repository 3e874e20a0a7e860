"""The rules of `trajectory-reconciler`: DROP what only unsettles, REFINE what added nothing, else EXPAND.

Reads the trajectory as text; no frame reaches this stage.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.glance.parsed_question import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.backbone.glance.call_context import CallContext

CLOSER_LOOK: Final = "raise-frame-rate"
REFINE_FRAMES: Final = 40
"""A closer look needs so many frames of the budget: up to 16 to look, and as many again to read what it gives."""


def control(context: CallContext) -> dict[str, Any]:
    """The decision rules of the prompt, in their order."""
    trajectory = context.variables["trajectory"]
    idle = _idle_anchors(trajectory)
    if drop := [name for name in context.variables["conflict_set"] if name in idle]:
        return {"action": "DROP", "target_anchors": drop}
    if "EXPAND" not in str(context.variables["actions"]):
        again = idle or [str(anchor["anchor"]) for anchor in context.variables["anchors"]]
        return {"action": "REFINE", "target_anchors": again, "observation_strategy": CLOSER_LOOK}
    needs_look = context.asked.kind is Kind.ORDER and context.variables["unmet_needs"] and idle
    if needs_look and int(context.variables["budget_remaining"]) >= REFINE_FRAMES:
        return {"action": "REFINE", "target_anchors": idle, "observation_strategy": CLOSER_LOOK}
    segments = sorted(context.variables["unexplored_segments"], key=lambda piece: (-piece["seconds"], piece["start"]))
    spans = [[piece["start"], piece["end"]] for piece in segments[: int(context.variables["limit"])]]
    return {"action": "EXPAND", "target_intervals": sorted(spans)}


def _idle_anchors(trajectory: list[Mapping[str, Any]]) -> list[str]:
    """Anchors whose addition settled no claim and changed no count: no other anchor would miss their evidence."""
    before: Mapping[str, Any] = {"prefix_id": "", "facts_supported": {}}
    return [
        str(after["prefix_id"]).rpartition("+")[2]
        for earlier, after in pairwise([before, *trajectory])
        if _news(earlier["facts_supported"], after["facts_supported"]) == 0
    ]


def _news(before: Mapping[str, str], after: Mapping[str, str]) -> int:
    """Claims newly settled, and counts that grew."""
    counted = (claim for claim in before if before[claim].startswith("at least") and after.get(claim) != before[claim])
    return len(after.keys() - before.keys()) + len(list(counted))
