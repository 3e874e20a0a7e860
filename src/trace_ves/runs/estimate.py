"""Estimates the cost of a run before anything is sent.

The method runs on questions of a twin without videos, with the backbone `lab` instead of a model. Every call is
measured: its frames, its text, its reply, and the prefix that the provider would find in its cache. The lengths of the
twin's videos are like those of the bench.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.frame_tokens import frame_tokens, text_tokens
from trace_ves.backbone.prompt_caches import SendOrder, plan, prompt_cache
from trace_ves.backbone.provider import TextPart, lay_out
from trace_ves.backbone.registry import detail_of
from trace_ves.core import Frame, InputError, UnknownStageError
from trace_ves.core.display import count_words
from trace_ves.observer import Observer
from trace_ves.records import Usage
from trace_ves.runs.cost import ESTIMATED_COLUMNS, Spent, long_call, stage_table
from trace_ves.runs.methods import default_budget, open_method
from trace_ves.runs.prices import Price, price_notes
from trace_ves.twin.lab import Lab, WorldVideo
from trace_ves.twin.synthetic.bench import TwinVideo, make_twin

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Generation, R, Request
    from trace_ves.ves.table import Table

MEASURED_QUESTIONS: Final = 24
THINKING_TOKENS: Final = 500  # Thinking per call in the second sum; the real number is unknown

WITHOUT_TOKENS: Final = frozenset({"glance", "lab", "replay"})  # Backbones that do not read text
_TWIN_QUESTIONS: Final = 120
_SEED: Final = 20_260_115


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a method with a backbone: per question and stage, and for the whole run."""

    name: str
    measured: int
    questions: int
    by_stage: dict[str, Spent]  # Sums over the measured questions
    price: Price | None

    def dollars(self, *, thinking_tokens: int = 0) -> float | None:
        """Dollars for the whole run; None if the model has no price."""
        total = sum(self.by_stage.values(), Spent())
        thinking = Usage(output_tokens=thinking_tokens * total.calls)
        total.usage += thinking
        total.long_calls = tuple((used + Usage(output_tokens=thinking_tokens), flex) for used, flex in total.long_calls)
        if total.flex != Usage():
            total.flex += thinking
        measured = total.dollars(self.price)
        return None if measured is None else measured * self.questions / self.measured

    def to_json(self) -> dict[str, object]:
        """The estimate as JSON values: stages per question, dollars for the whole run."""
        return {
            "name": self.name,
            "questions": self.questions,
            "by_stage": {
                name: {
                    "calls": stage.calls / self.measured,
                    "frames": stage.frames / self.measured,
                    "input_tokens": stage.usage.input_tokens / self.measured,
                    "cached_tokens": stage.usage.cached_tokens / self.measured,
                    "output_tokens": stage.usage.output_tokens / self.measured,
                }
                for name, stage in self.by_stage.items()
            },
            "price": None if self.price is None else self.price.to_json(),
            "dollars": self.dollars(),
            f"dollars_with_{THINKING_TOKENS}_thinking_tokens_a_call": self.dollars(thinking_tokens=THINKING_TOKENS),
        }


