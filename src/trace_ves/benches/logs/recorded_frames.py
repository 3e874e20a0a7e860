"""Recorded frames as what each question of a bench was answered from."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from trace_ves.core.errors import FormatError, InputError
from trace_ves.core.jsonl import read_jsonl
from trace_ves.records import Prediction
from trace_ves.records.base import FieldError
from trace_ves.records.calls import RecordedLook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.records import Item


def read_recorded(folder: Path, items: Sequence[Item]) -> dict[str, Prediction]:
    """The frames of each question that was looked at.

    A look belongs to the question that the program named, else to the questions on its video: to all of them where
    every look at it saw the same frames, to the only one where there is one. Anything else is ambiguous.
    """
    looks = _looks(folder)
    known = {item.question.id for item in items}
    by_question: dict[str, list[RecordedLook]] = defaultdict(list)
    by_video: dict[str, list[RecordedLook]] = defaultdict(list)
    for look in looks:
        if look.question_id is None:
            by_video[_stem(look.video)].append(look)
        elif look.question_id in known:
            by_question[look.question_id].append(look)
    on_video: dict[str, list[str]] = defaultdict(list)
    for item in items:
        on_video[_stem(item.question.video)].append(item.question.id)
    for video, names in on_video.items():
        for name in names:
            if name not in by_question and (shared := _common_looks(video, by_video.get(video, []), names)):
                by_question[name] = shared
    return {
        name: Prediction(
            name,
            None,
            timestamps=tuple(moment for look in seen for moment in look.timestamps),
            frames_supplied=sum(look.frames_supplied for look in seen),
            extra={"exact": all(look.exact for look in seen)},
        )
        for name, seen in by_question.items()
    }


def _common_looks(video: str, looks: list[RecordedLook], names: Sequence[str]) -> list[RecordedLook]:
    """What every question of a video was answered from."""
    if len(names) == 1 or not looks:
        return looks
    if len({frozenset(look.timestamps) for look in looks}) > 1:
        raise InputError(
            f"the video {video!r} was looked at in different ways, and {len(names)} questions are on it; have the "
            "program say which it answers, with trace_ves.recording(question_id)."
        )
    return looks[:1]


def _looks(folder: Path) -> list[RecordedLook]:
    """Every look of a folder, or of one file; the lines of one look are put together."""
    files = sorted(folder.glob("*.jsonl")) if folder.is_dir() else [folder]
    if not files:
        raise InputError(f"{folder}: no recorded frames in this folder (*.jsonl).")
    found: dict[tuple[Path, str, str | None], RecordedLook] = {}
    for file in files:
        for line in read_jsonl(file, on_torn_tail=lambda _: None):
            try:
                look = RecordedLook.from_json(line.record)
            except FieldError as error:
                raise FormatError(f"{error}.", path=file, line=line.number) from None
            key = (file, look.look, look.question_id)
            if key in found:
                look = replace(
                    found[key],
                    timestamps=(*found[key].timestamps, *look.timestamps),
                    frames_supplied=found[key].frames_supplied + look.frames_supplied,
                    exact=found[key].exact and look.exact,
                )
            found[key] = look
    return list(found.values())


def _stem(video: str) -> str:
    """The name of a video without folders and ending, by which a bench and a program agree on it."""
    return PurePosixPath(video.replace("\\", "/")).stem
