"""The frames of each question, from recorded looks or from a published list of frame indices."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from trace_ves.benches.importing import read_json
from trace_ves.benches.logs.formats import ID_KEYS, first_of
from trace_ves.core.errors import FormatError, InputError
from trace_ves.core.jsonl import read_jsonl
from trace_ves.records import Item, Prediction
from trace_ves.records.base import FieldError, quote
from trace_ves.records.calls import RecordedLook
from trace_ves.records.run_file import Reconstruction, Run

if TYPE_CHECKING:
    from trace_ves.core.schedules import FrameTimes

FRAME_KEYS: Final = ("frames", "frame_indices", "frame_idx", "frame_ids", "indices", "selected_frames")
"""Keys that may hold the frame indices of a question."""
INDICES: Final = "frame indices"


def read_frame_lists(path: Path, items: Sequence[Item], frame_times: Callable[[Item], FrameTimes]) -> Run:
    """Read a file of frame indices for each question as a run without answers."""
    content = [line.record for line in read_jsonl(path)] if path.suffix == ".jsonl" else read_json(path)
    lists, warnings = _lists_by_id(path, content, items)
    lines, exact = [], set()
    for item in items:
        if item.question.id in lists:
            frame_grid = frame_times(item)
            exact.add(frame_grid.is_exact)
            times = _place(path, item, lists[item.question.id], frame_grid)
            facts = {"selection": True}
            lines.append(Prediction(item.question.id, None, timestamps=times, frames_supplied=len(times), extra=facts))
    if not lines:
        raise InputError(f"{path}: no question of the bench is in this file; its first id is {next(iter(lists))!r}.")
    if unknown := len(lists) - len(lines):
        warnings.append(f"{path}: {unknown} lists are for questions outside this bench and were skipped.")
    return Run(path.stem, lines, path, [0] * len(lines), tuple(warnings), Reconstruction(INDICES, frozenset(exact)))


def _lists_by_id(path: Path, content: object, items: Sequence[Item]) -> tuple[Mapping[str, object], list[str]]:
    if isinstance(content, dict) and content:
        pairs = {
            str(key): first_of([value], FRAME_KEYS) if isinstance(value, dict) else value
            for key, value in content.items()
        }
        return pairs, []
    if not isinstance(content, list) or not content:
        raise InputError(f"{path}: expected a list of frame indices for each question, by id or in the bench's order.")
    if all(isinstance(row, dict) for row in content):
        return {str(first_of([row], ID_KEYS)): first_of([row], FRAME_KEYS) for row in content}, []
    if len(content) > len(items):
        raise InputError(
            f"{path}: {len(content)} lists for {len(items)} questions; without ids there must be one for each, in the "
            "order of the bench."
        )
    warning = f"{path}: lists without ids were matched to the questions in the order of the bench."
    return {item.question.id: row for item, row in zip(items, content, strict=False)}, [warning]


def _place(path: Path, item: Item, indices: object, times: FrameTimes) -> tuple[float, ...]:
    """The timestamps of frame indices."""
    where = f"{path}: question {item.question.id!r}"
    if isinstance(indices, str):
        try:
            indices = json.loads(indices)
        except (ValueError, RecursionError):
            indices = None
    if not isinstance(indices, list):
        raise InputError(f"{where}: expected a list of frame indices under one of {', '.join(FRAME_KEYS)}.")
    seconds = []
    for index in indices:
        if isinstance(index, bool) or not isinstance(index, (int, float)) or not 0 <= index < 1e9 or index % 1:
            raise InputError(f"{where}: a frame index is a whole number from 0 up, found {quote(index)}.")
        if times.is_exact and index >= len(times):
            raise InputError(f"{where}: frame {index:g} is not in its video, which has {len(times)} frames.")
        moment = float(times.seconds[int(index)]) if index < len(times) else index / times.fps
        if math.isfinite(item.duration) and moment > item.duration + item.slack_seconds:
            raise InputError(
                f"{where}: frame {index:g} would be at {moment:.1f} s, after the end of its video "
                f"({item.duration:g} s); give the right frame rate with --fps."
            )
        seconds.append(moment)
    return tuple(seconds)


def read_recorded(folder: Path, items: Sequence[Item]) -> dict[str, Prediction]:
    """Read the recorded frames of each question.

    A look belongs to the question that the program named. Otherwise it belongs to the only question about its video, or
    to all of them if every look at the video returned the same frames. Anything else is ambiguous.
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
            timestamps=tuple(moment for look in own_looks for moment in look.timestamps),
            frames_supplied=sum(look.frames_supplied for look in own_looks),
            extra={"exact": all(look.exact for look in own_looks), "recorded": {"scan": _mostly_scans(own_looks)}},
        )
        for name, own_looks in by_question.items()
    }


def _mostly_scans(looks: Sequence[RecordedLook]) -> bool:
    """Whether most frames come from looks that read consecutive frames."""
    scanned = sum(look.frames_supplied for look in looks if look.scan)
    return 2 * scanned > sum(look.frames_supplied for look in looks)


def _common_looks(video: str, looks: list[RecordedLook], names: Sequence[str]) -> list[RecordedLook]:
    """The looks that belong to every question about a video."""
    if len(names) == 1 or not looks:
        return looks
    if len({frozenset(look.timestamps) for look in looks}) > 1:
        raise InputError(
            f"the video {video!r} has {len(names)} questions and different looks; name the question in the program, "
            "with trace_ves.recording(question_id)."
        )
    return looks[:1]


def _looks(folder: Path) -> list[RecordedLook]:
    """Read every look of a folder or file; the lines of a look are joined."""
    files = sorted(folder.glob("*.jsonl")) if folder.is_dir() else [folder]
    if not files:
        raise InputError(f"{folder}: no recorded frames in this folder (*.jsonl).")
    looks: dict[tuple[Path, str, str | None], RecordedLook] = {}
    for file in files:
        for line in read_jsonl(file, on_torn_tail=lambda _: None):
            try:
                look = RecordedLook.from_json(line.record)
            except FieldError as error:
                raise FormatError(f"{error}.", path=file, line=line.number) from None
            key = (file, look.look, look.question_id)
            before = looks.get(key)
            if before is not None and before.kept and not look.kept:
                continue  # the program named the frames that it keeps
            if before is not None and before.kept == look.kept:
                look = replace(
                    before,
                    timestamps=(*before.timestamps, *look.timestamps),
                    frames_supplied=before.frames_supplied + look.frames_supplied,
                    exact=before.exact and look.exact,
                    scan=before.scan or look.scan,
                )
            looks[key] = look
    return list(looks.values())


def _stem(video: str) -> str:
    """The name of a video without folders and suffix, which identifies it in a bench and in a program."""
    return PurePosixPath(video.replace("\\", "/")).stem
