"""Import intervals from Label Studio and export them to it. Imported intervals are proposals that annotators verify.

See https://labelstud.io/tags/timelinelabels and https://labelstud.io/guide/export. A label that is the id of an item
replaces its intervals, unless the item is already being judged; any other label becomes a counting question.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote
from xml.sax.saxutils import quoteattr

import numpy as np

from trace_ves.construction.judged_item import JudgedItem, ProposedItem, list_all_items, list_items
from trace_ves.construction.ledger import MACHINE, PROPOSAL_SLOT, Change, Ledger
from trace_ves.construction.proposal import (
    OPTIONS,
    DraftError,
    ItemDraft,
    check_count,
    check_draft,
    check_evidence,
    new_item_id,
)
from trace_ves.core import EVENT_COUNTING, InputError, Interval
from trace_ves.core.files import write_atomic
from trace_ves.core.interval import union
from trace_ves.core.jsonl import DECODER
from trace_ves.core.question import LETTERS
from trace_ves.video import open as open_video

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trace_ves.construction.project import Project
    from trace_ves.construction.store import Store

MOST_LABEL: Final = 200
EDGE_SECONDS: Final = 0.001  # edges are rounded to milliseconds, so one this close to a timestamp equals it
QUESTION: Final = "How many separate times is {label} seen?"
RATIONALE: Final = "{label} is seen here."
CONTROL, VIDEO = "interval", "video"
LABEL_KEYS: Final = ("timelinelabels", "labels", "videorectangle")  # keys that may hold the labels of a region
_UPLOAD_PREFIX: Final = re.compile(r"^[0-9a-f]{8}-")  # Label Studio's prefix for the name of an uploaded file

NotedInterval = tuple[Interval, str]  # an interval and its note


@dataclass(frozen=True, slots=True)
class Frames:
    """A span by its first and last frame, counted from 0 and inclusive."""

    first: int
    last: int | None  # None for the end of the video


@dataclass(frozen=True, slots=True)
class LabelledSpan:
    """A region with one label."""

    media: str  # the video in the file: a name, a path or a URL, of which only the last part is used
    label: str
    span: Interval | Frames
    note: str = ""


@dataclass(frozen=True, slots=True)
class ScreenTimes:
    """When the frames of a video are on screen: each from its own timestamp to that of the next one."""

    timestamps: NDArray[np.float64]
    duration: float

    @property
    def frame_rate(self) -> float:
        """Average number of frames per second."""
        length = float(self.timestamps[-1] - self.timestamps[0])
        return (len(self.timestamps) - 1) / length if length > 0 else 1.0

    def interval(self, span: Interval | Frames, fps: float | None = None) -> Interval:
        """Convert a span to seconds, counting frames at `fps` if given; a `ValueError` if it is outside the video."""
        if isinstance(span, Interval):
            start, end = span.start, span.end
        elif fps is not None:
            start, end = span.first / fps, self.duration if span.last is None else (span.last + 1) / fps
        else:
            count = len(self.timestamps)
            last = count - 1 if span.last is None else span.last
            if not 0 <= span.first <= last < count:
                raise ValueError(f"frames {span.first}-{last} are not in a video of {count} frames")
            start = float(self.timestamps[span.first])
            end = float(self.timestamps[last + 1]) if last + 1 < count else self.duration
        if not start < end:
            raise ValueError(f"{start:g}-{end:g} s is not an interval")
        if end > self.duration + max(EDGE_SECONDS, 1.0 / (fps or self.frame_rate)):
            raise ValueError(f"{start:g}-{end:g} s is not in a video of {self.duration:g} s")
        return Interval(round(start, 3), min(round(end, 3), self.duration))

    def frames(self, interval: Interval) -> tuple[int, int]:
        """The first and last frame on screen during an interval, counted from 0."""
        first = int(np.searchsorted(self.timestamps, interval.start + EDGE_SECONDS, side="right")) - 1
        last = int(np.searchsorted(self.timestamps, interval.end - EDGE_SECONDS, side="left")) - 1
        return max(first, 0), max(first, last, 0)


def read_spans(path: Path) -> list[LabelledSpan]:
    """Read the labelled spans of a Label Studio export."""
    try:
        tasks = DECODER.decode(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"{path}: not valid JSON: {reason}; give a JSON export of Label Studio.") from None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise InputError(f"{path}: expected a list of tasks, as Label Studio exports them as JSON.")
    spans: list[LabelledSpan] = []
    for number, task in enumerate(tasks, start=1):
        try:
            spans += _read_task(task)
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: task {number}: {error}.") from None
    if not spans:
        raise InputError(f"{path}: no labelled span in this file.")
    return spans


def _read_task(task: dict[str, Any]) -> Iterator[LabelledSpan]:
    """Yield every region of the task's annotations, or of its predictions if it has no annotations."""
    data = task.get("data")
    fields = sorted(data.items(), key=lambda pair: pair[0] != VIDEO) if isinstance(data, dict) else []
    # The value of `video`, or else any text that looks like a file name.
    media = next((value for _, value in fields if isinstance(value, str) and "." in value), "")
    annotations = [each for each in _objects(task.get("annotations")) if not each.get("was_cancelled")]
    for annotation in annotations or _objects(task.get("predictions")):
        for region in _objects(annotation.get("result")):
            value, meta = region.get("value"), region.get("meta")
            if not isinstance(value, dict):
                continue
            texts = meta.get("text") if isinstance(meta, dict) else None
            note = " ".join(map(str, texts)) if isinstance(texts, list) else ""
            labels = [str(label) for key in LABEL_KEYS if isinstance(value.get(key), list) for label in value[key]]
            for span in _read_region(value):
                yield from (LabelledSpan(media, label, span, note) for label in dict.fromkeys(labels))


