"""The prices of tokens, from a TOML file."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Final, TypeAlias

from trace_ves.core import InputError
from trace_ves.records import Usage

Day: TypeAlias = date  # For `Price`, which has a field `date`
MILLION: Final = 1_000_000
_OPTIONAL: Final = ("cache_write", "flex", "long_above", "long_input", "long_output")
_DATED: Final = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars for a million tokens."""

    input: float
    cached: float
    output: float
    cache_write: float | None = None
    """For tokens written into the provider's cache; None if they cost as much as other input."""
    flex: float = 1.0  # The price of the tier `flex`, as a share of these prices
    page: str | None = None  # The source of the price
    date: Day | None = None  # When the source was read
    verified: bool = True  # False if the source is not the provider's own page
    long_above: float = math.inf  # A prompt with more tokens costs more, as a whole
    long_input: float = 1.0  # The factor for its input, cached or not
    long_output: float = 1.0
    until: Day | None = None  # The last day of this price, if announced
    later: Price | None = None  # The price after that day

    def to_json(self) -> dict[str, object]:
        """The price and its source, for machines."""
        day = None if self.date is None else self.date.isoformat()
        dollars: dict[str, object] = {"input": self.input, "cached": self.cached, "output": self.output}
        return {**dollars, "date": day, "page": self.page, "verified": self.verified}

    def surcharge(self, usage: Usage) -> float:
        """The surcharge of one call with a long prompt."""
        if usage.input_tokens <= self.long_above:
            return 0.0
        output = self.output * usage.output_tokens / MILLION
        return (self.long_input - 1) * (self._full(usage) - output) + (self.long_output - 1) * output

    def of(self, usage: Usage, flex: Usage | None = None) -> float:
        """The cost of these tokens in dollars; `flex` is the share in the tier `flex`."""
        return self._full(usage) - (1 - self.flex) * self._full(flex or Usage())

    def _full(self, usage: Usage) -> float:
        written = usage.cache_write_tokens or 0
        fresh = max(0, usage.input_tokens - usage.cached_tokens - written)
        return (
            self.input * fresh
            + self.cached * usage.cached_tokens
            + (self.input if self.cache_write is None else self.cache_write) * written
            + self.output * usage.output_tokens
        ) / MILLION


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by backbone spec."""

    by_spec: Mapping[str, Price]
    otherwise: Price | None = None  # The price of a backbone that is not listed

    def of(self, spec: str, day: date | None = None) -> Price | None:
        """The price of a backbone on a day, today by default: its own, else that of the longest `prefix*`, or None."""
        price = self._listed(spec)
        is_over = price is not None and price.until is not None and (day or date.today()) > price.until
        return price.later or price if price is not None and is_over else price

    def _listed(self, spec: str) -> Price | None:
        names = [spec, _DATED.sub("", spec)]
        if spec.startswith("vertex:"):
            names += [name.replace("vertex:", "gemini:", 1) for name in names]
        for name in names:
            if name in self.by_spec:
                return self.by_spec[name]
            matching = [key for key in self.by_spec if key.endswith("*") and name.startswith(key[:-1])]
            if matching:
                return self.by_spec[max(matching, key=len)]
        return self.otherwise

    def missing(self, specs: Iterable[str]) -> list[str]:
        """The backbones that have no price, each once."""
        return [spec for spec in dict.fromkeys(specs) if self.of(spec) is None]


def load_prices(path: Path | None = None, otherwise: Price | None = None) -> Prices:
    """The prices of this package, overridden by those of the user's file; `otherwise` is for all other backbones."""
    defaults = _parse(files("trace_ves.runs").joinpath("prices.toml").read_text(encoding="utf-8"), "prices.toml")
    try:
        overrides = _parse(path.read_text(encoding="utf-8"), str(path)) if path else {}
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}.") from None
    return Prices(defaults | overrides, otherwise)


def price_notes(prices: Iterable[Price | None]) -> list[str]:
    """Notes on the dates of these prices, on those that are not verified, and on those that have ended."""
    listed = [price for price in prices if price is not None]
    days = sorted({price.date for price in listed if price.date is not None})
    notes = [f"List prices of {days[0]}{f' to {days[-1]}' if days[1:] else ''}."] if days else []
    notes += [
        f"Not verified with the provider: {page}." for page in sorted({p.page or "" for p in listed if not p.verified})
    ]
    ended = sorted({price.until for price in listed if price.until and price.until < date.today()})
    return notes + [f"A price ended on {day}; check it." for day in ended]


def add_price_notes(money: str, prices: Iterable[Price | None]) -> str:
    """An amount of money with the notes about its prices: `$0.02 (list prices of 2026-11-09)`."""
    notes = "; ".join(note[0].lower() + note[1:-1] for note in price_notes(prices))
    return f"{money} ({notes})" if notes else money


def parse_price(text: str) -> Price:
    """Parse a price such as `0.5,0.05,3`: dollars per million tokens of input, cached input and output."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 3 or not all(0 <= number < math.inf for number in numbers):
        raise InputError(
            f"the price {text!r} must be three numbers of at least 0, in dollars per million tokens of input, cached "
            "input and output, for example 0.5,0.05,3."
        )
    return Price(input=numbers[0], cached=numbers[1], output=numbers[2])


def _parse(text: str, where: str) -> dict[str, Price]:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where}: not valid TOML: {error}.") from None
    return {spec: _price(spec, entry, where) for spec, entry in table.items()}


def _price(spec: str, entry: object, where: str) -> Price:
    if not isinstance(entry, dict):
        raise InputError(f"{where}: {spec!r} must be a table with input, cached and output.")
    required = {key: _dollars(entry.get(key), f"{where}: {spec!r}: {key}") for key in ("input", "cached", "output")}
    optional = {key: _dollars(entry[key], f"{where}: {spec!r}: {key}") for key in _OPTIONAL if key in entry}
    page, day, until = entry.get("page"), entry.get("date"), entry.get("until")
    own = {key: value for key, value in entry.items() if key not in {"until", "later"}}
    return Price(
        **required,
        **optional,
        page=page if isinstance(page, str) else None,
        date=day if isinstance(day, date) else None,
        verified=entry.get("verified") is not False,
        until=until if isinstance(until, date) else None,
        later=_price(spec, own | entry["later"], where) if isinstance(entry.get("later"), dict) else None,
    )


def _dollars(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError(f"{where} must be dollars per million tokens, at least 0, found {value!r}.")
    return float(value)
