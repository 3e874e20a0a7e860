"""LVBench: the official `video_info.meta.jsonl` (one video per line), and the flat json that AVP evaluates on.

`time_reference` becomes evidence where it is an interval of the video; `None` and single moments do not.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from trace_ves.benches.importing import Collector, bare_options, kept, read_json_rows, video_path
from trace_ves.core.jsonl import read_jsonl
from trace_ves.records.base import Number, validated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from trace_ves.benches.bench import Bench

MINUTE: Final = 60.0


def read(source: Path, *, strict: bool = False) -> Bench:
    """Read either form; the name's ending tells which."""
    collector = Collector(strict, evidence_optional=True)
    if source.suffix == ".jsonl":
        return collector.add_all(_official_rows(source), _translate_official, source)
    return collector.add_all(read_json_rows(source), _translate_flat, source)


def _official_rows(source: Path) -> Iterator[dict[str, object]]:
    """One row for each question, the video's facts beside it."""
    for line in read_jsonl(source):
        questions = line.record.get("qa")
        for question in questions if isinstance(questions, list) else [None]:
            yield {"video": line.record, "question": question}


def _translate_official(row: dict[str, object]) -> dict[str, object]:
    video, entry = (
        validated(dict[str, object], row["video"], "video"),
        validated(dict[str, object], row["question"], "qa"),
    )
    info = validated(dict[str, object], video.get("video_info"), "video_info")
    text, options = split_question(validated(str, entry.get("question"), "question"))
    duration = MINUTE * validated(Number, info.get("duration_minutes"), "duration_minutes")
    return {
        "id": str(entry.get("uid", "")),
        "video": video_path(video.get("key")),
        "duration": duration,
        "duration_precision": MINUTE,
        "question": text,
        "options": options,
        **_shared(entry),
        **({"domain": video["type"]} if video.get("type") else {}),
    }


def _translate_flat(row: dict[str, object]) -> dict[str, object]:
    return {
        "id": str(row.get("question_id", "")),
        "video": video_path(row.get("videoID")),
        "duration": row.get("duration"),
        "question": row.get("question"),
        "options": bare_options(row.get("options")),
        **_shared(row, latest_end=validated(Number, row.get("duration"), "duration")),
        **kept(row, ("domain", "url")),
    }


def _shared(entry: Mapping[str, object], latest_end: float = math.inf) -> dict[str, object]:
    types = validated(list[object], entry.get("question_type", []), "question_type")
    return {
        "family": "",
        "answer": entry.get("answer"),
        "evidence": reference_intervals(entry.get("time_reference"), latest_end),
        "question_types": types,
        **kept(entry, ("time_reference",)),
    }


def split_question(text: str) -> tuple[str, list[str]]:
    r"""`Who?\n(A) me\n(B) you` as the question and its options."""
    question, *parts = re.split(r"\n\s*\(([A-Z])\)\s*", text)
    return question.strip(), [option.strip() for option in parts[1::2]]


def reference_intervals(reference: object, latest_end: float = math.inf) -> list[list[float]]:
    """`mm:ss-mm:ss` or `h:mm:ss-h:mm:ss` as one interval; anything else, or a single moment, as none.

    References are in whole seconds, so an end less than a second after the video's is the video's.
    """
    clock = r"((?:\d+:)?\d+:\d{2})"
    match = re.fullmatch(rf"\s*{clock}\s*-\s*{clock}\s*", reference) if isinstance(reference, str) else None
    if match is None:
        return []
    start, end = _seconds(match[1]), _seconds(match[2])
    if latest_end < end < latest_end + 1:
        end = latest_end
    return [] if start == end else [[start, end]]


def _seconds(clock: str) -> float:
    total = 0.0
    for part in clock.split(":"):
        total = total * 60 + int(part)
    return total
