"""Rules for options that every command shares."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A range of numbers that leaves out nan and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or the sentence that says what is wrong."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


def refuse_repeated_options(command: click.Command) -> click.Command:
    """Make an option that is given twice an error: of two values one would be dropped without a word."""
    if isinstance(command, click.Group):
        return command
    make_parser = command.make_parser

    def make_strict_parser(ctx: click.Context) -> Any:
        parser: Any = make_parser(ctx)
        parse_args = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            values, left, order = parse_args(args)
            counted = Counter(param for param in order if isinstance(param, click.Option) and not param.multiple)
            for option, count in counted.items():
                if count > 1:
                    raise click.UsageError(f"{option.opts[-1]} was given {count} times; give it once.", ctx)
            return values, left, order

        parser.parse_args = parse_once
        return parser

    command.make_parser = make_strict_parser  # type: ignore[method-assign]
    return command
