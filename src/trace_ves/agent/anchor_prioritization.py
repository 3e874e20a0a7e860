"""Anchor Prioritization: the order in which anchors enter the evidence bundle. It gives no answer."""

from dataclasses import replace
from typing import Annotated, Final

from pydantic import BaseModel

from trace_ves.agent.anchors import Inquiry, PrefixBundle, load_prompt
from trace_ves.agent.reply_fields import LISTED, Words
from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.backbone.replies import up_to

PROMPT: Final = load_prompt("anchor-prioritization")


class PriorityReply(BaseModel):
    """Clip numbers, from 1, the one to be read first at the front."""

    seen: Annotated[list[Annotated[Words, up_to(300)]], LISTED, up_to(64)]
    """What each view shows, before they are compared."""
    order: Annotated[list[int], up_to(256)]


def prioritize(inquiry: Inquiry, anchors: PrefixBundle, needs: frozenset[str]) -> PrefixBundle:
    """Order the anchors by one frame of each; those missing in the reply come last."""
    clips = [anchor.clip for anchor in anchors]
    views = tuple(replace(clip, frames=(clip.frames[len(clip.frames) // 2],)) for clip in clips)
    variables = inquiry.variables(claims=inquiry.claim_variables(), unmet_needs=inquiry.open_claims(needs))
    (reply,) = inquiry.observer.ask([Request(PROMPT, variables, PriorityReply, clips=views)])
    if isinstance(reply, ModelFault):
        return anchors
    first = [number - 1 for number in dict.fromkeys(reply.order) if 1 <= number <= len(anchors)]
    rest = [index for index in range(len(anchors)) if index not in first]
    return tuple(anchors[index] for index in first + rest)
