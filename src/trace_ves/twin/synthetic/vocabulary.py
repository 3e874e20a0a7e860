"""The contents of `vocabulary.toml`: events, look-alikes, props, scenes and their words."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True)
class Sprite:
    """A kind of thing that moves: an event that questions ask about, or a look-alike."""

    name: str
    motion: str
    glyph: str  # of its picture: code point, in hexadecimal digits
    tint: str | int = ""  # degrees of hue rotation, or "grey"; empty for the original glyph
    nouns: tuple[str, ...] = ()  # its names in questions; empty for a look-alike
    homes: tuple[str, ...] = ()  # scenes where it is expected
    resembles: tuple[str, ...] = ()  # names of sprites that can be mistaken for it


@dataclass(frozen=True, slots=True)
class Prop:
    """A kind of thing in a scene that never moves."""

    name: str
    glyph: str
    size: tuple[int, int]  # range of its longer side in pixels, in a frame of 360 rows
    tint: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """A kind of place, and its props."""

    name: str
    ground: tuple[str, ...]
    above: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActWords:
    """The words for an act."""

    name: str
    actions: tuple[tuple[str, str], ...]  # pairs: after "how often does it", and after "it"
    doing: str  # before its noun, in an option


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All names of the twin's world, in the order of the file."""

    events: dict[str, Sprite]
    lookalikes: dict[str, Sprite]
    props: dict[str, Prop]
    scenes: dict[str, Scene]
    acts: dict[str, ActWords]

    @property
    def sprites(self) -> dict[str, Sprite]:
        """Events and look-alikes: everything that the eyes must distinguish."""
        return {**self.events, **self.lookalikes}


@cache
def vocabulary() -> Vocabulary:
    """The vocabulary that ships with this package."""
    tables = tomllib.loads((files(__package__) / "vocabulary.toml").read_text(encoding="utf-8"))
    named = {f"{kind}s": {n: {"name": n} | entry for n, entry in table.items()} for kind, table in tables.items()}
    return TypeAdapter(Vocabulary).validate_python(named)


def with_article(noun: str) -> str:
    """The noun with "a" or "an" before it."""
    return f"{'an' if noun[0] in 'aeiou' and not noun.startswith('one') else 'a'} {noun}"
