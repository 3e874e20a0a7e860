"""Final answer replay: answer again from only the raw clips, in a call that returns only an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.agent.anchors import load_prompt
from trace_ves.agent.evidence_assembly import clips_of
from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.backbone.replies import answer_reply

if TYPE_CHECKING:
    from trace_ves.agent.anchors import Inquiry, PrefixBundle
    from trace_ves.agent.settings import TraceSettings
    from trace_ves.records.search import PrefixRecord

PROMPT: Final = load_prompt("final-answer-replay")


def replay(inquiry: Inquiry, bundle: PrefixBundle, _: PrefixRecord, settings: TraceSettings) -> str | None:
    """The answer from the clips of this bundle; None if the model gives none."""
    request = Request(PROMPT, inquiry.variables(), answer_reply(inquiry.question), clips=clips_of(bundle, settings))
    (reply,) = inquiry.observer.ask([request])
    return None if isinstance(reply, ModelFault) else reply.answer
