"""Label Studio's JSON: a list of tasks, each with a video and the regions that people drew on its timeline.

The format is described at https://labelstud.io/tags/timelinelabels and https://labelstud.io/guide/export. Timeline
labels are frames counted from 1, of which the last one belongs to the region; boxes that follow an object have a
sequence of key frames; regions of a synchronised audio track are in seconds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.interchange.cvat import visible
from trace_ves.construction.interchange.safe_xml import Element, add, document
from trace_ves.construction.interchange.spans import Frames, LabelledSpan, Seconds, frame_number
from trace_ves.core import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from trace_ves.construction.interchange.spans import ExportedVideo

CONTROL, VIDEO = "interval", "video"
LABELS: Final = ("timelinelabels", "labels", "videorectangle")
"""Where a region may keep its labels."""


def read(path: Path, tasks: object) -> list[LabelledSpan]:
    """Every region on the timeline of every task; annotations where there are some, else predictions."""
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise InputError(f"{path}: expected a list of tasks, as Label Studio exports them as JSON.")
    found: list[LabelledSpan] = []
    for number, task in enumerate(tasks, start=1):
        try:
            found += _task(task)
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: task {number}: {error}.") from None
    return found


def _task(task: dict[str, Any]) -> Iterator[LabelledSpan]:
    data = task.get("data")
    media = _media(data) if isinstance(data, dict) else ""
    made = [each for each in _objects(task.get("annotations")) if not each.get("was_cancelled")]
    for annotation in made or _objects(task.get("predictions")):
        for region in _objects(annotation.get("result")):
            value = region.get("value")
            if not isinstance(value, dict):
                continue
            note = region.get("meta")
            texts = note.get("text") if isinstance(note, dict) else None
            text = " ".join(map(str, texts)) if isinstance(texts, list) else ""
            labels = [str(label) for key in LABELS if isinstance(value.get(key), list) for label in value[key]]
            for span in _spans(value):
                yield from (LabelledSpan(media, label, span, text) for label in dict.fromkeys(labels))


def _spans(value: dict[str, Any]) -> Iterator[Seconds | Frames]:
    """The spans of a region, in whichever of the three ways it gives them."""
    for each in _objects(value.get("ranges")):
        first, last = _frame(each.get("start")), _frame(each.get("end"))
        yield Frames(min(first, last), max(first, last))
    shapes = [(_frame(each.get("frame")), not each.get("enabled", True)) for each in _objects(value.get("sequence"))]
    yield from visible(shapes, is_open=True)
    if "start" in value and "end" in value:
        yield Seconds(float(value["start"]), float(value["end"]))


def _frame(number: object) -> int:
    found = frame_number(number)
    if found < 1:
        raise ValueError("Label Studio counts frames from 1, found 0")
    return found - 1


def _media(data: dict[str, Any]) -> str:
    """The video of a task: what is called so, or whatever else is a text with a suffix."""
    texts = [value for key, value in sorted(data.items(), key=lambda pair: pair[0] != VIDEO) if isinstance(value, str)]
    return next((text for text in texts if "." in text), "")


def _objects(values: object) -> list[dict[str, Any]]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def write(videos: Sequence[ExportedVideo]) -> bytes:
    """A task for each video, with its items as annotations that can be edited."""
    return (json.dumps([_exported(video) for video in videos], indent=2, ensure_ascii=False) + "\n").encode()


def _exported(video: ExportedVideo) -> dict[str, Any]:
    result = []
    for item in video.items:
        for place, (interval, note) in enumerate(item.intervals):
            frames = video.times.frames(interval)
            last = frames.first if frames.last is None else frames.last
            result.append(
                {
                    "id": f"{item.id}-{place}",
                    "type": "timelinelabels",
                    "from_name": CONTROL,
                    "to_name": VIDEO,
                    "origin": "manual",
                    "value": {"ranges": [{"start": frames.first + 1, "end": last + 1}], "timelinelabels": [item.id]},
                    "meta": {"text": [note]},
                }
            )
    questions = {item.id: item.question for item in video.items}
    data = {VIDEO: video.name, "fps": round(video.times.frame_rate, 6), "questions": questions}
    return {"data": data, "annotations": [{"result": result}]}


def write_configuration(videos: Sequence[ExportedVideo]) -> bytes:
    """The labelling interface that fits the tasks: a label for each item, and each video at its own frame rate."""
    root = Element("View")
    labels = add(root, "TimelineLabels", name=CONTROL, toName=VIDEO)
    for video in videos:
        for item in video.items:
            add(labels, "Label", value=item.id)
    add(root, "Video", name=VIDEO, value=f"${VIDEO}", framerate="$fps")
    return document(root)
