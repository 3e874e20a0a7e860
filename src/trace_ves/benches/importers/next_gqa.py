"""NExT-GQA: a csv of five-choice questions, and beside it the json (gsub) with the grounded segments."""

from __future__ import annotations

import csv
from functools import partial
from typing import TYPE_CHECKING, Final

from trace_ves.benches.importing import Collector, letter_of_index, read_json, video_path
from trace_ves.core.errors import InputError
from trace_ves.records.base import FieldError, Name, shown, validated

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.benches.bench import Bench

OPTION_KEYS: Final = ("a0", "a1", "a2", "a3", "a4")


def read(source: Path, *, strict: bool = False, grounding: Path | None = None) -> Bench:
    """Read the csv; the segments are looked for beside it as `<name>.json` or `gsub_<name>.json`."""
    content = read_json(grounding or _beside(source))
    if not isinstance(content, dict):
        raise InputError(f"{grounding or _beside(source)}: expected a JSON object with one entry for each video.")
    return Collector(strict).add_all(_csv_rows(source), partial(_translate, content), source)


def _beside(source: Path) -> Path:
    candidates = [source.with_suffix(".json"), source.with_name(f"gsub_{source.stem}.json")]
    for path in candidates:
        if path.exists():
            return path
    names = " or ".join(path.name for path in candidates)
    raise InputError(f"{source}: no grounded segments beside it ({names}); name the file with --grounding.")


def _csv_rows(source: Path) -> list[dict[str, object]]:
    try:
        with source.open(encoding="utf-8-sig", newline="") as file:
            return [dict(row) for row in csv.DictReader(file)]
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror}.") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{source}: not a csv file in UTF-8: {error}.") from None


def _translate(grounding: dict[str, object], row: dict[str, object]) -> dict[str, object]:
    video, number = validated(Name, row.get("video_id"), "video_id"), validated(Name, row.get("qid"), "qid")
    options = [row.get(key) for key in OPTION_KEYS]
    answer = row.get("answer")
    if options.count(answer) != 1:
        raise FieldError(f"the answer {shown(answer)} is not exactly one of the five options")
    if video not in grounding:
        raise FieldError(f"the video {shown(video)} has no grounded segments")
    facts = validated(dict[str, object], grounding[video], video)
    segments = validated(dict[str, object], facts.get("location"), "location")
    if number not in segments:
        raise FieldError("the question has no grounded segments")
    return {
        "id": f"{video}_{number}",
        "video": video_path(video),
        "duration": facts.get("duration"),
        "family": row.get("type", ""),
        "question": row.get("question"),
        "options": options,
        "answer": letter_of_index("answer", options.index(answer), len(options)),
        "evidence": segments[number],
    }
