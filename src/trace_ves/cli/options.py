"""What every command shares: groups that import a command when it runs, and options with their rules."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from trace_ves.core.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


class LazyGroup(click.Group):
    """A group whose commands are known by name, module and one-line help; one is imported when it runs."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._lazy = lazy

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """All names, in the order of the help."""
        return list(self._lazy)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of this name."""
        if cmd_name not in self._lazy:
            return None
        module = import_module(f"trace_ves.cli.{self._lazy[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return refuse_repeated_options(command)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in self._lazy.items()])

    def resolve_command(
        self, ctx: click.Context, args: Sequence[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one is close."""
        try:
            return super().resolve_command(ctx, list(args))
        except click.UsageError as error:
            close = get_close_matches(args[0].lower(), self.list_commands(ctx), n=1)
            if not close:
                raise
            raise click.UsageError(f"{error.message.rstrip('.')}; did you mean {close[0]!r}?", ctx) from error


class FiniteRange(click.FloatRange):
    """A range of numbers that leaves out nan and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or the sentence that says what is wrong."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


@contextmanager
def requires_extra(what: str, extra: str) -> Iterator[None]:
    """Say which extra to install where a module of another package is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("trace_ves"):
            raise
        raise MissingExtraError(what, extra) from None


def refuse_repeated_options(command: click.Command) -> click.Command:
    """Make a repeated option an error, because one of its values would be dropped."""
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
            for param in order:
                if isinstance(param.type, click.Path) and values.get(param.name) == "":
                    raise click.UsageError(f"{param.opts[-1]} is empty; name a file or a folder.", ctx)
            return values, left, order

        parser.parse_args = parse_once
        return parser

    command.make_parser = make_strict_parser  # type: ignore[method-assign]
    return command


F = TypeVar("F", bound="Callable[..., Any]")

_OPTIONS = (
    click.option("--temperature", type=FiniteRange(0, 2), help="Default: the provider's recommendation."),
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
        help="Detail of frames: low, medium, high, or auto by height; by provider: gemini=low,openai=high.",
    ),
    click.option(
        "--reply-format",
        type=click.Choice(["schema", "words"]),
        default="schema",
        show_default=True,
        help="words: put the reply's schema at the end of the prompt, so that caches hit across stages.",
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
        help="Software of the server at openai:MODEL@http://…; auto detects it.",
    ),
    click.option(
        "--max-output-tokens",
        type=click.IntRange(min=1),
        metavar="N",
        help="Maximum tokens in a reply, including thinking.  [default: the model's; 32,000 for Claude]",
    ),
    click.option(
        "--timeout",
        type=FiniteRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Limit on one attempt; failed attempts are retried.  [default: 180; 600 for your own server or "
        "--thinking high; at least 900 in the flex tier]",
    ),
    click.option("--cache/--no-cache", default=None, help="Reuse cached responses.  [default: for paid models]"),
)


def backbone_options(command: F) -> F:
    """Adds the options; the command gets each under the name that `open_backbone` gives it."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


BACKBONE_OPTION_NAMES: Final = frozenset(option.name for option in backbone_options(click.Command("")).params)


class SpecType(click.types.StringParamType):
    """A backbone's spec, or a name that people use for it."""

    name = "spec"

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> str:
        """The spec in full."""
        from trace_ves.backbone.registry import canonical_spec

        return canonical_spec(str(value))


_COST_OPTIONS = (
    click.option("--estimate", "estimate_only", is_flag=True, help="Estimate the cost without calling the model."),
    click.option(
        "--max-cost",
        type=FiniteRange(min=0, min_open=True),
        metavar="DOLLARS",
        help="Stop once this much has been spent; exit status 3.",
    ),
    click.option("--prices", "price_file", type=click.Path(path_type=Path, dir_okay=False), help="Token prices, TOML."),
    click.option("--price", metavar="IN,CACHED,OUT", help="Price per million tokens, for models not in the table."),
)


def cost_options(command: F) -> F:
    """Adds the options of estimates, limits and prices."""
    for option in reversed(_COST_OPTIONS):
        command = option(command)
    return command


backbone_option = click.option(
    "--backbone",
    type=SpecType(),
    metavar="SPEC",
    help="The model: for example gemini:MODEL, claude-…, ollama:MODEL, openai:MODEL@http://host:port/v1.  "
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
    help="Show the model the .srt or .vtt next to a video, or a text track in it. Only the trace method uses them.",
)
