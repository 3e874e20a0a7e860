"""API keys, and how they are masked, in whatever form, in everything that is shown or written."""

from __future__ import annotations

import base64
import json
import os
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MASK: Final = "[key]"

_LONGEST_MESSAGE: Final = 4_000  # servers that quote the whole request name what they refuse late
_LOOKS_LIKE_A_KEY: Final = re.compile(r"\b(?:sk-|AIza|ya29\.|Bearer )[\w*.\-]{6,}")
_KEY_VARIABLES: Final = ("_API_KEY", "_AUTH_TOKEN")
LONGEST_MASKED: Final = 400_000  # twice the longest reply that is read; what lies beyond is dropped
_FRAGMENT_CHARS: Final = 8  # of a key in a row are masked; fewer, such as the last four, do not give it away


@dataclass(frozen=True, slots=True)
class Key:
    """An API key. Its `repr` does not show it."""

    variable: str  # the environment variable it came from
    secret: str = field(repr=False)

    def redact(self, message: object) -> str:
        """A service's message as one line of bounded length, without the key and what looks like one."""
        return redact(self.mask(str(message)[:LONGEST_MASKED]))

    def mask(self, text: str) -> str:
        """The text with every trace of the key masked: plain, reversed, escaped, encoded, split, in part."""
        if len(self.secret) < _FRAGMENT_CHARS:  # a placeholder for a server that takes none
            return text
        return "".join(_mask_fragments(text.replace(self.secret, MASK), _fragments(self.secret)))


def mask_known_keys(text: str) -> str:
    """A text that is kept, without the keys set in this environment and without what looks like a key."""
    for variable, secret in os.environ.items():
        if variable.endswith(_KEY_VARIABLES):
            text = Key(variable, secret.strip()).mask(text)
    return _LOOKS_LIKE_A_KEY.sub(MASK, text)


def redact(message: object) -> str:
    """A service's message as one line of bounded length, without what looks like a key."""
    line = _LOOKS_LIKE_A_KEY.sub(MASK, " ".join(str(message).split()))
    return line if len(line) <= _LONGEST_MESSAGE else line[:_LONGEST_MESSAGE] + "…"


def _mask_fragments(text: str, fragments: frozenset[str]) -> Iterator[str]:
    """The text in pieces, a mask in place of each run of characters that fragments cover, and what lies between."""
    places, letters = _letters(text)
    covered: list[tuple[int, int]] = []
    for start in range(len(letters) - _FRAGMENT_CHARS + 1):
        if letters[start : start + _FRAGMENT_CHARS] in fragments:
            first, last = places[start], places[start + _FRAGMENT_CHARS - 1]
            if covered and first <= covered[-1][1] + 1:
                covered[-1] = covered[-1][0], last
            else:
                covered.append((first, last))
    end = 0
    for first, last in covered:
        yield text[end:first]
        yield MASK
        end = last + 1
    yield text[end:]


def _letters(text: str) -> tuple[list[int], str]:
    """The letters and digits of a text in lower case, with their places: without what splits or quotes."""
    found = [(place, char.lower()) for place, char in enumerate(text) if char.isascii() and char.isalnum()]
    return [place for place, _ in found], "".join(char for _, char in found)


@lru_cache(maxsize=16)
def _fragments(secret: str) -> frozenset[str]:
    """Every run of `_FRAGMENT_CHARS` letters and digits in any form of the secret."""
    forms = [_letters(form)[1] for form in _forms(secret)]
    return frozenset(
        form[start : start + _FRAGMENT_CHARS] for form in forms for start in range(len(form) - _FRAGMENT_CHARS + 1)
    )


def _forms(secret: str) -> Iterator[str]:
    """The ways in which a service may write a secret. Quotes, percent signs and line breaks do not matter here."""
    data = secret.encode()
    yield secret
    yield secret[::-1]
    for numeral in (
        "{:02x}",
        "x{:02x}",
        "{:d}",
        "{:03o}",
    ):  # \\x2b, &#x2b;, &#43;, \\053
        yield "".join(numeral.format(ord(char)) for char in secret)
        yield "".join(char if char.isascii() and char.isalnum() else numeral.format(ord(char)) for char in secret)
    for offset in range(5):  # base32 of something that the secret is a part of
        yield base64.b32encode(bytes(offset) + data).decode().rstrip("=")[-(-8 * offset // 5) : -1]
    yield data.hex()  # also where every character is percent-encoded
    yield json.dumps(secret)
    yield "".join(f"u{ord(char):04x}" for char in secret)
    for offset in range(3):  # base64 of something that the secret is a part of, such as user:secret
        encoded = base64.b64encode(bytes(offset) + data).decode()
        inner = slice(2 if offset else 0, len(encoded) - 4 if len(bytes(offset) + data) % 3 else None)
        yield encoded[inner][(2 if offset == 2 else 0) :]