def _read_region(value: dict[str, Any]) -> Iterator[Interval | Frames]:
    """Yield the spans of a region, which may be ranges, a sequence of shapes, or a start and an end."""
    for each in _objects(value.get("ranges")):
        first, last = _frame(each.get("start")), _frame(each.get("end"))
        yield Frames(min(first, last), max(first, last))
    shapes = _objects(value.get("sequence"))
    yield from visible_frames((_frame(each.get("frame")), bool(each.get("enabled", True))) for each in shapes)
    if "start" in value and "end" in value:
        yield Interval(float(value["start"]), float(value["end"]))


def visible_frames(shapes: Iterable[tuple[int, bool]]) -> Iterator[Frames]:
    """The spans in which an object is visible; each key frame gives its visibility from that frame."""
    first: int | None = None
    for frame, is_visible in sorted(shapes):
        if not is_visible and first is not None:
            yield Frames(first, frame - 1)
            first = None
        elif is_visible and first is None:
            first = frame
    if first is not None:
        yield Frames(first, None)


def _frame(value: object) -> int:
    """Convert a frame number to count from 0; Label Studio counts from 1."""
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).isdecimal():
        raise ValueError(f"{str(value)[:40]!r} is not a frame number")
    if int(value) < 1:
        raise ValueError(f"Label Studio counts frames from 1, found {value}")
    return int(value) - 1


def _objects(values: object) -> list[dict[str, Any]]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


@dataclass
class ImportResult:
    """The outcome of an import."""

    proposed: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: int = 0
    refused: list[str] = field(default_factory=list)  # a reason for each label left out


