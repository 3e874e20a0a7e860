"""Stage 1: dense captions of every window of a video, a coarse gist of the whole, and items drafted from captions.

Each window and each family is one entry of the history, so that a stopped run goes on where it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, Field

from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.construction.judged_item import SCHEMAS, DraftError, DraftsReply, checked
from trace_ves.construction.ledger import Change
from trace_ves.construction.requests import calls_of, prompt
from trace_ves.construction.stages import PROPOSAL_SLOT
from trace_ves.core import Interval, ObservationStrategy
from trace_ves.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.store import Store
    from trace_ves.core import Clip, VideoSource

CAPTION_STAGE: Final = "dense-caption"
PROPOSAL_STAGE: Final = "item-proposal"
WINDOW_SECONDS: Final = 30.0
OVERLAP_SECONDS: Final = 5.0
LOOK: Final = ObservationStrategy(fps=1.0, height=360)
GIST_FRAMES: Final = 16
"""Frames of the coarse look that the global summary is written from."""
SUMMARY_SLOT: Final = "gist"
BATCH: Final = 4
"""Windows captioned at once; a kill loses no more than these."""
MACHINE: Final = "build"
"""Who writes what no person judged."""


class CaptionReply(BaseModel):
    """What the captioning model replies."""

    caption: str = Field(min_length=1, max_length=8000, description="What is seen, with seconds of the video.")


def windows(duration: float) -> list[Interval]:
    """Windows of 30 s with 5 s of overlap; the last one ends with the video."""
    found: list[Interval] = []
    start = 0.0
    while not found or found[-1].end < duration:
        found.append(Interval(start, min(start + WINDOW_SECONDS, duration)))
        start += WINDOW_SECONDS - OVERLAP_SECONDS
    return found


def video_subject(video: str) -> str:
    """The subject under which the history keeps what is known of a video."""
    return f"video:{video}"


def caption_video(
    store: Store, video: str, source: VideoSource, backbone: Backbone, *, on_progress: Callable[[int, int], None]
) -> None:
    """Caption every window that has none yet, and the whole video from a few frames."""
    subject, ledger = video_subject(video), store.ledger()
    spans = windows(source.duration)
    missing = [place for place in range(len(spans)) if _caption(ledger, subject, f"caption/{place}") is None]
    for batch in _batches(missing):
        observer = Observer(source, backbone)
        clips = [observer.watch(spans[place], LOOK) for place in batch]
        _write(store, subject, [f"caption/{place}" for place in batch], clips, observer)
        on_progress(len(spans) - len(missing) + missing.index(batch[-1]) + 1, len(spans))
    if _caption(ledger, subject, SUMMARY_SLOT) is None:
        observer = Observer(source, backbone)
        clip = observer.survey(observer.whole, GIST_FRAMES, height=LOOK.height)
        _write(store, subject, [SUMMARY_SLOT], [clip], observer)


def gist_of(ledger: Ledger, video: str) -> str | None:
    """The global summary of a video; None where none was written."""
    return _caption(ledger, video_subject(video), SUMMARY_SLOT)


def propose_items(store: Store, video: str, duration: float, family: str, backbone: Backbone) -> tuple[int, list[str]]:
    """Draft items of a family from a video's captions, once; how many were taken, and why others were refused."""
    subject, ledger = video_subject(video), store.ledger()
    done = ledger.value(subject, f"proposed/{family}")
    if done is not None and "fault" not in done:
        return 0, []
    captions = [
        {"start": span.start, "end": span.end, "caption": caption}
        for place, span in enumerate(windows(duration))
        if (caption := _caption(ledger, subject, f"caption/{place}")) is not None
    ]
    variables = {
        "captions": captions,
        "family": family,
        "schema": SCHEMAS.get(family, ""),
        "duration": f"{duration:.1f}",
    }
    observer = Observer(NoFootage(), backbone)
    [reply] = observer.ask([Request(prompt(PROPOSAL_STAGE), variables, DraftsReply)])
    calls = calls_of(observer, backbone)
    if isinstance(reply, ModelFault):
        store.append([Change(subject, f"proposed/{family}", MACHINE, {"fault": reply.reason}, calls=calls)])
        return 0, [reply.reason]
    proposals, refused = [], []
    for draft in reply.items:
        try:
            proposals.append(checked(draft, video=video, duration=duration, family=family))
        except DraftError as error:
            refused.append(str(error))
    first = len(ledger.subjects(PROPOSAL_SLOT)) + 1
    ids = [f"c{first + place:04}" for place in range(len(proposals))]
    items = [
        Change(name, PROPOSAL_SLOT, MACHINE, proposal.to_json(), expected=0)
        for name, proposal in zip(ids, proposals, strict=True)
    ]
    note = {"items": ids, "refused": refused}
    store.append([*items, Change(subject, f"proposed/{family}", MACHINE, note, calls=calls)])
    return len(ids), refused


class NoFootage:
    """The video of a call that sees none."""

    duration = 0.0

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Any, ...]:
        """There are no frames here."""
        raise RuntimeError(f"a call of words alone asked for {len(seconds)} frames of height {height}")


def _write(store: Store, subject: str, slots: Sequence[str], clips: Sequence[Clip], observer: Observer) -> None:
    """Ask for the captions of clips, and note each of them with what it cost."""
    words = prompt(CAPTION_STAGE)
    requests = [
        Request(words, {"start": f"{clip.span.start:.1f}", "end": f"{clip.span.end:.1f}"}, CaptionReply, (clip,))
        for clip in clips
    ]
    replies = observer.ask(requests)
    calls = calls_of(observer, observer.backbone)
    store.append(
        [
            Change(subject, slot, MACHINE, _said(reply), calls=(call,))
            for slot, reply, call in zip(slots, replies, calls, strict=True)
        ]
    )


def _said(reply: CaptionReply | ModelFault) -> dict[str, str]:
    return {"fault": reply.reason} if isinstance(reply, ModelFault) else {"caption": reply.caption}


def _caption(ledger: Ledger, subject: str, slot: str) -> str | None:
    value = ledger.value(subject, slot)
    return None if value is None else value.get("caption")


def _batches(places: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(places), BATCH):
        yield places[start : start + BATCH]
