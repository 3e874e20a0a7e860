"""The only path from a video to a backbone.

Decoding is free. Every frame that is sent to a model is charged to the budget, logged, and counts as observed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.protocol import Backbone, Generation, ModelFault, R, Request, validate_generations
from trace_ves.backbone.secret import mask_known_keys
from trace_ves.core import (
    Answer,
    BackboneError,
    BudgetError,
    Clip,
    Frame,
    Interval,
    ObservationStrategy,
    Question,
    VideoSource,
    centred_uniform,
)
from trace_ves.records import Call, ClipRecord, ObservationLog
from trace_ves.records.transcript import CallTexts, ModelText, Transcript, make_transcript

if TYPE_CHECKING:
    from pydantic import BaseModel

    from trace_ves.core.subtitles import Subtitles
    from trace_ves.records.search import Decision

UNLIMITED: Final = sys.maxsize
"""The budget of a method without a budget."""


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """A method starts a round."""

    number: int
    """From 1."""


@dataclass(frozen=True, slots=True)
class StageStarted:
    """A batch of calls of one stage is being sent."""

    stage: str
    spans: tuple[Interval, ...] = ()
    """The spans of its clips."""
    timestamps: tuple[float, ...] = ()
    """The frames of the batch, each once, in order of time."""


@dataclass(frozen=True, slots=True)
class Decided:
    """TRACE has chosen what to do next."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """A call of a batch has its reply."""

    call: Call
    """Its stage, frames and cost."""
    spans: tuple[Interval, ...]
    """The spans of its clips, in the order in which the model saw them."""
    reply: BaseModel | ModelFault


@dataclass(frozen=True, slots=True)
class ReplyRejected:
    """A reply of the model could not be used, even after one repair."""

    stage: str
    reason: str
    raw: str
    """The text of the model; empty if it returned none."""


Event = RoundStarted | StageStarted | CallAnswered | Decided | ReplyRejected
"""The events that progress displays show."""


@dataclass(frozen=True, slots=True)
class Progress:
    """An event, and the frames supplied before it."""

    event: Event
    frames_supplied: int
    budget: int


Listener = Callable[[Progress], None]


Memory = dict[tuple[tuple[float, int], ...], object]
"""Results of earlier questions of a session, by their frames."""


def _memory_key(clip: Clip) -> tuple[tuple[float, int], ...]:
    return tuple((frame.seconds, frame.picture.height) for frame in clip.frames)


@dataclass(slots=True)
class Observer:
    """Looks at one video with one backbone for one question, within a budget of supplied frames."""

    video: VideoSource
    backbone: Backbone
    budget: int = UNLIMITED
    listener: Listener = field(default=lambda _: None, repr=False)
    subtitles: Subtitles | None = None
    """The subtitles of the video, if the model may see them; for `Request.subtitles`."""
    memory: Memory | None = field(default=None, repr=False)
    """Results of earlier questions about the same video; None if questions share nothing."""
    _charged: int = field(default=0, init=False, repr=False)
    _calls: list[Call] = field(default_factory=list, init=False, repr=False)
    _texts: list[CallTexts] = field(default_factory=list, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @property
    def whole(self) -> Interval:
        """The span of the whole video."""
        return Interval(0, self.video.duration)

    @property
    def remaining(self) -> int:
        """The number of frames that may still be supplied."""
        with self._lock:
            return max(0, self.budget - self._charged)

    @property
    def log(self) -> ObservationLog:
        """Every call so far, in the order of their replies."""
        with self._lock:
            return ObservationLog(tuple(self._calls))

    def transcript(self, question_id: str) -> Transcript:
        """The prompts and replies of every call so far, in the order of the log: shortened, and without keys."""
        with self._lock:
            texts = list(self._texts)

        @cache  # the calls of a batch often share their prompt
        def clean(text: str) -> str:
            return mask_known_keys(text.encode("utf-8", "replace").decode("utf-8"))

        calls = []
        for call in texts:
            replies = [ModelText(clean(each.text), each.problem and clean(each.problem)) for each in call.replies]
            calls.append(replace(call, prompt=clean(call.prompt), replies=tuple(replies)))
        return make_transcript(question_id, calls, self.backbone.name.partition("@")[0])

    def watch(self, span: Interval, strategy: ObservationStrategy, *, limit: int | None = None) -> Clip:
        """Decode a span at the strategy's rate, centred-uniform: at most `limit` frames, each once."""
        count = max(1, round(span.length * strategy.fps))
        moments = centred_uniform(span, count if limit is None else min(count, limit))
        return Clip(span, strategy, self.frames_at(moments, height=strategy.height))

    def survey(self, span: Interval, count: int, *, height: int) -> Clip:
        """Decode `count` frames spread evenly over a span, each once."""
        strategy = ObservationStrategy(fps=count / max(span.length, sys.float_info.epsilon), height=height)
        return Clip(span, strategy, self.frames_at(centred_uniform(span, count), height=height))

    def frames_at(self, seconds: Sequence[float], *, height: int) -> tuple[Frame, ...]:
        """The frames shown at these moments, each once, and not larger than the backbone accepts unscaled."""
        frames = self.video.frames_at(seconds, height=height)
        longest: int | None = getattr(self.backbone, "longest_side_px", None)
        picture = frames[0].picture if frames else None
        if picture and longest and longest < max(picture.width, picture.height):
            height = picture.height * longest // max(picture.width, picture.height) // 2 * 2
            frames = self.video.frames_at(seconds, height=height)
        return tuple({frame.pts: frame for frame in frames}.values())

    def ask(self, batch: Sequence[Request[R]]) -> list[R | ModelFault]:
        """Supply the frames of a batch to the backbone and return one reply or fault for each request.

        Every prompt is rendered first, so that a misspelt variable fails with every backbone. Then the whole batch is
        charged, or refused with `BudgetError`. Only then is anything sent.
        """
        if not batch:
            return []
        prompts = [request.text for request in batch]
        self._charge(sum(request.frames_supplied for request in batch))
        clips = [clip for request in batch for clip in request.clips]
        moments = sorted({frame.seconds for clip in clips for frame in clip.frames})
        self.announce(StageStarted(batch[0].stage, tuple(clip.span for clip in clips), tuple(moments)))
        try:
            generations = validate_generations(self.backbone.name, batch, self.backbone.generate(batch))
        except BackboneError as error:
            self._log([(prompts[at], batch[at], each) for at, each in sorted(error.charged.items())])
            raise
        calls = self._log(list(zip(prompts, batch, generations, strict=True)))
        for request, generation, call in zip(batch, generations, calls, strict=True):
            self.announce(CallAnswered(call, tuple(clip.span for clip in request.clips), generation.reply))
            if isinstance(generation.reply, ModelFault):
                self.announce(ReplyRejected(request.stage, generation.reply.reason, generation.reply.raw))
        return [generation.reply for generation in generations]

    def _log(self, exchanges: Sequence[tuple[str, Request[R], Generation[R]]]) -> list[Call]:
        """Log the calls of a batch; frames that were sent again are charged again."""
        calls = [_make_call(request, generation) for _, request, generation in exchanges]
        with self._lock:
            self._charged += sum(map(len, (call.timestamps for call in calls)))
            self._charged -= sum(request.frames_supplied for _, request, _ in exchanges)
            self._calls.extend(calls)
            self._texts.extend(_make_texts(*each) for each in exchanges)
        return calls

    def recall(self, stage: str, clip: Clip) -> object | None:
        """The result that an earlier question remembered for exactly these frames; None if there is none.

        The answer then depends on these frames, so they are charged and logged, although nothing is sent.
        """
        result = self.memory.get(_memory_key(clip)) if self.memory is not None else None
        if result is not None:
            self._charge(len(clip.frames))
            seconds = tuple(frame.seconds for frame in clip.frames)
            heights = tuple(frame.picture.height for frame in clip.frames)
            with self._lock:
                self._calls.append(Call(stage, seconds, heights, remembered=True))
                self._texts.append(CallTexts(stage, "", (ClipRecord.of(clip),), raw=False))
        return result

    def remember(self, clip: Clip, result: object) -> None:
        """Store a result from these frames for later questions of the session."""
        if self.memory is not None:
            self.memory[_memory_key(clip)] = result

    @contextmanager
    def reserving(self, frames: int) -> Iterator[None]:
        """Reserve frames for a later call: within the block, the budget is smaller by this number."""
        reserve = frames if self.budget != UNLIMITED else 0
        self.budget -= reserve
        try:
            yield
        finally:
            self.budget += reserve

    def announce(self, event: Event) -> None:
        """Pass an event to the listener."""
        self.listener(Progress(event, self._charged, self.budget))

    def _charge(self, frames: int) -> None:
        with self._lock:
            if self._charged + frames > self.budget:
                raise BudgetError(
                    f"a call with {frames} frames was refused: "
                    f"{self.budget - self._charged} of {self.budget} frames are left; raise the budget."
                )
            self._charged += frames


