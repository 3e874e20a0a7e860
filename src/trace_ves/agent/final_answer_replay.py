"""Final answer replay and the forced answer. Both see only raw clips, and return only an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.agent.anchors import Inquiry, PrefixBundle, load_prompt
from trace_ves.agent.evidence_assembly import order_clips
from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.backbone.replies import answer_reply

if TYPE_CHECKING:
    from trace_ves.agent.settings import TraceSettings
    from trace_ves.core import Clip
    from trace_ves.records.search import PrefixRecord

PROMPT: Final = load_prompt("final-answer-replay")
FORCED_PROMPT: Final = load_prompt("forced-answer")


def replay(inquiry: Inquiry, bundle: PrefixBundle, _: PrefixRecord, settings: TraceSettings) -> str | None:
    """The answer from the clips of this bundle; None if the model gives none."""
    return answer_from_clips(inquiry, order_clips(bundle, settings))


def force(inquiry: Inquiry, bundle: PrefixBundle, _: PrefixRecord | None, settings: TraceSettings) -> str | None:
    """The most likely answer from the clips of the fallback prefix."""
    return answer_from_clips(inquiry, order_clips(bundle, settings), forced=True)


def answer_from_clips(inquiry: Inquiry, clips: tuple[Clip, ...], *, forced: bool = False) -> str | None:
    """The answer from these clips; a forced one is None only if the reply cannot be read."""
    prompt = FORCED_PROMPT if forced else PROMPT
    request = Request(prompt, inquiry.variables(), answer_reply(inquiry.question, forced=forced), clips=clips)
    (reply,) = inquiry.observer.ask([request])
    return None if isinstance(reply, ModelFault) else reply.answer
