"""What a question and its options ask for, by rules: an order, a count, a choice, or something else."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final

from trace_ves.core.question import ASKS_FOR_COUNT, parse_count


class Kind(StrEnum):
    """The kinds of questions that the rules understand."""

    ORDER = "order"  # all options name the same things in different orders
    COUNT = "count"  # a number of visits of one thing
    CHOICE = "choice"  # every option names a different thing or scene
    UNKNOWN = "unknown"  # about nothing that these eyes can see


class Pick(StrEnum):
    """Which of the seen things a choice asks for."""

    ONLY = "only"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question and what it asks for."""

    question: str
    options: Mapping[str, str]  # from letters to words; empty for an open question
    kind: Kind
    wanted: tuple[str, ...] = ()  # names of the things that must be seen
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # for an order: the names of each option
    numbers: Mapping[str, int] = field(default_factory=dict)  # for a count: the number in each option
    choices: Mapping[str, str] = field(default_factory=dict)  # for a choice: the name in each option that has one
    pick: Pick = Pick.ONLY
    among: tuple[str, ...] = ()  # for a choice between scenes: only frames with one of these things count
    acts: Mapping[str, str] = field(default_factory=dict)  # the act of each wanted name whose act is asked for


_READING: Final = re.compile(
    r"\b(?:words?|reads?|written|writing|text|signs?|captions?|subtitles?|labels?|titles?|logos?|spells?|spelt)\b",
    re.IGNORECASE,
)
_PICKS: Final = ((Pick.FIRST, re.compile(r"\bfirst\b|\bearliest\b")), (Pick.LAST, re.compile(r"\blast\b|\blatest\b")))
_NEGATED: Final = re.compile(r"\bnot\b|n't\b|\bexcept\b", re.IGNORECASE)
_LEGEND: Final = re.compile(r"(?:^|[\s(;,])([A-Za-z]|\d{1,2})[).:]\s+(.+?)(?=[;\n]|\s\(?(?:[A-Za-z]|\d{1,2})[).:]\s|$)")


def understand(question: str, options: Mapping[str, str]) -> ParsedQuestion:
    """Parse a question with the first rule that fits."""
    for rule in (_order, _count, _choice):
        if asked := rule(question, options):
            return asked
    return ParsedQuestion(question, options, Kind.UNKNOWN)


def _order(question: str, options: Mapping[str, str]) -> ParsedQuestion | None:
    """Options that are orders of the same two or more things; the question may define labels for them."""
    legend = dict(_LEGEND.findall(question))
    orders = {letter: lexicon().find_things(_expand_labels(words, legend)) for letter, words in options.items()}
    first = next(iter(orders.values()), ())
    if (
        len(first) < 2
        or len(set(orders.values())) < 2
        or any(sorted(order) != sorted(first) for order in orders.values())
    ):
        return None
    acts = lexicon().find_acts(question, first)
    return ParsedQuestion(question, options, Kind.ORDER, tuple(sorted(first)), orders=orders, acts=acts)


def _expand_labels(option: str, legend: Mapping[str, str]) -> str:
    labels = re.findall(r"\b(?:[A-Za-z]|\d{1,2})\b", option)
    if legend and labels and all(label in legend for label in labels) and not re.search(r"[^\W\d]{2,}", option):
        return "; ".join(legend[label] for label in labels)
    return option


def _count(question: str, options: Mapping[str, str]) -> ParsedQuestion | None:
    """The number of times that the first thing in the question is seen."""
    things = lexicon().find_things(question)
    numbers = {letter: number for letter, words in options.items() if (number := parse_count(words)) is not None}
    if not things or not ASKS_FOR_COUNT.search(question) or len(numbers) < len(options):
        return None
    acts = lexicon().find_acts(question, things[:1])
    return ParsedQuestion(question, options, Kind.COUNT, things[:1], numbers=numbers, acts=acts)