class _MeasuringBackbone:
    """`lab`, which counts the tokens of every call as another backbone would."""

    def __init__(self, spec: str, detail: str, *, flex: bool) -> None:
        self._lab = Lab()
        self._spec = spec
        self._detail = detail
        self._flex = flex
        self._cache = prompt_cache(spec)
        self.prompts: list[tuple[str, tuple[TextPart | Frame, ...]]] = []  # Schema and parts, for the current question
        self.name = self._lab.name
        self.by_stage: dict[str, Spent] = {}

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        generations = self._lab.generate(batch)
        layouts = [lay_out(request, lambda frame, _: frame) for request in batch]
        for step in plan(layouts, self._cache, self._count_tokens):
            request, parts, reply = batch[step.place], layouts[step.place], generations[step.place].reply
            schema = json.dumps(request.reply.model_json_schema())
            shared = self._count_tokens(parts[: max(step.shared_ends, default=0)])
            if self._cache.marked:
                cached, written = (shared, None) if step.after is not None else (0, shared or None)
            else:
                cached, written = self._count_cached(schema, parts), None
            text = reply.model_dump_json() if hasattr(reply, "model_dump_json") else ""
            usage = Usage(self._count_tokens(parts) + text_tokens(schema), cached, text_tokens(text), written)
            if self._spec.partition(":")[0] in WITHOUT_TOKENS:
                usage = Usage()
            flex = usage if self._flex else Usage()
            long = long_call(usage, flex=self._flex)
            spent = Spent(1, request.frames_supplied, usage=usage, flex=flex, long_calls=long)
            self.by_stage[request.stage] = self.by_stage.get(request.stage, Spent()) + spent
        return generations

    def _count_cached(self, schema: str, parts: tuple[TextPart | Frame, ...]) -> int:
        """The tokens of the longest prefix of earlier prompts, if the provider caches prompts automatically."""
        if self._cache.order is not SendOrder.LONGEST_FIRST:
            return 0
        earlier = [prompt for other, prompt in self.prompts if other == schema]
        self.prompts.append((schema, parts))
        common = max((_count_common(parts, prompt) for prompt in earlier), default=0)
        tokens = self._count_tokens(parts[:common])
        return tokens if tokens >= self._cache.least_tokens else 0

    def _count_tokens(self, parts: Sequence[TextPart | Frame]) -> int:
        return sum(
            text_tokens(part.text)
            if isinstance(part, TextPart)
            else frame_tokens(self._spec, part.picture.width, part.picture.height, self._detail)
            for part in parts
        )


def _count_common(left: Sequence[object], right: Sequence[object]) -> int:
    """The number of equal parts at the start of two prompts."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def estimate(
    method: str,
    spec: str,
    durations: Sequence[float],
    price: Price | None,
    *,
    budget: int | None = None,
    model_options: Mapping[str, Any] | None = None,
) -> Estimate:
    """Estimate the cost of a method with a backbone for questions about videos of these lengths in seconds.

    `model_options` are keyword arguments of `open_backbone`.
    """
    answer = open_method(method)
    options = model_options or {}
    is_flex = options.get("service_tier", "standard") != "standard"
    backbone = _MeasuringBackbone(spec, detail_of(spec, options.get("detail", "auto")), flex=is_flex)
    frames = default_budget(answer) if budget is None else budget
    videos = _select_videos(durations, make_twin(_TWIN_QUESTIONS, _SEED))
    for video in videos:
        backbone.prompts.clear()
        question = video.items[0].question
        try:
            answer(question, Observer(WorldVideo(video.truth), backbone, budget=frames))
        except UnknownStageError as error:
            raise InputError(
                f"{method} cannot be estimated: its calls are measured in a simulation, and {error}"
            ) from None
    return Estimate(f"{method} with {spec}", len(videos), len(durations), backbone.by_stage, price)


def _select_videos(durations: Sequence[float], twin: Sequence[TwinVideo]) -> list[TwinVideo]:
    """Twin videos with lengths near those of the bench, sampled evenly in order of length."""
    finite = sorted(seconds for seconds in durations if math.isfinite(seconds)) or [twin[0].items[0].duration]
    count = min(MEASURED_QUESTIONS, max(len(durations), 8))
    targets = [finite[round(place * (len(finite) - 1) / max(1, count - 1))] for place in range(count)]
    candidates = list(twin)
    videos = []
    for seconds in targets:
        nearest = min(candidates, key=lambda video: abs(video.items[0].duration - seconds))
        candidates.remove(nearest)
        videos.append(nearest)
    return videos


def estimate_table(estimates: Sequence[Estimate]) -> Table:
    """The estimated cost of runs by stage."""
    notes = []
    for each in estimates:
        plain, thinking = each.dollars(), each.dollars(thinking_tokens=THINKING_TOKENS)
        notes.append(
            f"{each.name}: no price; give one with --price or --prices."
            if plain is None
            else f"{each.name}: ${plain:.2f} for {count_words(each.questions, 'question')} without thinking, "
            f"${thinking:.2f} with {THINKING_TOKENS} thinking tokens a call."
        )
    notes += price_notes(each.price for each in estimates)
    title = "Estimated cost per question, by stage"
    return stage_table("estimate", title, estimates, " ".join(notes), columns=ESTIMATED_COLUMNS)
