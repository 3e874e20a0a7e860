"""The closed list of claims that every record of a question is written in.

Made once, from the question and options alone, before any frame is seen: by rule where the options are permutations or
numbers, otherwise by one call of text alone. So records of independent calls can be compared by rule.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.backbone.replies import question_variables
from trace_ves.records.trace import Claim, ClaimKind

if TYPE_CHECKING:
    from trace_ves.core import Question
    from trace_ves.observer import Observer

PROMPT: Final = Prompt.load(resources.files("trace_ves.agent") / "prompts", "claims")
MAX_CLAIMS: Final = 6

WHOLE_ANSWER: Final = (Claim("answer", "what the clips show that decides between the answers"),)
"""The list where the model could not make one: a single claim, open until the clips decide the question."""

_SEPARATOR: Final = re.compile(r"\s*(?:→|⇒|[-=]+>|>|;|,|\b(?:and )?then\b|\bfollowed by\b)\s*", re.IGNORECASE)
_LABEL: Final = re.compile(r"\(?([A-Za-z]|\d{1,2})\)?")
_NUMBER: Final = re.compile(r"(?:exactly |only )?(\d{1,4}|[a-z-]+)(?: times?)?\.?", re.IGNORECASE)
_NUMBER_WORDS: Final = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "  # noqa: SIM905  a list would be a page
    "eighteen nineteen twenty once twice".split()
)


class ClaimReply(BaseModel):
    """One claim as the model proposes it."""

    model_config = ConfigDict(extra="ignore")

    claim: str = Field(min_length=1, max_length=200)
    kind: Literal["time", "count", "fact"] = "fact"


class ClaimsReply(BaseModel):
    """What must be known to tell the answers apart."""

    model_config = ConfigDict(extra="ignore")

    claims: list[ClaimReply] = Field(min_length=1, max_length=MAX_CLAIMS)


def make_claims(question: Question, observer: Observer) -> tuple[Claim, ...]:
    """The closed list of claims of a question."""
    if claims := ordering_claims(question) or counting_claims(question):
        return claims
    request = Request(PROMPT, question_variables(question) | {"limit": MAX_CLAIMS}, ClaimsReply)
    (reply,) = observer.ask([request])
    if isinstance(reply, ModelFault):
        return WHOLE_ANSWER
    kinds = {entry.claim: ClaimKind(entry.kind) for entry in reply.claims}  # said twice, it is one claim
    return tuple(Claim(f"c{n}", text, kind) for n, (text, kind) in enumerate(kinds.items(), 1))


def ordering_claims(question: Question) -> tuple[Claim, ...]:
    """One claim of time for each event, where the options are permutations of the same events; else none."""
    orders = [_events(option) for option in question.options]
    if not orders or len(orders[0]) < 2 or len(set(orders[0])) < len(orders[0]):
        return ()
    if any(sorted(order) != sorted(orders[0]) for order in orders):
        return ()
    return tuple(
        Claim(f"event-{n}", f"when this happens: {_described(event, question.text)}", ClaimKind.TIME)
        for n, event in enumerate(sorted(orders[0]), 1)
    )


def counting_claims(question: Question) -> tuple[Claim, ...]:
    """The claims of a count, where the question asks for a number and every option is one; else none."""
    if not re.search(r"\bhow (?:many|often)\b|\bnumber of\b|\bcount\b", question.text, re.IGNORECASE):
        return ()
    if not question.options or any(not _is_number(option) for option in question.options):
        return ()
    return (
        Claim("count", "how many times it is seen in the clips", ClaimKind.COUNT),
        Claim("complete", "whether the clips hold every occurrence, so that none can be elsewhere in the video"),
    )


def _events(option: str) -> tuple[str, ...]:
    return tuple(part for part in (piece.strip(" .\"'") for piece in _SEPARATOR.split(option)) if part)


def _described(event: str, question: str) -> str:
    """The event itself, or, where it is only a label, what the question says that the label stands for."""
    if not (label := _LABEL.fullmatch(event)):
        return event
    name = re.escape(label[1])
    legend = re.search(
        rf"(?:^|[\s(;,]){name}[).:]\s*(.+?)(?=[;,\n]|\s\(?(?:[A-Za-z]|\d{{1,2}})[).:]\s|[?.]?$)", question
    )
    return f"{event} ({legend[1].strip(' .')})" if legend else event


def _is_number(option: str) -> bool:
    match = _NUMBER.fullmatch(option.strip())
    return match is not None and (match[1].isdigit() or match[1].lower() in _NUMBER_WORDS)
