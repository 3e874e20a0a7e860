"""How glance's trained eyes see, as it was measured: `eyes.toml`, which `tools/measure_eyes.py` writes."""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Mistakes:
    """What the eyes name that is not there, in pictures of some number of rows."""

    misnamed: float
    """The part of the things in view that get a wrong name, beside their own or instead of it."""
    phantoms: float
    """The part of frames in which something is named where nothing is."""
    wrong_scores: tuple[float, ...]
    """The quantiles of the score of a wrong name."""
    no_scene: float
    """The part of frames whose scene is not named."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    how: str
    levels: tuple[float, ...]
    """Where quantiles are given, from 0 to 1."""
    likeness: float
    """How alike the scores in two frames of one visit are: the correlation of their normal scores."""
    lookalikes: float
    """The part of wrong names that belong to something that looks alike."""
    parts: tuple[float, ...]
    """The lower bounds of how much of a thing shows, ascending from 0."""
    sizes_px: tuple[float, ...]
    """The lower bounds of its longer side, in the pixels that the eyes get, ascending from 0."""
    scores: tuple[tuple[tuple[float, ...], ...], ...]
    """By part, then by size: the quantiles of its score under its own name."""
    size_ratios: tuple[tuple[float, ...], ...]
    """By part: the quantiles of the reported size, as a part of the true one."""
    size_likeness: float
    """How alike these ratios are in two frames of one visit."""
    place_error: float
    """The standard deviation of where a box lies, across and at its foot, as a part of its longer side."""
    rows: tuple[int, ...]
    """The lower bounds of a picture's rows, ascending from 0."""
    mistakes: tuple[Mistakes, ...]
    """By rows."""

    def score(self, part: float, size_px: float, chance: float) -> float:
        """The score of something that is there, at this place (0 to 1) of its distribution."""
        by_size = self.scores[bisect_right(self.parts, part) - 1]
        return self.quantile(by_size[bisect_right(self.sizes_px, size_px) - 1], chance)

    def size_ratio(self, part: float, chance: float) -> float:
        """By how much the reported size of something differs from its true one, at this place of its distribution."""
        return self.quantile(self.size_ratios[bisect_right(self.parts, part) - 1], chance)

    def mistakes_at(self, rows: float) -> Mistakes:
        """How often names are wrong in pictures of so many rows."""
        return self.mistakes[bisect_right(self.rows, rows) - 1]

    def quantile(self, quantiles: tuple[float, ...], chance: float) -> float:
        """The value at this place (0 to 1) of a distribution that is given by its quantiles at `levels`."""
        above = min(max(bisect_right(self.levels, chance), 1), len(self.levels) - 1)
        low, high = self.levels[above - 1], self.levels[above]
        part = (chance - low) / (high - low)
        return quantiles[above - 1] + part * (quantiles[above] - quantiles[above - 1])


@cache
def figures() -> Figures:
    """The figures that ship with this package."""
    return read_figures(tomllib.loads((files(__package__) / "eyes.toml").read_text(encoding="utf-8")))


def read_figures(table: Mapping[str, Any]) -> Figures:
    """The figures in a table of `eyes.toml`'s form."""
    return Figures(
        how=table["how"],
        levels=tuple(table["levels"]),
        likeness=table["likeness"],
        lookalikes=table["lookalikes"],
        parts=tuple(entry["from_part"] for entry in table["shown"]),
        sizes_px=tuple(table["sizes_px"]),
        scores=tuple(tuple(map(tuple, entry["scores"])) for entry in table["shown"]),
        size_ratios=tuple(tuple(entry["size_ratios"]) for entry in table["shown"]),
        size_likeness=table["size_likeness"],
        place_error=table["place_error"],
        rows=tuple(entry["from_rows"] for entry in table["picture"]),
        mistakes=tuple(
            Mistakes(entry["misnamed"], entry["phantoms"], tuple(entry["wrong_scores"]), entry["no_scene"])
            for entry in table["picture"]
        ),
    )
