"""The cost of runs: by run, method, backbone, stage and question, for pages, tables, limits and `--json`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal

from trace_ves.core import BackboneError, InputError
from trace_ves.core.display import count_words
from trace_ves.records import Call, Prediction, Usage
from trace_ves.records.calls import sum_flex_usage
from trace_ves.runs.prices import Price, Prices, add_price_notes, price_notes

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone, Generation, R, Request
    from trace_ves.runs.estimate import Estimate
    from trace_ves.ves.table import Table


@dataclass(slots=True)
class Spent:
    """The sums over some calls."""

    calls: int = 0
    frames: int = 0
    faults: int = 0
    seconds: float = 0.0  # of the calls; those of a batch run in parallel, so the elapsed time may be less
    usage: Usage = field(default_factory=Usage)
    flex: Usage = field(default_factory=Usage)  # share of the tokens in the cheaper tier
    long_calls: tuple[tuple[Usage, bool], ...] = ()
    """Calls with a prompt long enough for a surcharge, and whether the cheaper tier answered."""

    def add(self, call: Call) -> None:
        """Count one more call."""
        self.calls += 1
        self.frames += len(call.timestamps)
        self.faults += call.fault is not None
        self.seconds += call.seconds
        self.usage += call.usage
        self.flex += sum_flex_usage([call])
        self.long_calls += long_call(call.usage, flex=call.service_tier == "flex")

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def cached_share(self) -> float | None:
        """The share of input tokens from the provider's cache, from 0 to 1; None without input."""
        return self.usage.cached_tokens / self.usage.input_tokens if self.usage.input_tokens else None

    def dollars(self, price: Price | None) -> float | None:
        """The cost in dollars; None if the model has no price."""
        if price is None:
            return None
        surcharges = (price.surcharge(usage) * (price.flex if flex else 1) for usage, flex in self.long_calls)
        return price.of(self.usage, self.flex) + sum(surcharges)

    def to_json(self, dollars: float | None) -> dict[str, object]:
        """The sums as JSON values; `dollars` is null if the model has no price."""
        share = self.cached_share
        return {
            "calls": self.calls,
            "frames": self.frames,
            "faults": self.faults,
            "seconds": round(self.seconds, 3),
            **self.usage.to_json(),
            "cached_share": None if share is None else round(share, 4),
            "dollars": None if dollars is None else round(dollars, 6),
        }


def long_call(usage: Usage, *, flex: bool) -> tuple[tuple[Usage, bool], ...]:
    """The call, if its prompt is long enough for a surcharge of any provider."""
    return ((usage, flex),) if usage.input_tokens > LEAST_LONG_TOKENS else ()


LEAST_LONG_TOKENS: Final = 100_000

Key = Literal["run", "method", "backbone", "stage", "question_id"]
KEYS: Final[tuple[Key, ...]] = ("run", "method", "backbone", "stage", "question_id")
UNRECORDED_STAGE: Final = "not recorded"
"""The stage of a line with tokens and without calls, as other programs may write it."""


@dataclass(frozen=True, slots=True)
class CostLine:
    """The cost of one run, method, backbone, stage and question; a key is None if it was summed over."""

    run: str | None
    method: str | None
    backbone: str | None
    stage: str | None
    question_id: str | None
    questions: int  # The number of answers: a question answered by two runs counts twice
    spent: Spent
    dollars: float | None  # None if a backbone has no price

    def __add__(self, other: CostLine) -> CostLine:
        """The sum of both lines, with the keys of this one."""
        dollars = None if self.dollars is None or other.dollars is None else self.dollars + other.dollars
        questions, spent = self.questions + other.questions, self.spent + other.spent
        return replace(self, questions=questions, spent=spent, dollars=dollars)

    def to_json(self) -> dict[str, object]:
        """The line as JSON values, without the keys that were summed over."""
        keys: dict[str, object] = {key: value for key in KEYS if (value := getattr(self, key)) is not None}
        return {**keys, "questions": self.questions, **self.spent.to_json(self.dollars)}


def cost_lines(
    runs: Iterable[tuple[str, Iterable[Prediction]]], prices: Prices, *, by: tuple[Key, ...] = KEYS
) -> list[CostLine]:
    """The cost of runs by these keys: `("method", "stage")` gives a line for each stage of each method.

    A run is its name and its predictions, which are read once. An answer without calls or tokens has no line.
    """
    return add_lines(
        line
        for run, predictions in runs
        for prediction in predictions
        for line in answer_lines(run, prediction, prices, by)
    )


