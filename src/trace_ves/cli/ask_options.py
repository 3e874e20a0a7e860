"""What a person chose for `trace-ves ask`, whichever way the questions come."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from trace_ves.core.simulation import simulation_notes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trace_ves.asking import AskResult
    from trace_ves.cost.limit import CostLimit
    from trace_ves.cost.prices import Prices
    from trace_ves.records import Prediction

COST_REACHED = 3
"""The exit status where --max-cost ended it."""


@dataclass(frozen=True, slots=True)
class AskOptions:
    """The options of the command."""

    method: str
    backbone: str | None
    """The spec; None takes the first provider whose key is set."""
    budget: int | None
    subtitles: bool
    transcripts: bool
    save: Path | None
    overwrite: bool
    as_json: bool
    view: bool
    workers: int
    estimate_only: bool
    price_file: Path | None
    price: str | None
    max_cost: float | None
    model: Mapping[str, Any]
    """Keyword arguments of `open_backbone`."""

    def spec(self) -> str:
        """The spec of the model that looks; where none is set up, what to do is a `BackboneConfigError`."""
        from trace_ves.backbone.registry import default_spec

        return self.backbone or default_spec()

    def prices(self) -> Prices:
        """What tokens cost."""
        return _prices(self.price_file, self.price)

    def cost_limit(self) -> CostLimit | None:
        """What it may cost, where a person said so."""
        from trace_ves.cost.limit import CostLimit

        return None if self.max_cost is None else CostLimit(self.max_cost, self.prices())

    def say_what_looks(self) -> None:
        """Say on standard error what must be known of the model: that it sees drawn worlds alone, or simulates."""
        if self.as_json:
            return
        if self.spec().partition(":")[0] == "glance":
            from trace_ves.backbone.glance import NOTICE

            click.echo(NOTICE, err=True)
        if simulated := simulation_notes([self.spec()]):
            click.echo(simulated, err=True)

    def to_json(self, result: AskResult) -> dict[str, object]:
        """What `--json` prints of an answer: its record, and what it cost by stage."""
        from trace_ves.cost.run_cost import RunCost

        cost = RunCost.of(self.method, [result.prediction], self.prices().of(self.spec())).to_json()
        return result.to_json() | {"cost": {"total": cost["total"], "by_stage": cost["by_stage"]}}

    def dollars(self, line: Prediction) -> float | None:
        """What an answer cost; None where the model has no price."""
        from trace_ves.records.calls import flex_usage

        price = self.prices().of(self.spec())
        return None if price is None else price.of(line.usage, flex_usage(line.observations))


@cache
def _prices(file: Path | None, otherwise: str | None) -> Prices:
    from trace_ves.cost.prices import load_prices, parse_price

    return load_prices(file).with_default(parse_price(otherwise) if otherwise else None)


def check_video(video: Path, chosen: AskOptions) -> None:
    """Say what is wrong with the file, or with its subtitles where they are wanted, before models are spoken of."""
    from trace_ves.asking import require_subtitles
    from trace_ves.methods import open_method, refuse_unread_subtitles
    from trace_ves.running.video_pool import SharedVideo

    if chosen.subtitles:
        refuse_unread_subtitles([open_method(chosen.method)])
    if (chosen.backbone or "").partition(":")[0] == "lab":  # it answers about twins that were never drawn
        return
    with closing(SharedVideo(video)) as opened:
        if opened.duration and chosen.subtitles:
            require_subtitles(video, opened)


def check_question(video: str, words: str, options: tuple[str, ...], method: str) -> None:
    """Say what is wrong with the question or the method before a video is fetched."""
    from trace_ves.asking import make_question
    from trace_ves.methods import open_method

    make_question(video, words, options)
    open_method(method)
