"""Intervals that come from another annotation tool and go to one. What comes in is a proposal: people still judge it.

A label that is the id of an item replaces its intervals, unless somebody has judged it; any other label becomes a
question that counts.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from trace_ves.construction.interchange.files import WRITERS, read_spans
from trace_ves.construction.interchange.spans import ExportedItem, ExportedVideo, FrameTimes
from trace_ves.construction.judged_item import (
    OPTIONS,
    DraftError,
    ItemDraft,
    ItemIndex,
    check_count,
    check_evidence,
    checked,
)
from trace_ves.construction.ledger import Change
from trace_ves.construction.proposal import MACHINE
from trace_ves.construction.stages import PROPOSAL_SLOT
from trace_ves.core import EVENT_COUNTING, InputError, Interval
from trace_ves.core.files import write_atomic
from trace_ves.core.question import LETTERS
from trace_ves.video import open as open_video

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from trace_ves.construction.interchange.spans import LabelledSpan
    from trace_ves.construction.judged_item import JudgedItem, ProposedItem, Standing
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.project import Project
    from trace_ves.construction.store import Store

QUESTION: Final = "How many separate times is {label} seen?"
RATIONALE: Final = "{label} is seen here."
MOST_LABEL: Final = 200
_UPLOAD_PREFIX: Final = re.compile(r"^[0-9a-f]{8}-")
"""What Label Studio puts before the name of a file that was uploaded to it."""

Noted = tuple[Interval, str]
"""An interval and what a person wrote about it."""


@dataclass
class Imported:
    """What became of a file's spans."""

    proposed: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: int = 0
    refused: list[str] = field(default_factory=list)
    """Why others were not taken, a clause each."""


def import_intervals(
    project: Project,
    store: Store,
    file: Path,
    *,
    video: str = "",
    fps: float | None = None,
    question: str = QUESTION,
) -> Imported:
    """Propose the intervals of a file; all of them or, where something is wrong with the file, none.

    `video` names the footage where the file does not; `fps` is the frame rate at which the other tool counted frames,
    where that is not the video's own.
    """
    if "{label}" not in question:
        raise InputError("the question needs {label} where the label goes.")
    spans = read_spans(file)
    grouped: dict[tuple[str, str], list[Noted]] = defaultdict(list)
    times: dict[str, FrameTimes] = {}
    for span in spans:
        name = _video_of(project, file, span, video)
        if name not in times:
            times[name] = _times(project, name)[0]
        try:
            grouped[name, _label(span)].append((times[name].interval(span.span, fps), span.note))
        except ValueError as error:
            raise InputError(f"{file}: {span.label[:40]!r}: {error}; is it about another video?") from None
    ledger = store.ledger()
    known = {judged.id: (judged, standing) for judged, standing in ItemIndex().with_gold(ledger)}
    asked = {(judged.proposal.video, judged.proposal.text) for judged, _ in known.values()}
    found, changes = Imported(), []
    first = len(ledger.subjects(PROPOSAL_SLOT)) + 1
    for (name, label), noted in grouped.items():
        apart = merged(noted)
        try:
            if label in known and known[label][0].gold is None:
                made = _replaced(known[label][0], name, apart)
                if made == known[label][0].proposal:
                    found.unchanged += 1
                    continue
                changes.append(Change(label, PROPOSAL_SLOT, MACHINE, made.to_json()))
                found.replaced.append(label)
                continue
            draft = _draft(question, label, apart)
            if (name, draft.question) in asked:
                found.unchanged += 1
                continue
            made = checked(draft, video=name, duration=times[name].duration, family=EVENT_COUNTING)
        except DraftError as error:
            found.refused.append(f"{name}, {label[:40]!r}: {error}")
            continue
        item = f"c{first + len(found.proposed):04}"
        changes.append(Change(item, PROPOSAL_SLOT, MACHINE, made.to_json(), expected=0))
        found.proposed.append(item)
    if changes:
        store.append(changes)
    return found