def answer_lines(run: str, prediction: Prediction, prices: Prices, by: tuple[Key, ...]) -> list[CostLine]:
    """The cost of one answer: a line for each stage, or one for all."""
    price = prices.of(prediction.backbone) if prediction.backbone else None
    stages = sum_stages(prediction)
    parts: list[tuple[str | None, Spent]] = [*stages.items()]
    if parts and "stage" not in by:
        parts = [(None, sum(stages.values(), Spent()))]
    lines = []
    for stage, spent in parts:
        keys = (run, prediction.method, prediction.backbone, stage, prediction.question_id)
        selected = {key: value if key in by else None for key, value in zip(KEYS, keys, strict=True)}
        lines.append(CostLine(**selected, questions=1, spent=spent, dollars=spent.dollars(price)))
    return lines


def add_lines(lines: Iterable[CostLine]) -> list[CostLine]:
    """Add up lines with equal keys."""
    sums: dict[tuple[str | None, ...], CostLine] = {}
    for line in lines:
        keys = tuple(getattr(line, key) for key in KEYS)
        sums[keys] = sums[keys] + line if keys in sums else line
    return list(sums.values())


def sum_stages(prediction: Prediction) -> dict[str, Spent]:
    """The sums of each stage of one answer, in order of first appearance."""
    stages: dict[str, Spent] = {}
    for call in prediction.observations:
        stages.setdefault(call.stage, Spent()).add(call)
    if not stages and (prediction.frames_supplied or prediction.usage != Usage()):
        frames = prediction.frames_supplied
        stages[UNRECORDED_STAGE] = Spent(frames=frames, seconds=prediction.seconds, usage=prediction.usage)
    return stages


@dataclass(frozen=True, slots=True)
class RunCost:
    """The cost of one run."""

    name: str
    questions: int
    by_stage: Mapping[str, Spent]  # in order of first appearance
    by_question: Mapping[str, Spent]  # by the question's id
    price: Price | None

    @classmethod
    def of(
        cls, name: str, predictions: Sequence[Prediction], price: Price | None, retried: Sequence[Prediction] = ()
    ) -> RunCost:
        """Add up the calls of a run, including those of lines that failed and were asked again."""
        lines = [*predictions, *retried]
        by_stage: dict[str, Spent] = {}
        by_question = {each.question_id: Spent() for each in lines}
        for each in lines:
            for stage, spent in sum_stages(each).items():
                by_stage[stage] = by_stage.get(stage, Spent()) + spent
                by_question[each.question_id] += spent
        return cls(name, len(predictions), by_stage, by_question, price)

    @property
    def measured(self) -> int:
        """Number of questions in the sums; an estimate measures only a few."""
        return self.questions

    @property
    def total(self) -> Spent:
        """All stages together."""
        return sum(self.by_stage.values(), Spent())

    @property
    def dollars(self) -> float | None:
        """The cost of the whole run; None if the model has no price."""
        return self.total.dollars(self.price)

    @property
    def money(self) -> str:
        """The dollars in words, with the date of the price."""
        return "no price is known" if self.dollars is None else add_price_notes(f"${self.dollars:.4f}", [self.price])

    def to_json(self) -> dict[str, object]:
        """The cost as JSON values."""
        return {
            "questions": self.questions,
            "price": None if self.price is None else self.price.to_json(),
            "total": self._json(self.total),
            "by_stage": {stage: self._json(spent) for stage, spent in self.by_stage.items()},
            "by_question": {question: self._json(spent) for question, spent in self.by_question.items()},
        }

    def _json(self, spent: Spent) -> dict[str, object]:
        return spent.to_json(spent.dollars(self.price))


_COLUMNS: Final[dict[tuple[str, ...], Callable[[Spent, int], str]]] = {
    ("Calls",): lambda spent, count: f"{spent.calls / count:.2f}",
    ("Frames",): lambda spent, count: f"{spent.frames / count:.1f}",
    ("Input", "tokens"): lambda spent, count: f"{spent.usage.input_tokens / count:,.0f}",
    ("Cached", "tokens"): lambda spent, count: f"{spent.usage.cached_tokens / count:,.0f}",
    ("Output", "tokens"): lambda spent, count: f"{spent.usage.output_tokens / count:,.0f}",
    ("Seconds", "of calls"): lambda spent, count: f"{spent.seconds / count:.1f}",
    ("Faults",): lambda spent, count: f"{spent.faults / count:.2f}",
}
"""Each column, and a function for its text from sums over a number of questions."""
ESTIMATED_COLUMNS: Final = 5  # The first columns, which an estimate has


