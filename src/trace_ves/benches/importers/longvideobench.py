"""LongVideoBench: `lvb_val.json`, with a 0-based `correct_choice` among two to five candidates.

`position` holds frame indexes in the published file, which are no intervals; pairs of seconds would become evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.benches.importing import Collector, kept, letter_of_index, read_json_rows, video_path
from trace_ves.records.base import validated

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.benches.bench import Bench

KEPT = ("level", "view_count", "subtitle_path", "starting_timestamp_for_subtitles", "question_wo_referring_query")


def read(source: Path, *, strict: bool = False) -> Bench:
    """Read the official json of a split that has its answers."""
    collector = Collector(strict, evidence_optional=True)
    return collector.add_all(read_json_rows(source), _translate, source)


def _translate(row: dict[str, object]) -> dict[str, object]:
    candidates = validated(list[object], row.get("candidates"), "candidates")
    return {
        "id": row.get("id"),
        "video": video_path(row.get("video_path")),
        "duration": row.get("duration"),
        "family": row.get("question_category", ""),
        "question": row.get("question"),
        "options": candidates,
        "answer": letter_of_index("correct_choice", row.get("correct_choice"), len(candidates)),
        "evidence": position_intervals(row.get("position")),
        "duration_group": str(row.get("duration_group", "")),
        "category": row.get("topic_category", ""),
        **kept(row, (*KEPT, "position")),
    }


def position_intervals(position: object) -> list[object]:
    """The position where it is a list of pairs of numbers; a list of moments is no evidence."""
    if not isinstance(position, list) or not position:
        return []
    pairs = all(isinstance(pair, list) and len(pair) == 2 for pair in position)
    return position if pairs else []
