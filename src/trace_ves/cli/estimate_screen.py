"""What `--estimate` prints, for `run` and for `ask`. Nothing is sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.cost.prices import Prices


def show_estimate(
    runs: Sequence[tuple[str, str]],
    durations: Sequence[float],
    prices: Prices,
    model_options: Mapping[str, Any],
    *,
    budget: int | None,
    as_json: bool,
) -> int:
    """Print what these methods and backbones will cost for questions about videos of these lengths."""
    from rich.console import Console

    from trace_ves.backbone.registry import detail_of
    from trace_ves.cost.estimate import estimate
    from trace_ves.cost.tables import estimate_table
    from trace_ves.report.terminal import print_table

    click.echo("measuring the calls of each method in a simulation; nothing is sent", err=True)
    flex = model_options["service_tier"] != "standard"
    found = [
        estimate(
            method,
            spec,
            durations,
            prices.of(spec),
            budget=budget,
            detail=detail_of(spec, model_options["detail"]),
            flex=flex,
        )
        for method, spec in runs
    ]
    if as_json:
        click.echo(json.dumps([each.to_json() for each in found], indent=2))
    else:
        console = Console()
        print_table(estimate_table(found), console if console.is_terminal else Console(width=120))
    return 0
