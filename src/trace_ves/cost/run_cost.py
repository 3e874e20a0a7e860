"""What a run cost, by stage and per question: calls, frames, tokens, seconds and money. The paper's cost appendix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trace_ves.records import Usage
from trace_ves.records.calls import flex_usage
from trace_ves.report.table import Column, Row, Section, Table, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trace_ves.cost.prices import Price
    from trace_ves.records import Call, Prediction


@dataclass(slots=True)
class Spent:
    """What some calls came to."""

    calls: int = 0
    frames: int = 0
    faults: int = 0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    flex: Usage = field(default_factory=Usage)
    """The part of the tokens that the cheaper tier answered."""

    def add(self, call: Call) -> None:
        """Count one more call."""
        self.calls += 1
        self.frames += len(call.timestamps)
        self.faults += call.fault is not None
        self.seconds += call.seconds
        self.usage += call.usage
        self.flex += flex_usage([call])

    def dollars(self, price: Price | None) -> float | None:
        """What it cost; None where the model has no price."""
        return None if price is None else price.of(self.usage, self.flex)

    def to_json(self, price: Price | None) -> dict[str, object]:
        """The sums, for machines; `dollars` is null where the model has no price."""
        return {
            "calls": self.calls,
            "frames": self.frames,
            "faults": self.faults,
            "seconds": round(self.seconds, 3),
            **self.usage.to_json(),
            "dollars": None if price is None else round(price.of(self.usage, self.flex), 6),
        }


@dataclass(frozen=True, slots=True)
class RunCost:
    """What one run cost."""

    name: str
    questions: int
    by_stage: Mapping[str, Spent]
    """In the order in which the stages first came up."""
    total: Spent
    price: Price | None

    @classmethod
    def of(cls, name: str, predictions: Iterable[Prediction], price: Price | None) -> RunCost:
        """Add up the calls of a run."""
        by_stage: dict[str, Spent] = {}
        total, questions = Spent(), 0
        for prediction in predictions:
            questions += 1
            for call in prediction.observations:
                by_stage.setdefault(call.stage, Spent()).add(call)
                total.add(call)
        return cls(name, questions, by_stage, total, price)

    @property
    def dollars(self) -> float | None:
        """Money for the whole run; None where the model has no price."""
        return self.total.dollars(self.price)

    def to_json(self) -> dict[str, object]:
        """The cost, for machines."""
        return {
            "questions": self.questions,
            "total": self.total.to_json(self.price),
            "by_stage": {stage: spent.to_json(self.price) for stage, spent in self.by_stage.items()},
        }


def cost_table(costs: Sequence[RunCost]) -> Table:
    """One section for each run, one row for each of its stages, everything per question."""
    return Table(
        key="cost",
        title="Cost per question, by stage",
        first_column="Stage",
        columns=(
            Column("Calls"),
            Column("Frames"),
            Column("Input", "tokens"),
            Column("Cached", "tokens"),
            Column("Output", "tokens"),
            Column("Seconds", "of calls"),
            Column("Faults"),
            Column("Money"),
        ),
        sections=tuple(_section(cost) for cost in costs),
        note=_note(costs),
    )


def _section(cost: RunCost) -> Section:
    rows = [_row(stage, spent, cost) for stage, spent in cost.by_stage.items()]
    return Section(f"{cost.name} ({cost.questions} questions)", (*rows, _row("all stages", cost.total, cost)))


def _row(name: str, spent: Spent, cost: RunCost) -> Row:
    count = max(1, cost.questions)
    usage = spent.usage
    tokens = (usage.input_tokens, usage.cached_tokens, usage.output_tokens)
    return Row(
        name,
        (
            (Value(f"{spent.calls / count:.2f}"),),
            (Value(f"{spent.frames / count:.1f}"),),
            *((Value(f"{number / count:,.0f}"),) for number in tokens),
            (Value(f"{spent.seconds / count:.1f}"),),
            (Value(f"{spent.faults / count:.2f}"),),
            (Value(_money(spent, cost.price, count)),),
        ),
    )


def _money(spent: Spent, price: Price | None, questions: int) -> str:
    if price is None and spent.calls:
        return "?"
    return f"${(spent.dollars(price) or 0.0) / questions:.4f}"


def _note(costs: Sequence[RunCost]) -> str:
    sums = [f"{cost.name} ${cost.dollars:.2f}" for cost in costs if cost.dollars]
    parts = [f"In all: {', '.join(sums)}."] if sums else []
    if any(cost.price is None for cost in costs):
        parts.append("? marks a model without a price; give one with --price or --prices.")
    return " ".join(parts)
