"""Parse a rendered prompt: the value after each label, and the stage.

For glance behind HTTP, where a call is text, pictures and the schema of the reply. It knows labels, not templates:
anything that a prompt leaves out or renames is lost.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any, Final

from trace_ves.twin.glance.parsed_question import ParsedQuestion, lexicon
from trace_ves.twin.glance.sightings import (
    GLIMPSED,
    Conduct,
    Moment,
    SeenClip,
    Visit,
    Visits,
    find_visits,
    moments_of,
    observe_conduct,
)

_LABELS: Final = {
    "question": r"question",
    "options": r"options\b.*",
    "claims": r"claims\b.*|what has to be settled\b.*",
    "unmet_needs": r"unmet[_ ]needs\b.*|still open\b.*",
    "notes": r"notes\b.*",
    "anchors": r"anchors\b.*|spans that already gave evidence\b.*",
    "unexplored_segments": r"unexplored[_ ]segments\b.*",
    "looks": r"looks\b.*",
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
"""The label of each variable; it starts a line and ends with a colon."""

_NUMBERS: Final = {
    "limit": r"\b(?:at most|up to) (\d+) (?:\w+ )?(?:claims?|candidates?|spans?)\b",
    "look_seconds": r"\botherwise up to (\d+(?:\.\d+)?) seconds\b",
    "duration": r"\bvideo(?: of)? \(?(\d+(?:\.\d+)?) seconds\b",
}
"""Numbers that appear within a sentence."""

_WORDS: Final = frozenset({"question", "summary", "actions"})
"""Variables that are plain text, possibly of several lines. All others are JSON."""

_FORCED: Final = re.compile(r"\bnever null\b|\banswer is always given\b|\balways answer\b|\bdo not answer null\b")
"""How a prompt requires an answer."""

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
"""The stage that a property of the reply's schema belongs to. A stage that wants only an answer has none of these."""

_ANSWERS: Final = (("evidence", "avp-answer"), ("summary", "gist-probe"))
"""Stages that want an answer, by what they show besides frames."""

_LINE: Final = re.compile(r"(?![-*] |\d+\. )(?P<label>[^:{}\[\]]{1,160}): (?P<value>.*)", re.DOTALL)
"""A label and its value. In a list, the text before a colon is part of the reply and not a label."""


def read_prompt(text: str, reply_properties: Collection[str]) -> tuple[str, dict[str, Any]]:
    """The stage and variables of a rendered prompt, from its text and the properties of the reply's schema."""
    variables = dict(_find_variables(text))
    sentences = " ".join(text.split())
    for name, pattern in _NUMBERS.items():
        if name not in variables and (match := re.search(pattern, sentences)):
            variables[name] = json.loads(match[1])
    by_reply = (stage for name, stage in _REPLIES if name in reply_properties)
    by_variable = (stage for name, stage in _ANSWERS if name in variables)
    plain = "direct-answer" if _FORCED.search(sentences) else "final-answer-replay"
    return next(by_reply, None) or next(by_variable, plain), variables


def _find_variables(text: str) -> Iterator[tuple[str, Any]]:
    """Each variable with its value: the first that can be read, if a label occurs twice."""
    known: set[str] = set()
    lines = text.split("\n")
    for number, line in enumerate(lines):
        name, value = _match_label(line)
        if name is None or name in known:
            continue
        if name in _WORDS:
            rest = takewhile(lambda each: _match_label(each)[0] is None, lines[number + 1 :])
            value = "\n".join([value, *rest]).strip()
        elif name == "family":
            value = value.partition(".")[0]
        else:
            value = _json_at_start(value)
        if value is not None:
            known.add(name)
            yield name, value


def _match_label(line: str) -> tuple[str | None, Any]:
    """The variable that a line starts with, and the rest of the line."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None, ""
    label = match["label"].strip().casefold()
    name = next((name for name, pattern in _LABELS.items() if re.fullmatch(pattern, label)), None)
    return name, match["value"]


def _json_at_start(text: str) -> Any:
    """The JSON value at the start of a text; None if there is none."""
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class CallContext:
    """The input of a rule: a request and what its frames show."""

    asked: ParsedQuestion
    variables: Mapping[str, Any]  # The variables of the prompt
    clips: tuple[SeenClip, ...]
    sample: int = 0
    seed: int = 0

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """Everything seen in this call, in order of time; for a choice of scenes, the moments that show its subject."""
        moments = moments_of(self.clips)
        if not self.asked.among:
            return moments
        return tuple(m for m in moments if any(m.view.shows(name) for name in self.asked.among))

    @cached_property
    def conduct(self) -> dict[str, Conduct]:
        """What each thing did whose act is asked for."""
        return {name: observe_conduct(name, self.moments) for name in self.asked.acts}

    @cached_property
    def visits(self) -> Visits:
        """When each of the wanted names was seen in this call, doing what is asked for."""
        seen = find_visits(self.asked.wanted, self.moments)
        return seen | {name: self.conduct[name].doing(act) for name, act in self.asked.acts.items()}

    def glimpsed(self, name: str) -> tuple[Visit, ...]:
        """When this name was at least glimpsed; if its act is asked for, when it was unclear what it did."""
        if name in self.asked.acts:
            return self.conduct[name].unsettled
        return find_visits([name], self.moments, threshold=GLIMPSED)[name]

    def names_in(self, text: str) -> tuple[str, ...]:
        """The wanted names that a text mentions."""
        mentioned = lexicon().find(text)
        return tuple(name for name in self.asked.wanted if name in mentioned)
