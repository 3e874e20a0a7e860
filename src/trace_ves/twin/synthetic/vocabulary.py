"""The names in `vocabulary.toml` as values: events, look-alikes, props, scenes and the words for them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Sprite:
    """A kind of thing that moves: an event that questions are asked about, or a look-alike that never is."""

    name: str
    motion: str
    nouns: tuple[str, ...] = ()  # the words for it in questions; a look-alike has none
    homes: tuple[str, ...] = ()  # scenes where one expects it
    resembles: tuple[str, ...] = ()  # names of sprites that can be mistaken for it


@dataclass(frozen=True, slots=True)
class Prop:
    """A kind of thing in a scene that never moves."""

    name: str
    size_px: tuple[int, int]  # the least and the greatest length of its longer side, in a frame of 360 lines


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
class Tile:
    """Where the picture of a name comes from."""

    name: str
    glyph: str  # code point, in hexadecimal digits
    tint: str = ""  # degrees by which hues are turned, or "grey"; empty for the glyph as it is


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All names of the twin's world, in the order of the file."""

    events: Mapping[str, Sprite]
    lookalikes: Mapping[str, Sprite]
    props: Mapping[str, Prop]
    scenes: Mapping[str, Scene]
    actions: Mapping[str, tuple[tuple[str, str], ...]]  # of each motion: after "how often does it", and after "it"
    acts: Mapping[str, ActWords]  # for each act, its words
    tiles: tuple[Tile, ...]

    @property
    def sprites(self) -> dict[str, Sprite]:
        """Events and look-alikes: all that eyes must tell apart."""
        return {**self.events, **self.lookalikes}


@cache
def vocabulary() -> Vocabulary:
    """The vocabulary that ships with this package."""
    tables = tomllib.loads((files(__package__) / "vocabulary.toml").read_text(encoding="utf-8"))
    pictured = {**tables["event"], **tables["lookalike"], **tables["prop"]}
    return Vocabulary(
        events={name: _sprite(name, entry) for name, entry in tables["event"].items()},
        lookalikes={name: _sprite(name, entry) for name, entry in tables["lookalike"].items()},
        props={name: Prop(name, tuple(entry["size"])) for name, entry in tables["prop"].items()},
        scenes={
            name: Scene(name, tuple(entry["ground"]), tuple(entry["above"])) for name, entry in tables["scene"].items()
        },
        actions={name: _pairs(entry["actions"]) for name, entry in tables["motion"].items()},
        acts={name: ActWords(name, _pairs(entry["actions"]), entry["doing"]) for name, entry in tables["act"].items()},
        tiles=tuple(Tile(name, entry["glyph"], str(entry.get("tint", ""))) for name, entry in pictured.items()),
    )


def _pairs(entries: Iterable[Iterable[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((plain, third) for plain, third in entries)


def _sprite(name: str, entry: Mapping[str, list[str]]) -> Sprite:
    return Sprite(
        name,
        str(entry["motion"]),
        nouns=tuple(entry.get("nouns", ())),
        homes=tuple(entry.get("homes", ())),
        resembles=tuple(entry.get("resembles", ())),
    )


def with_article(noun: str) -> str:
    """The noun with "a" or "an" before it."""
    return f"{'an' if noun[0] in 'aeiou' and not noun.startswith('one') else 'a'} {noun}"
