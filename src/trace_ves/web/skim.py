"""The light keys of a run line. Our own lines have them first: there reading ends where the heavy ones begin.

Parsing every line of a long run whole takes seconds; a list of its questions needs a tenth of each line.
"""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

from trace_ves.core.jsonl import parse_object

HEAVY_KEYS: Final = frozenset({"observations", "trajectory", "bundle", "usage"})
WANTED_KEYS: Final = frozenset({"question_id", "answer", "timestamps", "frames_supplied", "termination"})
"""A line that has not shown all of these before its first heavy key is read whole."""
SUSPICIOUS: Final = ('"error"', '"question_id"')
"""Where one of these stands in the rest of a line, the line is read whole: it failed, or two lines were glued."""

_SPACE: Final = re.compile(r"[ \t\r\n]*")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that JSON knows")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)


def skim(raw: bytes) -> dict[str, object]:
    """The object of a line without its heavy values; what is no object is a `ValueError`.

    Damage inside a heavy value may go unseen here; it is found when the line is read whole.
    """
    try:
        text = raw.decode("utf-8")
        found, at = _head(text)
        if (
            found.keys() >= WANTED_KEYS
            and text.rstrip().endswith("}")
            and not any(text.find(word, at) >= 0 for word in SUSPICIOUS)
        ):
            return found
    except (ValueError, IndexError, RecursionError):
        pass  # the strict reading says what is wrong
    record = parse_object(raw)
    return {key: value for key, value in record.items() if key not in HEAVY_KEYS}


def _head(text: str) -> tuple[dict[str, object], int]:
    """The keys up to the first heavy one, and where that one begins."""
    found: dict[str, object] = {}
    at = _expect(text, _space(text, 0), "{")
    while text[at] != "}":
        key, end = _DECODER.raw_decode(text, at)
        if not isinstance(key, str) or key in found:
            raise ValueError("a key is no string, or stands twice")
        if key in HEAVY_KEYS:
            break
        found[key], at = _DECODER.raw_decode(text, _expect(text, _space(text, end), ":"))
        at = _space(text, at)
        if text[at] == ",":
            at = _space(text, at + 1)
        elif text[at] != "}":
            raise ValueError("no comma between two keys")
    return found, at


def _space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _expect(text: str, at: int, character: str) -> int:
    if text[at] != character:
        raise ValueError(f"expected {character}")
    return _space(text, at + 1)