def import_intervals(
    project: Project, store: Store, file: Path, *, video: str = "", fps: float | None = None, question: str = QUESTION
) -> ImportResult:
    """Propose the intervals of a file; an `InputError` leaves the build unchanged.

    `video` names the video if the file does not; `fps` is Label Studio's frame rate if it differs from the video's.
    """
    if "{label}" not in question:
        raise InputError("the question must contain {label}.")
    grouped: dict[tuple[str, str], list[NotedInterval]] = defaultdict(list)
    times: dict[str, ScreenTimes] = {}
    videos = project.videos()
    for span in read_spans(file):
        name = _find_video(videos, file, span, video)
        if name not in times:
            times[name] = _read_times(project, name)
        try:
            grouped[name, _label(span)].append((times[name].interval(span.span, fps), span.note))
        except ValueError as error:
            raise InputError(f"{file}: {span.label[:40]!r}: {error}; is it about another video?") from None
    items = {judged.id: judged for judged in list_all_items(store.ledger())}
    known_questions = {(judged.proposal.video, judged.proposal.text) for judged in items.values()}
    result, changes = ImportResult(), []
    for (name, label), noted_intervals in grouped.items():
        intervals = merge_noted(noted_intervals)
        judged = items.get(label)
        try:
            if judged is not None and judged.gold is None:
                replaced = _replace_intervals(judged, name, intervals)
                if replaced == judged.proposal:
                    result.unchanged += 1
                else:
                    changes.append(Change(label, PROPOSAL_SLOT, MACHINE, replaced.to_json()))
                    result.replaced.append(label)
                continue
            draft = _draft(question, label, intervals)
            if (name, draft.question) in known_questions:
                result.unchanged += 1
                continue
            proposal = check_draft(draft, video=name, duration=times[name].duration, family=EVENT_COUNTING)
        except DraftError as error:
            result.refused.append(f"{name}, {label[:40]!r}: {error}")
            continue
        item = new_item_id()
        changes.append(Change(item, PROPOSAL_SLOT, MACHINE, proposal.to_json(), expected=0))
        result.proposed.append(item)
    store.append(changes)
    return result


def merge_noted(noted_intervals: Iterable[NotedInterval]) -> list[NotedInterval]:
    """Sort intervals, and merge those that overlap or touch: something visible without a break is one occurrence."""
    in_order = sorted(noted_intervals, key=lambda each: (each[0].start, each[0].end))
    merged = union(interval for interval, _ in in_order)
    notes = [[note for interval, note in in_order if note and interval.start in whole] for whole in merged]
    return [(whole, "; ".join(dict.fromkeys(texts))) for whole, texts in zip(merged, notes, strict=True)]


def _label(span: LabelledSpan) -> str:
    label = " ".join(span.label.split())[:MOST_LABEL]
    if not label or not label.isprintable():
        raise ValueError("a span without a label")
    return label


def _find_video(videos: Sequence[str], file: Path, span: LabelledSpan, video: str) -> str:
    """The video of a span: the one of the command, or the one with the span's file name."""
    if video:
        if video not in videos:
            raise InputError(f"{video}: no such video in the build; its videos are named like {videos[0]}.")
        return video
    name = PurePosixPath(unquote(span.media.replace("\\", "/")).partition("?")[0]).name
    for candidate in (name, _UPLOAD_PREFIX.sub("", name)):
        matches = [each for each in videos if PurePosixPath(each).name == candidate]
        if len(matches) == 1:
            return matches[0]
    if not name and len(videos) == 1:
        return videos[0]
    raise InputError(f"{file}: no single video matches {name[:80]!r}; name it with --video, as in --video {videos[0]}.")


def _read_times(project: Project, name: str) -> ScreenTimes:
    with open_video(project.need_path(name)) as video:
        return ScreenTimes(video.timestamps, video.duration)


def _draft(question: str, label: str, noted: Sequence[NotedInterval]) -> ItemDraft:
    """A counting question with four consecutive numbers as options; its text determines the place of the right one."""
    text, count = question.replace("{label}", label), len(noted)
    place = min(hashlib.sha256(text.encode()).digest()[0] % OPTIONS, count - 1)
    return ItemDraft(
        question=text,
        options=[str(count - place + step) for step in range(OPTIONS)],
        answer=LETTERS[place],
        evidence=[[interval.start, interval.end] for interval, _ in noted],
        rationales=[note.strip() or RATIONALE.replace("{label}", label) for _, note in noted],
    )


