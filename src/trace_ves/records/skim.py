"""The light keys of a run line. Our own lines have them first: there reading ends where the heavy ones begin.

Parsing every line of a long run whole takes seconds; a list of its questions needs a tenth of each line.
"""

from __future__ import annotations

import re
from typing import Final

from trace_ves.core.jsonl import parse_object

HEAVY_KEYS: Final = frozenset({"observations", "trajectory", "bundle", "usage"})
WANTED_KEYS: Final = frozenset({"question_id", "answer", "timestamps", "frames_supplied", "termination"})
"""A line that has not shown all of these before its first heavy key is read whole."""
SUSPICIOUS: Final = (b'"error"', b'"question_id"')
"""Where one of these stands in the rest of a line, the line is read whole: it failed, or two lines were glued."""

_HEAVY: Final = re.compile(rb', ?"(?:' + b"|".join(key.encode() for key in sorted(HEAVY_KEYS)) + rb')":')
"""Inside a string its quotes would be escaped; inside a nested object, what stands before it is no whole object."""


def skim(raw: bytes) -> dict[str, object]:
    """The object of a line without its heavy values; what is no object is a `ValueError`.

    Damage inside a heavy value may go unseen here; it is found when the line is read whole.
    """
    heavy = _HEAVY.search(raw)
    if heavy and raw.rstrip().endswith(b"}") and not any(raw.find(word, heavy.start()) >= 0 for word in SUSPICIOUS):
        try:
            found = parse_object(raw[: heavy.start()] + b"}")
        except ValueError:
            found = {}  # the strict reading says what is wrong
        if found.keys() >= WANTED_KEYS:
            return {key: value for key, value in found.items() if key not in HEAVY_KEYS}
    record = parse_object(raw)
    return {key: value for key, value in record.items() if key not in HEAVY_KEYS}
