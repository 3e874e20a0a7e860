"""CVAT's files: the XML of "CVAT for video 1.1" and of "for images 1.1", and the annotations.json of a task's backup.

The XML is described at https://docs.cvat.ai/docs/other/xml_format. A track is on screen from a shape that is not
outside to the next one that is; tags that follow each other frame by frame are one span.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.interchange.safe_xml import Element, add, document, parse
from trace_ves.construction.interchange.spans import Frames, LabelledSpan, frame_number
from trace_ves.core import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from trace_ves.construction.interchange.spans import ExportedVideo

ROOT: Final = "annotations"
SHAPES: Final = frozenset({"box", "polygon", "polyline", "points", "cuboid", "ellipse", "mask", "skeleton"})


def read(path: Path, content: bytes) -> list[LabelledSpan]:
    """Every track and every row of tags, under its label."""
    tree = parse(path, content, ROOT)
    meta = tree.find("meta")
    media = (meta.findtext(".//source") or "") if meta is not None else ""
    found = []
    try:
        tags: dict[str, list[int]] = defaultdict(list)
        for each in tree.iterfind("tag"):
            tags[each.get("label", "")].append(frame_number(each.get("frame")))
        for image in tree.iterfind("image"):
            for each in image.iterfind("tag"):
                tags[each.get("label", "")].append(frame_number(image.get("id")))
        for track in tree.iterfind("track"):
            shapes = [(frame_number(e.get("frame")), e.get("outside") == "1") for e in track if e.tag in SHAPES]
            label = track.get("label", "")
            # An export has a shape for every frame, so that the last one ends the track where none is outside.
            found += [LabelledSpan(media, label, span) for span in visible(shapes, is_open=False)]
    except ValueError as error:
        raise InputError(f"{path}: {error}.") from None
    return found + [LabelledSpan(media, label, span) for label, frames in tags.items() for span in runs(frames)]


def read_backup(path: Path, value: object) -> list[LabelledSpan]:
    """The tracks and tags of a backup's annotations.json, or of what CVAT's server gives for a task."""
    found = []
    try:
        for job in _records(value if isinstance(value, list) else [value]):
            tags: dict[str, list[int]] = defaultdict(list)
            for tag in _records(job.get("tags", [])):
                tags[_label(tag)].append(frame_number(tag.get("frame")))
            for track in _records(job.get("tracks", [])):
                shapes = [
                    (frame_number(shape.get("frame")), bool(shape.get("outside")))
                    for shape in _records(track.get("shapes", []))
                ]
                found += [LabelledSpan("", _label(track), span) for span in visible(shapes, is_open=True)]
            found += [LabelledSpan("", label, span) for label, frames in tags.items() for span in runs(frames)]
    except ValueError as error:
        raise InputError(f"{path}: {error}.") from None
    return found


def visible(shapes: Iterable[tuple[int, bool]], *, is_open: bool) -> Iterator[Frames]:
    """Where a track is on screen, from its shapes: each with its frame and whether it is outside from there on."""
    first: int | None = None
    last = -1
    for frame, is_outside in sorted(shapes):
        if is_outside and first is not None:
            yield Frames(first, frame - 1)
            first = None
        elif not is_outside and first is None:
            first = frame
        last = frame
    if first is not None:
        yield Frames(first, None if is_open else last)


def runs(frames: Iterable[int]) -> Iterator[Frames]:
    """Frames that follow each other, as spans."""
    first = last = -2
    for frame in sorted(set(frames)):
        if frame != last + 1:
            if last >= 0:
                yield Frames(first, last)
            first = frame
        last = frame
    if last >= 0:
        yield Frames(first, last)


def write(video: ExportedVideo) -> bytes:
    """A track over the whole picture for each interval, under the id of its item."""
    root = Element(ROOT)
    add(root, "version", "1.1")
    task = add(add(root, "meta"), "task")
    add(task, "name", video.name)
    add(task, "size", str(len(video.times.timestamps)))
    add(task, "mode", "interpolation")
    labels = add(task, "labels")
    for item in video.items:
        add(add(labels, "label"), "name", item.id)
    size = add(task, "original_size")
    add(size, "width", str(video.width))
    add(size, "height", str(video.height))
    add(task, "source", PurePosixPath(video.name).name)
    corners = {"xtl": "0.00", "ytl": "0.00", "xbr": f"{video.width:.2f}", "ybr": f"{video.height:.2f}", "z_order": "0"}
    number = 0
    for item in video.items:
        for interval, _ in item.intervals:
            frames = video.times.frames(interval)
            last = frames.first if frames.last is None else frames.last
            shown = [(frame, 0) for frame in sorted({frames.first, last})]
            if last + 1 < len(video.times.timestamps):
                shown.append((last + 1, 1))
            track = add(root, "track", id=number, label=item.id, source="manual")
            for frame, outside in shown:
                add(track, "box", frame=frame, outside=outside, occluded="0", keyframe="1", **corners)
            number += 1
    return document(root)


def _records(values: object) -> Iterator[dict[str, Any]]:
    if not isinstance(values, list):
        raise ValueError("expected a list of jobs with tracks and tags")
    for each in values:
        if not isinstance(each, dict):
            raise ValueError("expected an object for each job, track, shape and tag")
        yield each


def _label(record: dict[str, Any]) -> str:
    return str(record.get("label") or record.get("label_id") or "")
