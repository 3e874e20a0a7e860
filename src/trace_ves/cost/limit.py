"""A run that may cost so much and no more: adds up what answers cost, and says when the limit is reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trace_ves.core import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trace_ves.cost.prices import Prices
    from trace_ves.records.run_file import FinishedLine


@dataclass(slots=True)
class CostLimit:
    """Counts the dollars of a run, what was answered before included."""

    dollars: float
    prices: Prices
    spent: float = field(default=0.0, init=False)
    stopped: bool = field(default=False, init=False)
    """Whether a run ended before its last question because of it."""

    def __post_init__(self) -> None:
        if self.dollars <= 0:
            raise InputError(f"--max-cost must be more than 0 dollars, got {self.dollars:g}.")

    def check(self, specs: Iterable[str]) -> None:
        """Refuse a limit that could not be kept, because a backbone has no price."""
        if missing := self.prices.missing(specs):
            raise InputError(
                f"--max-cost cannot be kept: {', '.join(missing)} has no price; give one with --price or --prices."
            )

    def add(self, spec: str, line: FinishedLine) -> None:
        """Count one answer."""
        price = self.prices.of(spec)
        if price is not None:
            self.spent += price.of(line.usage, line.flex_usage)

    @property
    def reached(self) -> bool:
        """Whether nothing more may be asked."""
        return self.spent >= self.dollars
