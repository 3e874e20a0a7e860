"""What a run will cost, before anything is sent.

The method itself is run on questions of a twin that was never drawn, with the backbone `lab` in place of a model, and
every call is measured: its frames, its words, its reply. Twin videos are taken whose lengths are those of the bench.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.content import TextPart, lay_out
from trace_ves.backbone.lab.lab import Lab
from trace_ves.backbone.lab.video import WorldVideo
from trace_ves.backbone.structured import reply_schema
from trace_ves.core import InputError, UnknownStageError
from trace_ves.cost.frame_tokens import frame_tokens
from trace_ves.methods import default_budget, open_method
from trace_ves.observer import Observer
from trace_ves.records import Usage
from trace_ves.report.table import Column, Row, Section, Table, Value
from trace_ves.synthetic.bench import make_twin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trace_ves.backbone.protocol import Generation, R, Request
    from trace_ves.cost.prices import Price
    from trace_ves.synthetic.bench import TwinVideo

MEASURED_QUESTIONS: Final = 24
THINKING_TOKENS: Final = 500
"""A call's thinking in the second sum; how much a model thinks is not known before."""
CHARS_A_TOKEN: Final = 4.0
"""Of English words and JSON, roughly, for every provider's tokenizer."""

_TWIN_QUESTIONS: Final = 120
_SEED: Final = 20_260_115


