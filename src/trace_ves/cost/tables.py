"""The tables of costs and of estimates: a section for each run, a row for each stage, everything per question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.cost.estimate import THINKING_TOKENS
from trace_ves.cost.spent import Spent
from trace_ves.report.table import Column, Row, Section, Table, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trace_ves.cost.estimate import Estimate
    from trace_ves.cost.prices import Price
    from trace_ves.cost.run_cost import RunCost

_Cell = tuple["Column", "Callable[[Spent, int], str]"]
"""A column, and what stands in it for the sums over so many questions."""

_CALLS: _Cell = (Column("Calls"), lambda spent, count: f"{spent.calls / count:.2f}")
_FRAMES: _Cell = (Column("Frames"), lambda spent, count: f"{spent.frames / count:.1f}")
_INPUT: _Cell = (Column("Input", "tokens"), lambda spent, count: f"{spent.usage.input_tokens / count:,.0f}")
_CACHED: _Cell = (Column("Cached", "tokens"), lambda spent, count: f"{spent.usage.cached_tokens / count:,.0f}")
_OUTPUT: _Cell = (Column("Output", "tokens"), lambda spent, count: f"{spent.usage.output_tokens / count:,.0f}")
_SECONDS: _Cell = (Column("Seconds", "of calls"), lambda spent, count: f"{spent.seconds / count:.1f}")
_FAULTS: _Cell = (Column("Faults"), lambda spent, count: f"{spent.faults / count:.2f}")


def cost_table(costs: Sequence[RunCost]) -> Table:
    """What runs cost, by stage."""
    cells = (_CALLS, _FRAMES, _INPUT, _CACHED, _OUTPUT, _SECONDS, _FAULTS)
    sections = [_section(cost, cost.questions, cells) for cost in costs]
    return _table("cost", "Cost per question, by stage", cells, sections, _note(costs))


def estimate_table(estimates: Sequence[Estimate]) -> Table:
    """What runs will cost, by stage."""
    cells = (_CALLS, _FRAMES, _INPUT, _CACHED, _OUTPUT)
    sections = [_section(each, each.measured, cells) for each in estimates]
    note = " ".join(_sum(each) for each in estimates)
    return _table("estimate", "Estimated cost per question, by stage", cells, sections, note)


def _table(key: str, title: str, cells: Sequence[_Cell], sections: Sequence[Section], note: str) -> Table:
    columns = (*(column for column, _ in cells), Column("Money"))
    return Table(key, title, "Stage", columns, tuple(sections), note)


def _section(each: RunCost | Estimate, counted: int, cells: Sequence[_Cell]) -> Section:
    count = max(1, counted)
    rows = [
        Row(
            stage,
            (*((Value(text(spent, count)),) for _, text in cells), (Value(_money(spent, each.price, count)),)),
        )
        for stage, spent in [*each.by_stage.items(), ("all stages", Spent.total(each.by_stage.values()))]
    ]
    return Section(f"{each.name} ({each.questions} questions)", tuple(rows))


def _money(spent: Spent, price: Price | None, questions: int) -> str:
    if price is None and spent.usage.input_tokens + spent.calls:
        return "?"
    return f"${(spent.dollars(price) or 0.0) / questions:.4f}"


def _note(costs: Sequence[RunCost]) -> str:
    sums = [f"{cost.name} ${cost.dollars:.2f}" for cost in costs if cost.dollars]
    parts = [f"In all: {', '.join(sums)}."] if sums else []
    if any(cost.price is None for cost in costs):
        parts.append("? marks a model without a price; give one with --price or --prices.")
    return " ".join(parts)


def _sum(each: Estimate) -> str:
    plain, thinking = each.dollars(), each.dollars(thinking_tokens=THINKING_TOKENS)
    if plain is None or thinking is None:
        return f"{each.name}: no price; give one with --price or --prices."
    return (
        f"{each.name}: ${plain:.2f} for {each.questions} questions without thinking, ${thinking:.2f} with "
        f"{THINKING_TOKENS} thinking tokens a call."
    )