def _make_call(request: Request[R], generation: Generation[R]) -> Call:
    frames = [frame for clip in request.clips for frame in clip.frames] * generation.sends
    return Call(
        stage=request.stage,
        timestamps=tuple(frame.seconds for frame in frames),
        heights=tuple(frame.picture.height for frame in frames),
        usage=generation.usage,
        seconds=generation.seconds,
        fault=generation.reply.reason if isinstance(generation.reply, ModelFault) else None,
        service_tier=generation.service_tier,
        suspect=generation.suspect or None,
        subtitles=len(request.subtitles.cues) if request.subtitles else None,
        undetermined=generation.undetermined or None,
    )


def _make_texts(prompt: str, request: Request[R], generation: Generation[R]) -> CallTexts:
    """The texts of a call; without a text of the model, the reply as JSON."""
    reply, texts = generation.reply, generation.texts
    if not texts and isinstance(reply, ModelFault):
        texts = (ModelText(reply.raw, reply.reason),)
    is_raw = bool(texts)
    if not texts and not isinstance(reply, ModelFault):
        texts = (ModelText(reply.model_dump_json()),)
    return CallTexts(request.stage, prompt, tuple(ClipRecord.of(clip) for clip in request.clips), texts, is_raw)


Method = Callable[[Question, Observer], Answer]
"""A callable that answers a question: TRACE, a baseline, or your own."""
