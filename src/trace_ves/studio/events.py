"""What happens in a search, as a browser hears of it: plain JSON, made from the observer's typed events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.agent.evidence_assembly import AssemblyReply
from trace_ves.backbone.protocol import ModelFault
from trace_ves.backbone.replies import AnswerReply
from trace_ves.core.stages import describe
from trace_ves.observer import UNLIMITED, CallAnswered, Decided, ReplyRejected, RoundStarted, StageStarted
from trace_ves.web.trace_story import decision_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trace_ves.core import Interval
    from trace_ves.observer import Progress

MOST_FRAMES: Final = 600
"""Frames that one event names; a page shows no more."""
LONGEST_TEXT: Final = 2000
Json = dict[str, object]


def event_of(progress: Progress) -> Json:
    """An event of a search, with how far the budget was spent."""
    budget = None if progress.budget >= UNLIMITED else progress.budget
    return {"supplied": progress.frames_supplied, "budget": budget, **_what(progress)}


def _what(progress: Progress) -> Json:
    match progress.event:
        case RoundStarted(number=number):
            return {"kind": "round", "number": number}
        case StageStarted(stage=stage, spans=spans, timestamps=timestamps):
            about = describe(stage)
            return {
                "kind": "stage",
                "stage": stage,
                "title": about.title,
                "doing": about.doing,
                "colour": about.colour or "grey",
                "spans": _pairs(dict.fromkeys(spans)),
                "frames": list(timestamps[:MOST_FRAMES]),
            }
        case CallAnswered() as answered:
            return _answered(answered)
        case Decided(action=action, decision=decision):
            words = decision_text(decision) if decision is not None else ""
            refused = [text[:LONGEST_TEXT] for text in decision.refused] if decision is not None else []
            return {"kind": "decided", "action": action or "END", "words": words, "refused": refused}
        case ReplyRejected(stage=stage, reason=reason, raw=raw):
            return {
                "kind": "rejected",
                "title": describe(stage).title,
                "reason": reason[:LONGEST_TEXT],
                "raw": raw[:LONGEST_TEXT],
            }


def _answered(event: CallAnswered) -> Json:
    """What a call came to; for a bundle and for a replay, also what the model made of it."""
    call, reply = event.call, event.reply
    found: Json = {
        "kind": "answered",
        "stage": call.stage,
        "title": describe(call.stage).title,
        "frames": len(call.timestamps),
        "seconds": round(call.seconds, 3),
        "spans": _pairs(event.spans),
        "fault": isinstance(reply, ModelFault),
    }
    if isinstance(reply, AssemblyReply):
        moments = sorted(call.timestamps)
        found["bundle"] = {
            "status": reply.status.value,
            "answer": reply.answer,
            "open": len(reply.unmet_needs),
            "facts": len(reply.facts_supported),
            "pictures": [_middle(span, moments) for span in event.spans],
        }
    elif isinstance(reply, AnswerReply):
        found["answer"] = reply.answer
    return found


def _middle(span: Interval, moments: Iterable[float]) -> float:
    """The frame of a clip that stands for it: the one nearest to its middle."""
    centre = (span.start + span.end) / 2
    return min((moment for moment in moments if moment in span), key=lambda at: abs(at - centre), default=centre)


def _pairs(spans: Iterable[Interval]) -> list[list[float]]:
    return [[span.start, span.end] for span in spans]
