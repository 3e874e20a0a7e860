"""Video Curious Agent: a tree search over segments, guided by a reward call, with a frame memory of fixed size.

The root segment is the whole video. N frames strictly inside the chosen segment split it into N + 1 children; a reward
call sees the new frames and rates every child from 0 to 100; a frame is as relevant as the better of its neighbours,
and the memory keeps the most relevant ones in order of time. An exploration call sees the memory and the rated
candidates, and explores one of them or answers. The expanded segment leaves the candidates; older, coarser ones may
still be chosen. Frames that a call sees again are paid for again. Sources: `docs/decisions/0030-baselines.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, Field, create_model

from trace_ves.backbone.protocol import ModelFault
from trace_ves.backbone.replies import answer_reply, restrict_answer
from trace_ves.baselines.direct import DEFAULT_HEIGHT, ask_stage, get_answer
from trace_ves.core import Answer, Clip, Frame, Interval, ObservationStrategy, Question, Termination
from trace_ves.records.search import Fault, VcaDecision, VcaRating, VcaRecord, VcaSegment, VcaStep

if TYPE_CHECKING:
    from trace_ves.observer import Observer


class VcaScore(BaseModel):
    """The relevance of one segment; the explanation comes first, so that the number follows from it."""

    segment: int
    explanation: str = ""
    relevance: int = Field(ge=0, le=100)


class VcaReward(BaseModel):
    """One score for every new segment."""

    scores: list[VcaScore]


class VcaExploration(BaseModel):
    """Explore one candidate segment, or answer. What the memory shows comes first."""

    seen: str = ""
    action: Literal["explore", "answer"]
    segment: int | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A node of the search tree."""

    id: int
    span: Interval
    relevance: int = 0

    @property
    def record(self) -> VcaSegment:
        """The segment as prompts and records show it."""
        return VcaSegment(self.id, round(self.span.start, 2), round(self.span.end, 2), self.relevance)


@dataclass(frozen=True, slots=True)
class Vca:
    """Video Curious Agent. The published temperature of 0.5 is not used: the backbone's applies to all methods."""

    frames: int = 7  # N: new frames of one step, which split a segment into N + 1
    memory: int = 16  # As published for long videos; 8 for short ones
    steps: int = 16  # Then the answer is forced; one of two limits in reproductions
    default_budget: int | None = None  # Supplied frames for one question; None for no limit

    def __call__(self, question: Question, observer: Observer) -> Answer:
        """Expand, rate, remember and decide, step by step."""
        search = _VcaSearch(question, observer, self.memory)
        chosen_segment: Segment | None = Segment(0, observer.whole)
        for step in range(1, self.steps + 1):
            # 1. Split the chosen segment, if the budget covers rating it.
            if chosen_segment is None or observer.remaining < self.frames:
                break
            search.expand(chosen_segment, self.frames)
            # 2. After the last step, or if the budget does not cover another one, there is nothing to decide.
            memory_frames = len(search.remembered)
            next_step = self.frames + min(self.memory, memory_frames + self.frames)
            if step == self.steps or observer.remaining < memory_frames + next_step:
                break
            # 3. Explore a candidate, or answer if the model says so.
            decision = search.decide()
            if isinstance(decision, VcaExploration) and decision.action == "answer" and decision.answer is not None:
                return Answer(decision.answer, Termination.SELF_REPORTED, (search.clip(),), search.record())
            chosen_segment = search.next_segment(decision)
        option = search.forced_answer()
        return Answer(option, Termination.EXHAUSTED, (search.clip(),), search.record())


SHORTEST_SECONDS: Final = 1e-6  # A frame nearer than this to a border does not split a segment