def _choice(question: str, options: Mapping[str, str]) -> ParsedQuestion | None:
    """Options that each name a thing or a scene. The eyes cannot read, so a question about text is not understood."""
    if _NEGATED.search(question) or _READING.search(question):
        return None
    pick = next((pick for pick, pattern in _PICKS if pattern.search(question.casefold())), Pick.ONLY)
    for find, among in ((lexicon().find_things, ()), (lexicon().find_scenes, lexicon().find_things(question))):
        named = {letter: names[0] for letter, words in options.items() if len(names := find(words)) == 1}
        if named and len(set(named.values())) == len(named):
            wanted = (*among, *named.values())
            return ParsedQuestion(question, options, Kind.CHOICE, wanted, choices=named, pick=pick, among=among)
    return None


@dataclass(frozen=True, slots=True)
class Thing:
    """A kind of thing that the eyes can name."""

    name: str
    homes: tuple[str, ...] = ()  # scenes where it is expected; empty if it may be anywhere
    look_for: str = "general"  # what a proposal says to look for: `general`, `fast-motion` or `small-object`


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Things and scenes by name, and the pattern that finds their phrases in a text."""

    things: Mapping[str, Thing]
    scenes: frozenset[str]
    names: Mapping[str, str]  # from a phrase to the name that it means; empty for something invisible
    pattern: re.Pattern[str]
    acts: Mapping[str, str] = field(default_factory=dict)  # from a phrase to the act that it means

    def thing(self, name: str) -> Thing:
        """What is known about this name; nothing if it is a scene."""
        return self.things.get(name, Thing(name))

    def find(self, text: str) -> tuple[str, ...]:
        """The names of the things and scenes in a text, in order of first mention."""
        names = (self.names[match[1]] for match in self.pattern.finditer(_normalize(text)))
        return tuple(dict.fromkeys(name for name in names if name))

    def find_things(self, text: str) -> tuple[str, ...]:
        """The names of the things in a text, without the scenes."""
        return tuple(name for name in self.find(text) if name in self.things)

    def find_acts(self, text: str, things: Iterable[str]) -> dict[str, str]:
        """What these things do: for each, the first act after it and before another thing."""
        plain = _normalize(text)
        named = [(match.start(), self.names[match[1]]) for match in self.pattern.finditer(plain)]
        every = [(m.start(), act) for phrase, act in self.acts.items() for m in re.finditer(re.escape(phrase), plain)]
        acts: dict[str, str] = {}
        current = ""
        for _, kind, name in sorted([(at, 0, name) for at, name in named] + [(at, 1, act) for at, act in every]):
            if kind == 0:
                current = name if name in self.things else current
            elif current:
                acts.setdefault(current, name)
        return {name: acts[name] for name in things if name in acts}

    def find_scenes(self, text: str) -> tuple[str, ...]:
        """The names of the scenes in a text."""
        return tuple(name for name in self.find(text) if name in self.scenes)


@cache
def lexicon() -> Lexicon:
    """The lexicon that ships with this package. Of overlapping phrases the longest counts: a bus stop is not a bus."""
    table = tomllib.loads((files(__package__) / "lexicon.toml").read_text(encoding="utf-8"))
    things = {name: Thing(name, tuple(entry["homes"]), entry["look_for"]) for name, entry in table["thing"].items()}
    names = dict.fromkeys((_normalize(phrase) for phrase in table["unseen"]), "")
    names |= {_normalize(scene): scene for scene in table["scenes"]}
    names |= {_normalize(word): name for name, entry in table["thing"].items() for word in entry["words"]}
    phrases = "|".join(re.escape(phrase) for phrase in sorted(names, key=len, reverse=True))
    pattern = re.compile(rf"(?<!\w)({phrases})(?:e?s)?(?!\w)")
    acts = {phrase: act for act, entry in table["act"].items() for phrase in entry["words"]}
    return Lexicon(things, frozenset(table["scenes"]), names, pattern, acts)


def _normalize(text: str) -> str:
    """Lower case, plain apostrophes and hyphens, single spaces."""
    text = re.sub("[\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}]", "'", text.casefold())
    return " ".join(re.sub("[\N{HYPHEN}\N{NON-BREAKING HYPHEN}]", "-", text).split())