def cost_table(costs: Sequence[RunCost]) -> Table:
    """The cost of runs by stage."""
    sums = [f"{cost.name} ${cost.dollars:.2f}" for cost in costs if cost.dollars]
    notes = [f"In all: {', '.join(sums)}."] if sums else []
    notes += price_notes(cost.price for cost in costs)
    if any(cost.price is None for cost in costs):
        notes.append("? marks a model without a price; give one with --price or --prices.")
    return stage_table("cost", "Cost per question, by stage", costs, " ".join(notes))


def stage_table(
    key: str, title: str, costs: Sequence[RunCost | Estimate], note: str, *, columns: int | None = None
) -> Table:
    """A section for each run, with a row for each stage and one for all; `columns` limits the columns."""
    from trace_ves.ves.table import Column, Row, Section, Table, Value  # not needed for `ask`

    sections = []
    for cost in costs:
        count = max(1, cost.measured)
        rows = []
        for stage, spent in [*cost.by_stage.items(), ("all stages", sum(cost.by_stage.values(), Spent()))]:
            cells = [text(spent, count) for text in list(_COLUMNS.values())[:columns]]
            is_unpriced = cost.price is None and spent.usage.input_tokens + spent.calls
            money = "?" if is_unpriced else f"${(spent.dollars(cost.price) or 0.0) / count:.4f}"
            rows.append(Row(stage, tuple((Value(cell),) for cell in (*cells, money))))
        sections.append(Section(f"{cost.name} ({count_words(cost.questions, 'question')})", tuple(rows)))
    headings = [Column(*name) for name in [*list(_COLUMNS)[:columns], ("Money",)]]
    return Table(key, title, tuple(headings), tuple(sections), note, "Stage")


@dataclass(slots=True)
class CostLimit:
    """Adds up the dollars of a run, including earlier answers. Thread-safe."""

    dollars: float
    prices: Prices
    spent: float = field(default=0.0, init=False)
    stopped: bool = field(default=False, init=False)  # Whether it ended a run before its last question
    _used_prices: set[Price] = field(default_factory=set, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.dollars < math.inf:
            raise InputError(f"--max-cost must be more than 0 dollars, got {self.dollars:g}.")

    def check(self, specs: Iterable[str]) -> None:
        """Refuse a limit if a backbone has no price."""
        if missing := self.prices.missing(specs):
            raise InputError(f"--max-cost needs a price for {', '.join(missing)}; give one with --price or --prices.")

    def add(self, spec: str, line: Prediction) -> None:
        """Add the cost of one answer."""
        if (price := self.prices.of(spec)) is not None:
            with self._lock:
                self.spent += sum(sum_stages(line).values(), Spent()).dollars(price) or 0.0
                self._used_prices.add(price)

    @property
    def reached(self) -> bool:
        """Whether the limit is reached."""
        return self.spent >= self.dollars

    def __str__(self) -> str:
        """The dollars spent and the limit, for the message that stops a run."""
        return f"{add_price_notes(f'${self.spent:.4f}', self._used_prices)}, and --max-cost is ${self.dollars:g}"


class CostReachedError(InputError):
    """A spending limit is reached; nothing more is sent."""


class LimitedBackbone:
    """A backbone that sends nothing more once its calls have cost the limit; a batch in flight may exceed it."""

    def __init__(self, inner: Backbone, limit: CostLimit) -> None:
        self._inner = inner
        self._limit = limit
        self.name: Final = inner.name

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer a batch, or refuse it."""
        if self._limit.reached:
            raise CostReachedError(
                f"the calls of {self.name} have cost {self._limit}; start again with a higher --max-cost to continue."
            )
        try:
            generations = self._inner.generate(batch)
        except BackboneError as error:
            self._add(error.charged.values())
            raise
        self._add(generations)
        return generations

    def _add(self, generations: Iterable[Generation[Any]]) -> None:
        calls = tuple(Call("", usage=each.usage, service_tier=each.service_tier) for each in generations)
        self._limit.add(self.name, Prediction("", None, observations=calls))