@dataclass(slots=True)
class _VcaSearch:
    """The tree, the memory and the record of one question's search."""

    question: Question
    observer: Observer
    memory_size: int
    candidates: dict[int, Segment] = field(default_factory=dict)
    remembered: dict[int, tuple[int, Frame]] = field(default_factory=dict)
    """Relevance and frame, by the frame's identity."""
    steps: list[VcaStep] = field(default_factory=list)
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    def expand(self, segment: Segment, frame_count: int) -> None:
        """Split a segment at the frames strictly inside it, rate the children, and remember the best frames."""
        self.candidates.pop(segment.id, None)
        span = segment.span
        moments = [span.start + number * span.length / (frame_count + 1) for number in range(1, frame_count + 1)]
        frames = tuple(
            frame
            for frame in self.observer.frames_at(moments, height=DEFAULT_HEIGHT)
            if span.start + SHORTEST_SECONDS < frame.seconds < span.end - SHORTEST_SECONDS
        )
        clip = Clip(span, ObservationStrategy(frame_count / max(span.length, SHORTEST_SECONDS), DEFAULT_HEIGHT), frames)
        self.steps.append(VcaStep(segment.record, tuple(frame.seconds for frame in frames)))
        if not frames:
            return
        borders = [span.start, *(frame.seconds for frame in frames), span.end]
        parts = [Segment(next(self._ids), Interval(*part), segment.relevance) for part in pairwise(borders)]
        children = self._rate(parts, clip)
        self.candidates.update((child.id, child) for child in children)
        for frame, left, right in zip(frames, children[:-1], children[1:], strict=True):
            self.remembered[frame.pts] = (max(left.relevance, right.relevance), frame)
        self._forget_beyond(self.memory_size)

    def decide(self) -> VcaExploration | ModelFault:
        """Show the memory and the candidates, and ask what to do."""
        segments = [segment.record.to_json() for segment in self.candidates.values()]
        ids = tuple(self.candidates)
        kind: Any = Literal[ids] | None if ids else None
        base = restrict_answer(VcaExploration, self.question)
        reply_type = create_model("VcaExploration", __base__=base, segment=(kind, None))
        reply = ask_stage(self.observer, self.question, "vca-explore", reply_type, [self.clip()], segments=segments)
        decision = (
            Fault(reply.reason)
            if isinstance(reply, ModelFault)
            else VcaDecision(reply.action, reply.segment, reply.answer)
        )
        self.steps[-1] = replace(self.steps[-1], decision=decision)
        return reply

    def next_segment(self, decision: VcaExploration | ModelFault) -> Segment | None:
        """The chosen candidate; the best-rated one if none was chosen; None if there is none."""
        if isinstance(decision, VcaExploration) and decision.segment is not None:
            return self.candidates[decision.segment]
        return max(self.candidates.values(), key=lambda segment: segment.relevance, default=None)

    def forced_answer(self) -> str | None:
        """Answer from the most relevant frames of the memory that the budget still covers."""
        self._forget_beyond(self.observer.remaining)
        reply_type = answer_reply(self.question, forced=True)
        return get_answer(ask_stage(self.observer, self.question, "vca-answer", reply_type, [self.clip()]))

    def clip(self) -> Clip:
        """The memory, in order of time."""
        frames = tuple(frame for _, frame in sorted(self.remembered.values(), key=lambda entry: entry[1].seconds))
        whole = self.observer.whole
        fps = max(1, len(frames)) / max(whole.length, SHORTEST_SECONDS)
        return Clip(whole, ObservationStrategy(fps, DEFAULT_HEIGHT), frames)

    def record(self) -> dict[str, object]:
        return VcaRecord(tuple(self.steps)).to_json()

    def _rate(self, children: Sequence[Segment], clip: Clip) -> list[Segment]:
        records = [child.record for child in children]
        segments = [{"segment": each.segment, "start": each.start, "end": each.end} for each in records]
        candidates = [segment.record.to_json() for segment in self.candidates.values()]
        reply = ask_stage(
            self.observer, self.question, "vca-reward", VcaReward, [clip], segments=segments, ratings=candidates
        )
        # a child without a rating has that of its parent; the root's is 0
        scores = {} if isinstance(reply, ModelFault) else {score.segment: score for score in reply.scores}
        ratings = tuple(
            VcaRating(each.segment, each.start, each.end, score.relevance, score.explanation)
            if (score := scores.get(each.segment))
            else VcaRating(each.segment, each.start, each.end, each.relevance)
            for each in records
        )
        self.steps[-1] = replace(self.steps[-1], scores=ratings)
        return [replace(child, relevance=rating.relevance) for child, rating in zip(children, ratings, strict=True)]

    def _forget_beyond(self, size: int) -> None:
        """Forget the least relevant frames until the memory has this size."""
        while len(self.remembered) > size:
            self.remembered.pop(min(self.remembered, key=lambda pts: self.remembered[pts][0]))
