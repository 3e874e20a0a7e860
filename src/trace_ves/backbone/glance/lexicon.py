"""The words glance understands: things and scenes by the phrases that name them in a question.

Read from `lexicon.toml`, which is written from the twin's vocabulary. Knows nothing of pixels.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Thing:
    """A kind of thing that the eyes can name."""

    name: str
    words: tuple[str, ...]
    homes: tuple[str, ...] = ()
    """Scenes where one expects it; none where it may be anywhere."""
    look_for: str = "general"
    """What a proposal says to look for: `general`, `fast-motion` or `small-object`."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Things and scenes by name, and the pattern that finds their phrases in a text."""

    things: Mapping[str, Thing]
    scenes: frozenset[str]
    names: Mapping[str, str]
    """From a phrase to the name of what it means; an empty name for a phrase that means nothing visible."""
    pattern: re.Pattern[str]
    acts: Mapping[str, str] = field(default_factory=dict)
    """From a phrase to the act that it means."""

    def find(self, text: str) -> tuple[str, ...]:
        """The names of the things and scenes in a text, in the order in which they are first named."""
        found = (self.names[match[1]] for match in self.pattern.finditer(_plain(text)))
        return tuple(dict.fromkeys(name for name in found if name))

    def find_things(self, text: str) -> tuple[str, ...]:
        """The names of the things in a text, without the scenes."""
        return tuple(name for name in self.find(text) if name in self.things)

    def find_acts(self, text: str, things: Iterable[str]) -> dict[str, str]:
        """What these things do: for each, the first act that is named behind it and before another thing."""
        plain = _plain(text)
        named = [(match.start(), self.names[match[1]]) for match in self.pattern.finditer(plain)]
        every = [(m.start(), act) for phrase, act in self.acts.items() for m in re.finditer(re.escape(phrase), plain)]
        found: dict[str, str] = {}
        current = ""
        for _, kind, name in sorted([(at, 0, name) for at, name in named] + [(at, 1, act) for at, act in every]):
            if kind == 0:
                current = name if name in self.things else current
            elif current:
                found.setdefault(current, name)
        return {name: found[name] for name in things if name in found}

    def find_scenes(self, text: str) -> tuple[str, ...]:
        """The names of the scenes in a text."""
        return tuple(name for name in self.find(text) if name in self.scenes)


@cache
def lexicon() -> Lexicon:
    """The lexicon that ships with this package."""
    table = tomllib.loads((files(__package__) / "lexicon.toml").read_text(encoding="utf-8"))
    things = {
        name: Thing(name, tuple(entry["words"]), tuple(entry["homes"]), entry["look_for"])
        for name, entry in table["thing"].items()
    }
    acts = {phrase: act for act, entry in table["act"].items() for phrase in entry["words"]}
    return make_lexicon(things.values(), scenes=table["scenes"], unseen=table["unseen"], acts=acts)


def make_lexicon(
    things: Iterable[Thing],
    *,
    scenes: Iterable[str] = (),
    unseen: Iterable[str] = (),
    acts: Mapping[str, str] | None = None,
) -> Lexicon:
    """A lexicon of these things and scenes. Where phrases overlap, the longest is meant: a bus stop is no bus."""
    by_name = {thing.name: thing for thing in things}
    places = frozenset(scenes)
    names = dict.fromkeys((_plain(phrase) for phrase in unseen), "")
    names |= {_plain(scene): scene for scene in places}
    names |= {_plain(word): name for name, thing in by_name.items() for word in thing.words}
    phrases = "|".join(re.escape(phrase) for phrase in sorted(names, key=len, reverse=True))
    return Lexicon(by_name, places, names, re.compile(rf"(?<!\w)({phrases})(?:e?s)?(?!\w)"), acts or {})


def _plain(text: str) -> str:
    """Lower context, plain apostrophes and hyphens, single spaces."""
    text = re.sub("[\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}]", "'", text.casefold())
    return " ".join(re.sub("[\N{HYPHEN}\N{NON-BREAKING HYPHEN}]", "-", text).split())
