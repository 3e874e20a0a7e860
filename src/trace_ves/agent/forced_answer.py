"""The forced answer: the option that the clips at hand support best, where no prefix was stable. Never null."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.backbone.replies import answer_reply

if TYPE_CHECKING:
    from trace_ves.agent.records import Inquiry
    from trace_ves.core import Clip

PROMPT: Final = Prompt.load(resources.files("trace_ves.agent") / "prompts", "forced-answer")


def force_answer(inquiry: Inquiry, clips: tuple[Clip, ...]) -> str | None:
    """The answer that these clips make most likely; None only where the model's reply cannot be read."""
    request = Request(PROMPT, inquiry.variables(), answer_reply(inquiry.question, forced=True), clips=clips)
    (reply,) = inquiry.observer.ask([request])
    return None if isinstance(reply, ModelFault) else reply.answer
