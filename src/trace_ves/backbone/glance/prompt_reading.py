"""Reads a rendered prompt: what stands behind which label, and which reply is wanted.

For glance behind HTTP, where a call is text, pictures and the schema of the reply. Knows the words by which labels can
be told, and no template: what a prompt leaves out, or calls by another name, is not known here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
    "summary": r"summary\b.*",
    "actions": r"available actions",
}
"""For each variable, how the label reads that stands before its value: it begins a line, and a colon follows it."""

_NUMBERS: Final = {
    "limit": r"\b(?:at most|up to) (\d+) (?:\w+ )?(?:claims?|candidates?|spans?)\b",
    "duration": r"\bvideo(?: of)? \(?(\d+(?:\.\d+)?) seconds\b",
    "look_seconds": r"\bspan of up to (\d+(?:\.\d+)?) seconds\b",
}
"""For each number that stands within a sentence, how it reads."""

_WORDS: Final = frozenset({"question", "summary", "actions"})
"""Variables that are words, over several lines at times. All others are JSON."""

_REPLIES: Final = (
    ("relevant", "anchor-extraction"),
    ("claims", "claims"),
    ("candidates", "temporal-proposal"),
    ("order", "anchor-prioritization"),
    ("facts_supported", "evidence-assembly"),
    ("target_anchors", "trajectory-reconciler"),
    ("load_mode", "avp-plan"),
    ("key_evidence", "avp-observe"),
    ("sufficient", "avp-reflect"),
    ("same_as", "same-answer"),
    ("scores", "vca-reward"),
    ("segment", "vca-explore"),
    ("caption", "dense-caption"),
    ("items", "item-proposal"),
)
"""Properties of a reply's schema, and the stage that wants such a reply. What wants only an answer has none of them."""

_ANSWERS: Final = (("evidence", "avp-answer"), ("summary", "gist-probe"))
"""Where an answer is wanted: what it is to be found in, besides frames."""

_LINE: Final = re.compile(r"(?:[-*] |\d+\. )?(?P<label>[^:{}\[\]]{1,160}): (?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """What a prompt asks for."""

    stage: str
    variables: dict[str, Any]


def read_prompt(text: str, reply_properties: Collection[str]) -> ReadPrompt:
    """The stage and the variables of a rendered prompt, as far as its words and the wanted reply tell them."""
    variables = dict(_labelled(text))
    for name, pattern in _NUMBERS.items():
        if name not in variables and (found := re.search(pattern, text)):
            variables[name] = json.loads(found[1])
    wanted = (stage for name, stage in _REPLIES if name in reply_properties)
    answer = (stage for name, stage in _ANSWERS if name in variables)
    plain = "final-answer-replay" if _may_be_null(reply_properties) else "direct-answer"
    return ReadPrompt(next(wanted, None) or next(answer, plain), variables)


def _may_be_null(reply_properties: Collection[str]) -> bool:
    """Whether the answer's schema allows null: then no answer is forced."""
    schema = reply_properties.get("answer") if isinstance(reply_properties, Mapping) else None
    kinds = schema.get("anyOf", [schema]) if isinstance(schema, dict) else []
    return any(isinstance(kind, dict) and kind.get("type") in ("null", ["string", "null"]) for kind in kinds)


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
    """The JSON value that a text begins with; for a bare word, the word; None where there is neither."""
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        word = re.match(r"[\w-]+", text)
        return word[0] if word else None
