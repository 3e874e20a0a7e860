"""Which story a run line tells: TRACE's, AVP's, VCA's, or, for any other, the method's own record as it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from trace_ves.records.avp import AvpRecord
from trace_ves.records.search import read_search
from trace_ves.records.trace import TraceRecord
from trace_ves.records.vca import VcaRecord
from trace_ves.web.trace_story import TraceStory

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_TEXT: Final = 4000
"""Characters of one string that a page shows."""
LONGEST_RECORD: Final = 20 * LONGEST_TEXT


@dataclass(frozen=True, slots=True)
class OwnRecord:
    """The record of a method that the page does not know, as JSON."""

    text: str

    kind: ClassVar[str] = "own"


Story = TraceStory | AvpRecord | VcaRecord | OwnRecord


def story_of(trajectory: Mapping[str, object]) -> Story | None:
    """The story in a `trajectory`, which may come from anybody; None where the method kept none."""
    if not trajectory:
        return None
    try:
        record = _shortened(trajectory)
        found = read_search(record)
        if isinstance(found, TraceRecord):
            return TraceStory.of(found)
        return found or OwnRecord(_cut(json.dumps(record, ensure_ascii=False, indent=1), LONGEST_RECORD))
    except RecursionError:
        return OwnRecord("It is nested too deeply to be shown.")


def _shortened(value: Any) -> Any:
    """The same JSON with every string cut to a length that a page can bear."""
    if isinstance(value, str):
        return _cut(value, LONGEST_TEXT)
    if isinstance(value, dict):
        return {_cut(key, LONGEST_TEXT): _shortened(entry) for key, entry in value.items()}
    return [_shortened(entry) for entry in value] if isinstance(value, list) else value


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
