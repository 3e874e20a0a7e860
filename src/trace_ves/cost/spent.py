"""What some calls came to: the sums that costs and estimates are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trace_ves.records import Usage
from trace_ves.records.calls import flex_usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trace_ves.cost.prices import Price
    from trace_ves.records import Call


@dataclass(slots=True)
class Spent:
    """What some calls came to."""

    calls: int = 0
    frames: int = 0
    faults: int = 0
    seconds: float = 0.0
    """Of the calls; those of a batch run side by side, so a question may take less by the clock."""
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

    def __iadd__(self, other: Spent) -> Spent:
        self.calls += other.calls
        self.frames += other.frames
        self.faults += other.faults
        self.seconds += other.seconds
        self.usage += other.usage
        self.flex += other.flex
        return self

    @classmethod
    def total(cls, parts: Iterable[Spent]) -> Spent:
        """The sum of several."""
        whole = cls()
        for part in parts:
            whole += part
        return whole

    @property
    def cached_share(self) -> float | None:
        """The part of the input tokens that came out of the provider's cache, from 0 to 1; None without input."""
        return self.usage.cached_tokens / self.usage.input_tokens if self.usage.input_tokens else None

    def dollars(self, price: Price | None) -> float | None:
        """What it cost; None where the model has no price."""
        return None if price is None else price.of(self.usage, self.flex)

    def to_json(self, dollars: float | None) -> dict[str, object]:
        """The sums, for machines; `dollars` is null where the model has no price."""
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
