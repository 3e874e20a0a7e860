"""Stage 1: captions of every window of a video, a summary of the whole video, and items drafted from the captions.

Each window and each family is an entry of the history, so that an interrupted run can continue.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, Field

from trace_ves.backbone.protocol import Backbone, ModelFault, Prompt, Request
from trace_ves.benches.bench import model_of
from trace_ves.construction.judged_item import ProposedItem
from trace_ves.construction.ledger import MACHINE, PROPOSAL_SLOT, SUMMARY_SLOT, Change, Ledger, video_subject
from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING, Clip, Interval, ObservationStrategy, VideoSource
from trace_ves.core.question import LETTERS
from trace_ves.observer import Observer

if TYPE_CHECKING:
    from trace_ves.construction.store import Store

CAPTION_STAGE: Final = "dense-caption"
PROPOSAL_STAGE: Final = "item-proposal"
WINDOW_SECONDS: Final = 30.0
OVERLAP_SECONDS: Final = 5.0
LOOK: Final = ObservationStrategy(fps=1.0, height=360)
GIST_FRAMES: Final = 16  # frames for the summary of a video
BATCH: Final = 4  # windows captioned at once; an interruption loses at most these

OPTIONS: Final = 4
FEWEST_INTERVALS: Final = 2
MOST_INTERVALS: Final = 24
SHORTEST_SECONDS: Final = 1.0  # shorter proposed intervals are widened

LEAST_SECONDS: Final = 0.1  # the shortest interval that an annotator may set
LONGEST_SHARE: Final = 0.5  # the longest interval, as a share of its video

SCHEMAS: Final = {  # instructions for the proposing model, by family
    TEMPORAL_ORDERING: (
        "Ask for the relative order of two or more events that happen once each. The options are four different orders "
        "of the same events. The evidence has one interval for each event, in order of time."
    ),
    EVENT_COUNTING: (
        "Ask how many separate times one event happens. The options are four different whole numbers, in digits. The "
        "evidence has one interval for every occurrence in the video, in order of time, so that the right number is "
        "the number of intervals."
    ),
}


@cache
def load_prompt(stage: str) -> Prompt:
    """The prompt of a construction stage."""
    return Prompt.load(files(__package__).joinpath("prompts"), stage)


class NoFootage:
    """The video of a request without frames."""

    duration = 0.0

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Any, ...]:
        """Raise: a request without frames must not ask for any."""
        raise RuntimeError(f"a request without footage asked for {len(seconds)} frames of height {height}")


def list_calls(observer: Observer) -> tuple[dict[str, Any], ...]:
    """The calls of an observer for the history, each with the spec of its backbone."""
    return tuple({"backbone": observer.backbone.name} | call.to_json() for call in observer.log.calls)


class ItemDraft(BaseModel):
    """One item as the model drafts it."""

    question: str = Field(min_length=1, max_length=1000)
    options: list[str] = Field(description="Four options.")
    answer: str = Field(description="The letter of the right option, A to D.")
    evidence: list[list[float]] = Field(description="Start and end of each interval, in seconds of the video.")
    rationales: list[str] = Field(description="For each interval, the visual fact that it should attest.")


class DraftsReply(BaseModel):
    """The proposing model's reply."""

    items: list[ItemDraft]


class DraftError(ValueError):
    """A draft breaks a rule of its family; the message is a clause."""


def check_draft(draft: ItemDraft, *, video: str, duration: float, family: str) -> ProposedItem:
    """Turn a draft into a proposal; a `DraftError` names the rule that it breaks."""
    options = tuple(option.strip() for option in draft.options)
    if len(options) != OPTIONS or len({option.casefold() for option in options}) != OPTIONS or not all(options):
        raise DraftError(f"it needs {OPTIONS} different options, found {len(options)}")
    answer = draft.answer.strip().strip("().").upper()
    if len(answer) != 1 or answer not in LETTERS[:OPTIONS]:
        raise DraftError(f"its answer must be one of A-{LETTERS[OPTIONS - 1]}, found {draft.answer[:20]!r}")
    evidence = tuple(_widen(pair, duration) for pair in draft.evidence)
    check_evidence(evidence, duration)
    if len(draft.rationales) != len(evidence) or not all(text.strip() for text in draft.rationales):
        raise DraftError(f"it needs a rationale for each of {len(evidence)} intervals, found {len(draft.rationales)}")
    check_count(family, options[LETTERS.index(answer)], evidence)
    rationales = tuple(text.strip()[:500] for text in draft.rationales)
    return ProposedItem(video, duration, family, draft.question.strip(), options, answer, evidence, rationales)


def _widen(pair: list[float], duration: float) -> Interval:
    if len(pair) != 2:
        raise DraftError(f"an interval has two numbers, found {len(pair)}")
    start, end = pair
    if not 0 <= start <= end <= duration:
        raise DraftError(f"the interval {start:g}-{end:g} s does not lie in the video of {duration:g} s")
    if end - start < SHORTEST_SECONDS:
        start = min(max(0.0, (start + end - SHORTEST_SECONDS) / 2), max(0.0, duration - SHORTEST_SECONDS))
        end = min(duration, start + SHORTEST_SECONDS)
    return Interval(round(start, 3), min(round(end, 3), duration))


