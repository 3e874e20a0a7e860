"""Video-MME: a parquet of 2,700 questions. It has neither evidence nor durations in seconds: answers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.benches.importing import Collector, bare_options, kept, read_parquet_rows, video_path

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.benches.bench import Bench


def read(source: Path, *, strict: bool = False) -> Bench:
    """Read the official parquet."""
    return Collector(strict).add_all(read_parquet_rows(source), _translate, source)


def _translate(row: dict[str, object]) -> dict[str, object]:
    return {
        "id": row.get("question_id"),
        "video": video_path(row.get("videoID")),
        "duration": None,
        "family": row.get("task_type", ""),
        "question": row.get("question"),
        "options": bare_options(row.get("options")),
        "answer": row.get("answer"),
        "evidence": [],
        "duration_group": row.get("duration"),
        **kept(row, ("domain", "sub_category", "url")),
    }
