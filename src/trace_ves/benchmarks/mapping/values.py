"""Values of foreign tables as values of a bench: times in any unit, options as lists, answers as letters."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final

from trace_ves.benchmarks.importing import bare_options, letter_of_index
from trace_ves.records.field_path import value_at
from trace_ves.records.record import FieldError, shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Mapping as Map

    from trace_ves.benchmarks.mapping.mapping_file import Mapping, Unit

    Row = Map[str, object]

SCALE: Final = {"seconds": 1.0, "milliseconds": 0.001, "minutes": 60.0}
_CLOCK: Final = re.compile(r"(?:(\d{1,4}):)?(\d{1,4}):(\d{1,2}(?:\.\d{1,9})?)")


def seconds(value: object, unit: Unit, fps: float | None, key: str) -> float:
    """A time of some unit in seconds."""
    if unit == "clock":
        match = _CLOCK.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            raise FieldError(f"{key!r} must be a time such as 1:05 or 0:01:05.2, found {shown(value)}")
        return 3600 * int(match[1] or 0) + 60 * int(match[2]) + float(match[3])
    found = number(value, key)
    return found / fps if unit == "frames" and fps else found * SCALE.get(unit, 1.0)


def number(value: object, key: str) -> float:
    """A finite number; tables of text have it as digits."""
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError
        found = float(value)
    except (ValueError, OverflowError):
        raise FieldError(f"{key!r} must be a number, found {shown(value)}") from None
    if not math.isfinite(found):
        raise FieldError(f"{key!r} must be a finite number, found {shown(value)}")
    return found


def frame_rate(mapping: Mapping, row: Row) -> float | None:
    """Frames in a second, where the mapping says so."""
    if not isinstance(mapping.fps, str):
        return mapping.fps
    rate = number(value_at(row, mapping.fps), mapping.fps)
    if rate <= 0:
        raise FieldError(f"{mapping.fps!r} must be more than 0, found {shown(rate)}")
    return rate


def intervals(mapping: Mapping, row: Row) -> list[list[float]]:
    """The evidence of one row, in seconds; a row without any has none."""
    fps = frame_rate(mapping, row) if mapping.evidence_unit == "frames" else None

    def pair(ends: tuple[object, object]) -> list[float]:
        return [seconds(end, mapping.evidence_unit, fps, mapping.evidence or "evidence") for end in ends]

    if mapping.evidence is None:
        if mapping.evidence_start is None or mapping.evidence_end is None:
            return []
        ends = value_at(row, mapping.evidence_start), value_at(row, mapping.evidence_end)
        return [] if all(end in (None, "") for end in ends) else [pair(ends)]
    value = from_json_text(value_at(row, mapping.evidence))
    if value in (None, "", []):
        return []
    single = isinstance(value, (str, dict)) or (isinstance(value, list) and not isinstance(value[0], (list, dict, str)))
    if isinstance(value, list) and len(value) == 2 and all(isinstance(end, str) for end in value):
        single = "-" not in value[0]  # two times, not two intervals
    return [pair(_ends(mapping, each)) for each in ([value] if single or not isinstance(value, list) else value)]


def _ends(mapping: Mapping, interval: object) -> tuple[object, object]:
    """The two ends of an interval in any of its forms."""
    if isinstance(interval, dict):
        keys = (mapping.evidence_start or "start", mapping.evidence_end or "end")
        return value_at(interval, keys[0]), value_at(interval, keys[1])
    if isinstance(interval, str):
        first, dash, last = interval.partition("-")
        if dash:
            return first, last
    if isinstance(interval, list) and len(interval) == 2:
        return interval[0], interval[1]
    raise FieldError(f"an evidence interval needs a start and an end, found {shown(interval)}")


def option_list(mapping: Mapping, row: Row) -> object:
    """The options of a row without their letters."""
    if isinstance(mapping.options, tuple):
        found = [value_at(row, name) for name in mapping.options]
        return bare_options([_words(each) for each in found if each not in (None, "")])
    value = value_at(row, mapping.options or "options")
    if isinstance(value, str) and mapping.options_separator:
        value = [part.strip() for part in value.split(mapping.options_separator)]
    value = from_json_text(value)
    if isinstance(value, dict):  # {"A": "…", "B": "…"}
        value = [value[key] for key in sorted(value)]
    return bare_options([_words(each) for each in value]) if isinstance(value, list) else value


def _words(value: object) -> object:
    """A number as the words of an option; anything else as it is."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def letter(mapping: Mapping, row: Row, options: object) -> object:
    """The letter of the right option."""
    value = value_at(row, mapping.answer or "answer")
    if not isinstance(options, list):
        return value
    return _LETTERS[mapping.answer_is](value, options)


def _by_letter(value: object, options: list[object]) -> object:  # noqa: ARG001  one of the kinds
    match = re.fullmatch(r"\W*([A-Za-z])\W*", value) if isinstance(value, str) else None
    return match[1].upper() if match else value


def _by_text(value: object, options: list[object]) -> object:
    words = _words(value)
    if options.count(words) != 1:
        raise FieldError(f"the answer {shown(value)} is not exactly one of the options")
    return letter_of_index("answer", options.index(words), len(options))


def _by_place(first: int) -> Callable[[object, list[object]], object]:
    def at(value: object, options: list[object]) -> object:
        found = number(value, "answer")
        if not found.is_integer():
            raise FieldError(f"'answer' must be a whole number, found {shown(value)}")
        return letter_of_index("answer", int(found) - first, len(options))

    return at


_LETTERS: Final[Map[str, Callable[[object, list[object]], object]]] = {
    "letter": _by_letter,
    "index": _by_place(0),
    "number": _by_place(1),
    "text": _by_text,
}


def from_json_text(value: object) -> object:
    """A list or object that stands in a column of text; other text stays text."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        parsed: object = json.loads(value)
    except (ValueError, RecursionError):
        raise FieldError(f"expected a list, found the text {shown(value)}") from None
    return parsed
