"""Reads a rendered prompt: what stands behind which label, and which reply is wanted.

For glance behind HTTP, where a call is text, pictures and the schema of the reply. Knows the words by which labels can
be told, and no template: what a prompt leaves out, or calls by another name, is not known here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_LABELS: Final = {
    "question": r"question",
    "options": r"options\b.*",
    "claims": r"claims\b.*|what has to be settled\b.*",
    "unmet_needs": r"unmet[_ ]needs\b.*|still open\b.*",
    "notes": r"notes\b.*",
    "anchors": r"anchors\b.*|spans that already gave evidence\b.*",
    "unexplored_segments": r"unexplored[_ ]segments\b.*",
    "trajectory": r"trajectory\b.*",
    "conflict_set": r"conflict[_ ]set\b.*",
    "budget_remaining": r"budget[_ ]remaining\b.*",
    "evidence": r"evidence\b.*",
    "segments": r"segments\b.*",
    "duration": r"length of the video\b.*",
    "captions": r"captions\b.*",
    "family": r"family of the questions\b.*",
    "actions": r"available actions\b.*",
    "summary": r"summary\b.*",
}
"""For each variable, how the label reads that stands before its value: it begins a line, and a colon follows it."""

_NUMBERS: Final = {
    "limit": r"\b(?:at most|up to) (\d+) (?:\w+ )?(?:claims?|candidates?|spans?)\b",
    "look_seconds": r"\bspan of up to (\d+(?:\.\d+)?) seconds can be searched\b",
    "duration": r"\bvideo(?: of)? \(?(\d+(?:\.\d+)?) seconds\b",
}
"""For each number that stands within a sentence, how it reads."""

_WORDS: Final = frozenset({"question", "summary", "actions"})
"""Variables that are words, over several lines at times. All others are JSON."""

_FORCED: Final = re.compile(r"\bnever null\b|\banswer is always given\b|\bdo not answer null\b")
"""How a prompt says that there must be an answer."""

_REPLIES: Final = (
    ("candidates", "temporal-proposal"),
    ("relevant", "anchor-extraction"),
    ("order", "anchor-prioritization"),
    ("facts_supported", "evidence-assembly"),
    ("target_anchors", "trajectory-reconciler"),
    ("load_mode", "avp-plan"),
    ("key_evidence", "avp-observe"),
    ("sufficient", "avp-reflect"),
    ("scores", "vca-reward"),
    ("segment", "vca-explore"),
    ("caption", "dense-caption"),
    ("items", "item-proposal"),
    ("same_as", "same-answer"),
    ("claims", "claims"),
)
"""Properties of a reply's schema, and the stage that wants such a reply. What wants only an answer has none of them."""

_ANSWERS: Final = (("evidence", "avp-answer"), ("summary", "gist-probe"))
"""Where an answer is wanted: what it is to be found in, besides frames."""

_LINE: Final = re.compile(r"(?![-*] |\d+\. )(?P<label>[^:{}\[\]]{1,160}): (?P<value>.*)", re.DOTALL)
"""A label and what follows it. In a list, what stands before a colon is a part of the reply and no label."""


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """What a prompt asks for."""

    stage: str
    variables: dict[str, Any]


def read_prompt(text: str, reply_properties: Collection[str]) -> ReadPrompt:
    """The stage and the variables of a rendered prompt, as far as its words and the wanted reply tell them."""
    variables = dict(_labelled(text))
    sentences = " ".join(text.split())
    for name, pattern in _NUMBERS.items():
        if name not in variables and (found := re.search(pattern, sentences)):
            variables[name] = json.loads(found[1])
    wanted = (stage for name, stage in _REPLIES if name in reply_properties)
    found_in = (stage for name, stage in _ANSWERS if name in variables)
    plain = "direct-answer" if _FORCED.search(sentences) else "final-answer-replay"
    return ReadPrompt(next(wanted, None) or next(found_in, plain), variables)


def _labelled(text: str) -> Iterator[tuple[str, Any]]:
    """Each variable with its value; where a label stands twice, the first value that can be read."""
    found: set[str] = set()
    lines = text.split("\n")
    for number, line in enumerate(lines):
        name, value = _variable(line)
        if name is None or name in found:
            continue
        if name in _WORDS:
            value = "\n".join([value, *_continuation(lines[number + 1 :])]).strip()
        elif name == "family":
            value = value.partition(".")[0]
        else:
            value = _json_at_start(value)
        if value is not None:
            found.add(name)
            yield name, value


def _variable(line: str) -> tuple[str | None, Any]:
    """The variable that a line begins with, and the rest of the line."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None, ""
    label = match["label"].strip().casefold()
    name = next((name for name, pattern in _LABELS.items() if re.fullmatch(pattern, label)), None)
    return name, match["value"]


def _continuation(lines: list[str]) -> Iterator[str]:
    """The lines up to the next label."""
    for line in lines:
        if _variable(line)[0] is not None:
            return
        yield line


def _json_at_start(text: str) -> Any:
    """The JSON value that a text begins with; None where there is none."""
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None