def merged(noted: Iterable[Noted]) -> list[Noted]:
    """Intervals in order, those that overlap or touch made one: what is seen without a break is seen once."""
    found: list[Noted] = []
    for interval, note in sorted(noted, key=lambda each: (each[0].start, each[0].end)):
        if found and interval.start <= found[-1][0].end:
            last, before = found[-1]
            notes = dict.fromkeys(text for text in (before, note) if text)
            found[-1] = Interval(last.start, max(last.end, interval.end)), "; ".join(notes)
        else:
            found.append((interval, note))
    return found


def _label(span: LabelledSpan) -> str:
    label = " ".join(span.label.split())[:MOST_LABEL]
    if not label or not label.isprintable():
        raise ValueError("a span without a label")
    return label


def _video_of(project: Project, file: Path, span: LabelledSpan, given: str) -> str:
    """The footage that a span is about: what the person said, or the one video with the file name that it gives."""
    videos = project.videos()
    if given:
        if given not in videos:
            raise InputError(f"{given}: no such video in the build; its videos are named like {videos[0]}.")
        return given
    name = PurePosixPath(unquote(span.media.replace("\\", "/")).partition("?")[0]).name
    for wanted in (name, _UPLOAD_PREFIX.sub("", name)):
        found = [video for video in videos if PurePosixPath(video).name == wanted]
        if len(found) == 1:
            return found[0]
    if not name and len(videos) == 1:
        return videos[0]
    raise InputError(f"{file}: which video is {name[:80]!r}? Say so with --video, as in --video {videos[0]}.")


def _times(project: Project, name: str) -> tuple[FrameTimes, int, int]:
    with open_video(project.need_path(name)) as video:
        return FrameTimes(video.timestamps, video.duration), video.width, video.height


def _draft(question: str, label: str, noted: Sequence[Noted]) -> ItemDraft:
    """A question that counts, with four numbers in a row; where the right one stands follows from the words."""
    text, count = question.replace("{label}", label), len(noted)
    place = min(hashlib.sha256(text.encode()).digest()[0] % OPTIONS, count - 1)
    return ItemDraft(
        question=text,
        options=[str(count - place + step) for step in range(OPTIONS)],
        answer=LETTERS[place],
        evidence=[[interval.start, interval.end] for interval, _ in noted],
        rationales=[note.strip() or RATIONALE.replace("{label}", label) for _, note in noted],
    )


def _replaced(judged: JudgedItem, video: str, noted: Sequence[Noted]) -> ProposedItem:
    """An item with other intervals; a counted answer follows them."""
    proposal = judged.proposal
    if video != proposal.video:
        raise DraftError(f"the item is about {proposal.video}")
    if judged.verifications or judged.seats:
        raise DraftError("people are judging it already; its intervals stay")
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


def export_intervals(project: Project, ledger: Ledger, out: Path, tool: str) -> list[Path]:
    """Write the items of a build for another tool, with the intervals that stand now; gives the files."""
    items: dict[str, list[ExportedItem]] = defaultdict(list)
    for judged, standing in ItemIndex().all(ledger):
        items[judged.proposal.video].append(_exported(judged, standing))
    if not items:
        raise InputError(f"{project.folder}: no item is proposed yet.")
    videos = []
    for name, mine in sorted(items.items()):
        times, width, height = _times(project, name)
        videos.append(ExportedVideo(name, times, width, height, tuple(mine)))
    files = {out / name: content for name, content in WRITERS[tool](videos).items()}
    if taken := next((path for path in files if path.exists()), None):
        raise InputError(f"{taken} exists already; give another folder.")
    for path, content in files.items():
        write_atomic(path, content)
    return list(files)


def _exported(judged: JudgedItem, standing: Standing) -> ExportedItem:
    proposal = judged.proposal
    evidence = standing.evidence or proposal.evidence
    notes = dict(zip(proposal.evidence, proposal.rationales, strict=True))
    same = len(evidence) == len(proposal.evidence)
    intervals = tuple(
        (interval, notes.get(interval) or (proposal.rationales[place] if same else ""))
        for place, interval in enumerate(evidence)
    )
    return ExportedItem(judged.id, proposal.text, intervals)
