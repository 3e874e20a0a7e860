"""Forced choices: the stages that want an answer and nothing else, from frames or from the words alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trace_ves.backbone.glance.judgement import guess

if TYPE_CHECKING:
    from trace_ves.backbone.glance.call_context import CallContext


def forced(context: CallContext) -> dict[str, Any]:
    """The same, where the reply must be an option: a draw among all of them if the question is not understood."""
    return {"answer": guess(context.asked, context.visits, sample=context.sample, forced=True)}


def answer(context: CallContext) -> dict[str, Any]:
    """The option most compatible with what the frames show; where none was given, they show nothing."""
    return {"answer": guess(context.asked, context.visits, sample=context.sample)}
