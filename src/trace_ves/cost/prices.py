"""What tokens cost: a table of prices in a TOML file that anybody can edit. A model without a price has none."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from trace_ves.core import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trace_ves.records import Usage

MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars for a million tokens."""

    input: float
    cached: float
    output: float

    def of(self, usage: Usage) -> float:
        """What these tokens cost, in dollars; cached ones are a part of the input."""
        fresh = usage.input_tokens - usage.cached_tokens
        return (self.input * fresh + self.cached * usage.cached_tokens + self.output * usage.output_tokens) / MILLION


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by backbone spec."""

    by_spec: Mapping[str, Price]

    def of(self, spec: str) -> Price | None:
        """The price of a backbone: its own, else that of the longest `prefix*`; None where nobody noted one."""
        if spec in self.by_spec:
            return self.by_spec[spec]
        matching = [key for key in self.by_spec if key.endswith("*") and spec.startswith(key[:-1])]
        return self.by_spec[max(matching, key=len)] if matching else None


def load_prices(path: Path | None = None) -> Prices:
    """The prices that come with this package, and over them those of a person's own file."""
    ours = _parse(files("trace_ves.cost").joinpath("prices.toml").read_text(encoding="utf-8"), "prices.toml")
    if path is None:
        return Prices(ours)
    try:
        return Prices(ours | _parse(path.read_text(encoding="utf-8"), str(path)))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}.") from None


def _parse(text: str, where: str) -> dict[str, Price]:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where}: not valid TOML: {error}.") from None
    return {spec: _price(spec, entry, where) for spec, entry in table.items()}


def _price(spec: str, entry: object, where: str) -> Price:
    if not isinstance(entry, dict):
        raise InputError(f"{where}: {spec!r} must be a table with input, cached and output.")
    return Price(*(_dollars(entry.get(key), f"{where}: {spec!r}: {key}") for key in ("input", "cached", "output")))


def _dollars(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError(f"{where} must be dollars for a million tokens, 0 or more, found {value!r}.")
    return float(value)