@dataclass(slots=True)
class StageEstimate:
    """What one stage comes to, over the questions measured."""

    calls: int = 0
    frames: int = 0
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one method with one backbone comes to for one question, by stage, and for the whole run."""

    name: str
    spec: str
    measured: int
    questions: int
    by_stage: dict[str, StageEstimate]
    price: Price | None
    flex: bool = False

    def dollars(self, *, thinking_tokens: int = 0) -> float | None:
        """Dollars for the whole run; None where the model has no price."""
        usage = sum((stage.usage for stage in self.by_stage.values()), Usage())
        calls = sum(stage.calls for stage in self.by_stage.values())
        return self._price(usage + Usage(output_tokens=thinking_tokens * calls), self.questions)

    def _price(self, usage: Usage, questions: int) -> float | None:
        if self.price is None:
            return None
        return self.price.of(usage, usage if self.flex else None) * questions / self.measured

    def section(self) -> Section:
        """The stages and their sum, each for one question."""
        whole = StageEstimate(
            sum(stage.calls for stage in self.by_stage.values()),
            sum(stage.frames for stage in self.by_stage.values()),
            sum((stage.usage for stage in self.by_stage.values()), Usage()),
        )
        rows = [self._row(name, stage) for name, stage in self.by_stage.items()]
        return Section(f"{self.name} ({self.questions} questions)", (*rows, self._row("all stages", whole)))

    def _row(self, name: str, stage: StageEstimate) -> Row:
        money = self._price(stage.usage, 1)
        cells = (
            f"{stage.calls / self.measured:.2f}",
            f"{stage.frames / self.measured:.1f}",
            f"{stage.usage.input_tokens / self.measured:,.0f}",
            f"{stage.usage.output_tokens / self.measured:,.0f}",
            "?" if money is None else f"${money:.4f}",
        )
        return Row(name, tuple((Value(cell),) for cell in cells))

    def to_json(self) -> dict[str, object]:
        """The estimate, for machines: stages for one question, dollars for the whole run."""
        return {
            "name": self.name,
            "questions": self.questions,
            "by_stage": {
                name: {
                    "calls": stage.calls / self.measured,
                    "frames": stage.frames / self.measured,
                    "input_tokens": stage.usage.input_tokens / self.measured,
                    "output_tokens": stage.usage.output_tokens / self.measured,
                }
                for name, stage in self.by_stage.items()
            },
            "dollars": self.dollars(),
            f"dollars_with_{THINKING_TOKENS}_thinking_tokens_a_call": self.dollars(thinking_tokens=THINKING_TOKENS),
        }


class _Measuring:
    """The laboratory, with an account of every call as the priced backbone would count it."""

    def __init__(self, frame_size: Callable[[int, int], int]) -> None:
        self._lab = Lab()
        self._frame_size = frame_size
        self.name = self._lab.name
        self.by_stage: dict[str, StageEstimate] = {}

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        generations = self._lab.generate(batch)
        for request, generation in zip(batch, generations, strict=True):
            said = generation.reply.model_dump_json() if hasattr(generation.reply, "model_dump_json") else ""
            stage = self.by_stage.setdefault(request.stage, StageEstimate())
            stage.calls += 1
            stage.frames += request.frames_supplied
            stage.usage += Usage(input_tokens=self._input_tokens(request), output_tokens=_tokens(said))
        return generations

    def _input_tokens(self, request: Request[Any]) -> int:
        parts = lay_out(request, lambda frame, _: self._frame_size(frame.picture.width, frame.picture.height))
        texts = sum(_tokens(part.text) for part in parts if isinstance(part, TextPart))
        frames = sum(part for part in parts if not isinstance(part, TextPart))
        return texts + frames + _tokens(json.dumps(reply_schema(request.reply)))


def _tokens(text: str) -> int:
    return math.ceil(len(text) / CHARS_A_TOKEN)


def estimate(
    method: str,
    spec: str,
    durations: Sequence[float],
    price: Price | None,
    *,
    budget: int | None = None,
    detail: str = "auto",
    flex: bool = False,
) -> Estimate:
    """What a method will cost with a backbone for questions about videos of these lengths, in seconds."""
    opened = open_method(method)
    backbone = _Measuring(lambda width, height: frame_tokens(spec, width, height, detail))
    frames = default_budget(opened) if budget is None else budget
    chosen = _like(durations, make_twin(_TWIN_QUESTIONS, _SEED))
    for video in chosen:
        question = video.items[0].question
        try:
            opened(question, Observer(WorldVideo(video.truth), backbone, budget=frames))
        except UnknownStageError as error:
            raise InputError(
                f"{method} cannot be estimated: its calls are measured in a simulation, and {error}"
            ) from None
    return Estimate(f"{method} with {spec}", spec, len(chosen), len(durations), backbone.by_stage, price, flex)


def _like(durations: Sequence[float], twin: Sequence[TwinVideo]) -> list[TwinVideo]:
    """Twin videos as long as the bench's, as nearly as there are: every so many of the bench's, in order of length."""
    known = sorted(seconds for seconds in durations if math.isfinite(seconds)) or [twin[0].items[0].duration]
    count = min(MEASURED_QUESTIONS, max(len(durations), 8))
    wanted = [known[round(place * (len(known) - 1) / max(1, count - 1))] for place in range(count)]
    left = list(twin)
    chosen = []
    for seconds in wanted:
        nearest = min(left, key=lambda video: abs(video.items[0].duration - seconds))
        left.remove(nearest)
        chosen.append(nearest)
    return chosen


def estimate_table(estimates: Sequence[Estimate]) -> Table:
    """One section for each run, one row for each of its stages, everything per question."""
    return Table(
        key="estimate",
        title="Estimated cost per question, by stage",
        first_column="Stage",
        columns=(
            Column("Calls"),
            Column("Frames"),
            Column("Input", "tokens"),
            Column("Output", "tokens"),
            Column("Money"),
        ),
        sections=tuple(each.section() for each in estimates),
        note=" ".join(_sum(each) for each in estimates),
    )


def _sum(each: Estimate) -> str:
    plain, thinking = each.dollars(), each.dollars(thinking_tokens=THINKING_TOKENS)
    if plain is None or thinking is None:
        return f"{each.name}: no price; give one with --price or --prices."
    return (
        f"{each.name}: ${plain:.2f} for {each.questions} questions without thinking, ${thinking:.2f} with "
        f"{THINKING_TOKENS} thinking tokens a call; nothing is counted as cached."
    )
