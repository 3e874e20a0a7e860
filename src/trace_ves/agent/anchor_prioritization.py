"""Anchor Prioritization: the order in which anchors enter the evidence bundle. It gives no answer."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel

from trace_ves.agent.reply_fields import LISTED, Words
from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.backbone.replies import up_to
from trace_ves.core import Clip

if TYPE_CHECKING:
    from trace_ves.agent.anchors import Inquiry, PrefixBundle, VisualAnchor

PROMPT: Final = Prompt.load(resources.files("trace_ves.agent") / "prompts", "anchor-prioritization")


class PriorityReply(BaseModel):
    """Clip numbers, from 1, the one to be read first at the front."""

    seen: Annotated[list[Annotated[Words, up_to(300)]], LISTED, up_to(64)]
    """What each view shows, before they are compared."""
    order: Annotated[list[int], up_to(256)]


def prioritize(inquiry: Inquiry, anchors: PrefixBundle, needs: frozenset[str]) -> PrefixBundle:
    """Order the anchors by one view of each; those missing in the reply come last."""
    if len(anchors) < 2:
        return anchors
    views = tuple(_view(anchor) for anchor in anchors)
    variables = inquiry.variables(claims=inquiry.claim_variables(), unmet_needs=inquiry.open_claims(needs))
    (reply,) = inquiry.observer.ask([Request(PROMPT, variables, PriorityReply, clips=views)])
    if isinstance(reply, ModelFault):
        return anchors
    named = [number - 1 for number in dict.fromkeys(reply.order) if 1 <= number <= len(anchors)]
    rest = [index for index in range(len(anchors)) if index not in named]
    return tuple(anchors[index] for index in named + rest)


def _view(anchor: VisualAnchor) -> Clip:
    frames = anchor.clip.frames
    middle = frames[len(frames) // 2]
    return Clip(anchor.clip.span, anchor.clip.strategy, (middle,))