def check_evidence(evidence: Sequence[Interval], duration: float) -> None:
    """Raise a `DraftError` if intervals are too few, many, short or long, overlap, or exceed the video."""
    if not FEWEST_INTERVALS <= len(evidence) <= MOST_INTERVALS:
        raise DraftError(f"it needs {FEWEST_INTERVALS} to {MOST_INTERVALS} intervals, found {len(evidence)}")
    for interval in evidence:
        name = f"the interval {interval.start:g}-{interval.end:g} s"
        if not 0 <= interval.start <= interval.end <= duration:
            raise DraftError(f"{name} does not lie in the video of {duration:g} s")
        if not LEAST_SECONDS <= interval.length <= LONGEST_SHARE * duration:
            raise DraftError(f"{name} must be {LEAST_SECONDS:g} to {LONGEST_SHARE * duration:g} s long")
    if any(later.start < earlier.end for earlier, later in pairwise(evidence)):
        raise DraftError("its intervals overlap or are not in order of time")


def check_count(family: str, right: str, evidence: Sequence[Interval]) -> None:
    """Raise a `DraftError` if the right option of a counting item is not the number of its intervals."""
    number = re.search(r"\d+", right)
    if family == EVENT_COUNTING and (number is None or int(number[0]) != len(evidence)):
        raise DraftError(f"the right count is {right[:20]!r}, but there are {len(evidence)} intervals")


class CaptionReply(BaseModel):
    """The captioning model's reply."""

    caption: str = Field(min_length=1, max_length=8000, description="What is seen, with seconds of the video.")


def list_windows(duration: float) -> list[Interval]:
    """Windows of 30 s with 5 s of overlap; the last window ends with the video."""
    windows: list[Interval] = []
    start = 0.0
    while not windows or windows[-1].end < duration:
        windows.append(Interval(start, min(start + WINDOW_SECONDS, duration)))
        start += WINDOW_SECONDS - OVERLAP_SECONDS
    return windows


def caption_video(
    store: Store, video: str, source: VideoSource, backbone: Backbone, *, on_progress: Callable[[int, int], None]
) -> None:
    """Caption every window that has no caption yet, and summarise the whole video from a few frames."""
    subject, ledger = video_subject(video), store.ledger()
    windows = list_windows(source.duration)
    missing = [place for place in range(len(windows)) if ledger.caption(video, f"caption/{place}") is None]
    for start in range(0, len(missing), BATCH):
        batch = missing[start : start + BATCH]
        observer = Observer(source, backbone)
        clips = [observer.watch(windows[place], LOOK) for place in batch]
        _caption_clips(store, subject, [f"caption/{place}" for place in batch], clips, observer)
        on_progress(len(windows) - len(missing) + start + len(batch), len(windows))
    if ledger.caption(video, SUMMARY_SLOT) is None:
        observer = Observer(source, backbone)
        clip = observer.survey(observer.whole, GIST_FRAMES, height=LOOK.height)
        _caption_clips(store, subject, [SUMMARY_SLOT], [clip], observer)


def _caption_clips(store: Store, subject: str, slots: Sequence[str], clips: Sequence[Clip], observer: Observer) -> None:
    prompt = load_prompt(CAPTION_STAGE)
    requests = [
        Request(prompt, {"start": f"{clip.span.start:.1f}", "end": f"{clip.span.end:.1f}"}, CaptionReply, (clip,))
        for clip in clips
    ]
    values = [
        {"fault": reply.reason} if isinstance(reply, ModelFault) else {"caption": reply.caption}
        for reply in observer.ask(requests)
    ]
    store.append(
        [
            Change(subject, slot, MACHINE, value, calls=(call,))
            for slot, value, call in zip(slots, values, list_calls(observer), strict=True)
        ]
    )


def propose_items(store: Store, video: str, duration: float, family: str, backbone: Backbone) -> tuple[int, list[str]]:
    """Draft items of a family from a video's captions, once; returns their number and why other drafts were refused."""
    subject, ledger = video_subject(video), store.ledger()
    earlier = ledger.value(subject, f"proposed/{family}")
    if earlier is not None and "fault" not in earlier:
        return 0, []
    captions = [
        {"start": span.start, "end": span.end, "caption": caption}
        for place, span in enumerate(list_windows(duration))
        if (caption := ledger.caption(video, f"caption/{place}")) is not None
    ]
    variables = {
        "captions": captions,
        "family": family,
        "schema": SCHEMAS.get(family, ""),
        "duration": f"{duration:.1f}",
    }
    observer = Observer(NoFootage(), backbone)
    [reply] = observer.ask([Request(load_prompt(PROPOSAL_STAGE), variables, DraftsReply)])
    calls = list_calls(observer)
    if isinstance(reply, ModelFault):
        store.append([Change(subject, f"proposed/{family}", MACHINE, {"fault": reply.reason}, calls=calls)])
        return 0, [reply.reason]
    proposals, refused = [], []
    for draft in reply.items:
        try:
            proposals.append(check_draft(draft, video=video, duration=duration, family=family))
        except DraftError as error:
            refused.append(str(error))
    ids = [new_item_id() for _ in proposals]
    items = [
        Change(name, PROPOSAL_SLOT, MACHINE, proposal.to_json(), expected=0)
        for name, proposal in zip(ids, proposals, strict=True)
    ]
    note = {"items": ids, "refused": refused}
    store.append([*items, Change(subject, f"proposed/{family}", MACHINE, note, calls=calls)])
    return len(ids), refused


def new_item_id() -> str:
    """A random id, which does not reveal when, how or why the item was proposed."""
    return f"c{secrets.token_hex(4)}"


def dependence_warning(ledger: Ledger, spec: str) -> str | None:
    """A warning if the model of a probe also proposed the items, else None."""
    proposers = {backbone for backbone, call in ledger.calls() if call.stage in {CAPTION_STAGE, PROPOSAL_STAGE}}
    if model_of(spec) not in map(model_of, proposers):
        return None
    return f"{spec} helped to propose these items; the leave-one-out probe should be an independent model"
