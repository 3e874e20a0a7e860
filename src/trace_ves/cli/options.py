"""Rules for options that every command shares."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable


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


F = TypeVar("F", bound="Callable[..., Any]")

_OPTIONS = (
    click.option("--temperature", type=FiniteRange(0, 2), help="By default as the provider advises."),
    click.option(
        "--thinking",
        type=click.Choice(["default", "none", "low", "medium", "high"]),
        default="default",
        show_default=True,
        help="How much the model may think before it answers.",
    ),
    click.option(
        "--detail",
        metavar="LEVEL",
        default="auto",
        show_default=True,
        help="How closely frames are looked at: low, medium, high, or auto by their height; or gemini=low,openai=high.",
    ),
    click.option(
        "--reply-format",
        type=click.Choice(["schema", "words"]),
        default="schema",
        show_default=True,
        help="words: the reply's schema stands at the end of the prompt, so that caches hit across stages.",
    ),
    click.option(
        "--service-tier",
        type=click.Choice(["standard", "flex", "flex-only"]),
        default="standard",
        show_default=True,
        help="flex is cheaper and slower (Gemini, OpenAI); flex-only never falls back to standard.",
    ),
    click.option(
        "--server",
        type=click.Choice(["auto", "vllm", "sglang", "llama.cpp", "other"]),
        default="auto",
        show_default=True,
        help="What answers at openai:MODEL@http://…; auto asks it.",
    ),
    click.option("--cache/--no-cache", default=None, help="Use answers paid for before; on for paid backbones."),
)


def backbone_options(command: F) -> F:
    """Adds the options; the command gets each under the name that `open_backbone` gives it."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


backbone_option = click.option(
    "--backbone",
    metavar="SPEC",
    help="For example gemini:MODEL, openai:MODEL@http://host:port/v1, anthropic:MODEL.  "
    "[default: the first provider whose key is set]",
)

transcripts_option = click.option(
    "--transcripts/--no-transcripts",
    default=True,
    show_default=True,
    help="Keep the prompt and the raw reply of each call beside the record.",
)

subtitles_option = click.option(
    "--subtitles",
    is_flag=True,
    help="Show the model what is said: the .srt or .vtt beside a video, or a text track in it. Trace alone reads it.",
)