def _replace_intervals(judged: JudgedItem, video: str, noted: Sequence[NotedInterval]) -> ProposedItem:
    """Replace the intervals of an item; the answer of a counting item changes with them."""
    proposal = judged.proposal
    if video != proposal.video:
        raise DraftError(f"the item is about {proposal.video}")
    if judged.verifications or judged.holders:
        raise DraftError("it is already being judged, so its intervals stay")
    evidence = tuple(interval for interval, _ in noted)
    check_evidence(evidence, proposal.duration)
    answer = proposal.answer
    if proposal.family == EVENT_COUNTING:
        counts = {option.strip(): letter for option, letter in zip(proposal.options, LETTERS, strict=False)}
        answer = counts.get(str(len(evidence)), answer)
        check_count(proposal.family, proposal.options[LETTERS.index(answer)], evidence)
    known = dict(zip(proposal.evidence, proposal.rationales, strict=True))
    rationales = tuple(note.strip() or known.get(interval) or "Added in another tool." for interval, note in noted)
    return replace(proposal, evidence=evidence, rationales=rationales, answer=answer)


def export_intervals(project: Project, ledger: Ledger, out: Path) -> list[Path]:
    """Write the items of a build for Label Studio, with their current intervals: tasks and labelling interface."""
    items: dict[str, list[JudgedItem]] = defaultdict(list)
    for judged in list_items(ledger):
        items[judged.proposal.video].append(judged)
    if not items:
        raise InputError(f"{project.folder}: no item is proposed yet.")
    tasks = [make_task(name, _read_times(project, name), video_items) for name, video_items in sorted(items.items())]
    files = {
        out / "label-studio.json": json.dumps(tasks, indent=2, ensure_ascii=False) + "\n",
        out / "label-studio-config.xml": _configuration([judged.id for mine in items.values() for judged in mine]),
    }
    if existing := next((path for path in files if path.exists()), None):
        raise InputError(f"{existing} exists already; give another folder.")
    for path, content in files.items():
        write_atomic(path, content)
    return list(files)


def make_task(video: str, times: ScreenTimes, items: Sequence[JudgedItem]) -> dict[str, Any]:
    """A task for a video, with its items as annotations."""
    result = []
    for judged in items:
        proposal = judged.proposal
        evidence = judged.state.evidence or proposal.evidence
        notes = dict(zip(proposal.evidence, proposal.rationales, strict=True))
        for place, interval in enumerate(evidence):
            same = len(evidence) == len(proposal.evidence)
            first, last = times.frames(interval)
            result.append(
                {
                    "id": f"{judged.id}-{place}",
                    "type": "timelinelabels",
                    "from_name": CONTROL,
                    "to_name": VIDEO,
                    "origin": "manual",
                    "value": {"ranges": [{"start": first + 1, "end": last + 1}], "timelinelabels": [judged.id]},
                    "meta": {"text": [notes.get(interval) or (proposal.rationales[place] if same else "")]},
                }
            )
    questions = {judged.id: judged.proposal.text for judged in items}
    data = {VIDEO: video, "fps": round(times.frame_rate, 6), "questions": questions}
    return {"data": data, "annotations": [{"result": result}]}


def _configuration(labels: Iterable[str]) -> str:
    """The labelling interface: a label for each item, and the video at its own frame rate."""
    return (
        f'<View>\n  <TimelineLabels name="{CONTROL}" toName="{VIDEO}">\n'
        + "".join(f"    <Label value={quoteattr(label)} />\n" for label in labels)
        + f'  </TimelineLabels>\n  <Video name="{VIDEO}" value="${VIDEO}" framerate="$fps" />\n</View>\n'
    )
