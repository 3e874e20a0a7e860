"""CG-Bench: a json of questions with `clue_intervals`, which are the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.benches.importing import Collector, kept, read_json_rows, video_path

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.benches.bench import Bench


def read(source: Path, *, strict: bool = False) -> Bench:
    """Read `cgbench.json` or `cgbench_mini.json`."""
    return Collector(strict).add_all(read_json_rows(source), _translate, source)


def _translate(row: dict[str, object]) -> dict[str, object]:
    return {
        "id": str(row.get("qid", "")),
        "video": video_path(row.get("video_uid")),
        "duration": row.get("duration"),
        "family": row.get("sub_category", ""),
        "question": row.get("question"),
        "options": row.get("choices"),
        "answer": row.get("right_answer"),
        "evidence": row.get("clue_intervals", []),
        **kept(row, ("domain",)),
    }
