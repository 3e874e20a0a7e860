"""The claims of a question: a closed list, so that rules can compare the records of independent calls.

The list is made from the question and options before any frame is seen: by rule if the options are permutations or
numbers, otherwise by one text-only call.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, Field

from trace_ves.agent.anchors import load_prompt
from trace_ves.agent.reply_fields import LISTED, Words
from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.backbone.replies import question_variables, up_to
from trace_ves.core.question import ASKS_FOR_COUNT, parse_count
from trace_ves.records.search import Claim, ClaimKind

if TYPE_CHECKING:
    from trace_ves.core import Question
    from trace_ves.observer import Observer

PROMPT: Final = load_prompt("claims")
MAX_CLAIMS: Final = 6
MAX_VALUES: Final = 12

WHOLE_ANSWER: Final = (Claim("answer", "what the clips show that decides between the answers"),)
"""Used if the model lists no claims."""

COMPLETE: Final = Claim("complete", "whether every occurrence in the video has been found", ClaimKind.EXPLORED)
"""A claim of every count. Only exploration can settle it, not clips."""

_SEPARATOR: Final = re.compile(r"\s*(?:→|⇒|[-=]+>|>|;|,|\b(?:and )?then\b|\bfollowed by\b)\s*", re.IGNORECASE)
_LABEL: Final = re.compile(r"\(?([A-Za-z]|\d{1,2})\)?")


class ClaimReply(BaseModel):
    """One claim as the model proposes it."""

    claim: Annotated[str, up_to(200)] = Field(min_length=1)
    kind: Literal["time", "count", "fact"]
    values: Annotated[list[Annotated[Words, up_to(60)]], LISTED, up_to(MAX_VALUES)]
    """For a fact: all that it can be; empty for free words."""


class ClaimsReply(BaseModel):
    """What must be known to tell the answers apart."""

    claims: Annotated[list[ClaimReply], up_to(MAX_CLAIMS)] = Field(min_length=1)


def make_claims(question: Question, observer: Observer) -> tuple[Claim, ...]:
    """The claims of a question."""
    if claims := make_ordering_claims(question) or make_counting_claims(question):
        return claims
    request = Request(PROMPT, question_variables(question) | {"limit": MAX_CLAIMS}, ClaimsReply)
    (reply,) = observer.ask([request])
    if isinstance(reply, ModelFault):
        return WHOLE_ANSWER
    entries = {entry.claim: entry for entry in reply.claims}.values()  # duplicates count once
    claims = tuple(_make_claim(f"c{n}", entry) for n, entry in enumerate(entries, 1))
    return (*claims, COMPLETE) if any(claim.kind is ClaimKind.COUNT for claim in claims) else claims


def _make_claim(name: str, entry: ClaimReply) -> Claim:
    kind = ClaimKind(entry.kind)
    values = tuple(dict.fromkeys(value.strip() for value in entry.values if value.strip()))
    return Claim(name, entry.claim, kind, values if kind is ClaimKind.FACT and len(values) > 1 else ())


def make_ordering_claims(question: Question) -> tuple[Claim, ...]:
    """A time claim for each event if the options are permutations of the same events; else none."""
    pieces = [[piece.strip(" .\"'") for piece in _SEPARATOR.split(option)] for option in question.options]
    orders = [tuple(filter(None, order)) for order in pieces]
    if not orders or len(orders[0]) < 2 or len(set(orders[0])) < len(orders[0]):
        return ()
    if any(sorted(order) != sorted(orders[0]) for order in orders):
        return ()
    return tuple(
        Claim(f"event-{n}", f"when this happens: {_resolve_label(event, question.text)}", ClaimKind.TIME)
        for n, event in enumerate(sorted(orders[0]), 1)
    )


def make_counting_claims(question: Question) -> tuple[Claim, ...]:
    """The claims of a count if the question asks for a number and every option is a number; else none."""
    if not ASKS_FOR_COUNT.search(question.text):
        return ()
    if not question.options or any(parse_count(option) is None for option in question.options):
        return ()
    return (Claim("count", question.text, ClaimKind.COUNT), COMPLETE)


def _resolve_label(event: str, question: str) -> str:
    """The event; for a label such as B, with its meaning in the question."""
    if not (label := _LABEL.fullmatch(event)):
        return event
    name = re.escape(label[1])
    legend = re.search(
        rf"(?:^|[\s(;,]){name}[).:]\s*(.+?)(?=[;,\n]|\s\(?(?:[A-Za-z]|\d{{1,2}})[).:]\s|[?.]?$)", question
    )
    return f"{event} ({legend[1].strip(' .')})" if legend else event
