"""Click parts that commands share: groups that import a command when it runs, common options, parameter types."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial, reduce, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from trace_ves.core.errors import MissingExtraError

if TYPE_CHECKING:
    from trace_ves.runs.cost import CostLimit
    from trace_ves.runs.prices import Prices
    from trace_ves.video.download import FetchRules


class LazyGroup(click.Group):
    """A group that knows the name, module and one-line help of its commands, and imports one when it runs."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._lazy = lazy
        self.commands = cast("dict[str, click.Command]", dict(lazy))  # the names that click suggests for a misspelt one

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """All names, in the order of the help text."""
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


class FiniteRange(click.FloatRange):
    """A float range that refuses nan and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert the value to a finite number in the range."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


@contextmanager
def requires_extra(what: str, extra: str) -> Iterator[None]:
    """If a third-party module is missing, say which extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("trace_ves"):
            raise
        raise MissingExtraError(what, extra) from None


COST_REACHED: Final = 3  # the exit status if --max-cost stopped a command


def refuse_repeated_options(command: click.Command) -> click.Command:
    """Refuse an option given twice, of which click would drop one value, and an empty path."""
    if isinstance(command, click.Group):
        return command
    parse_args = command.parse_args

    def check_and_parse(ctx: click.Context, args: list[str]) -> list[str]:
        values, _, order = command.make_parser(ctx).parse_args(list(args))
        for option, count in Counter(order).items():
            if count > 1 and isinstance(option, click.Option) and not option.multiple:
                raise click.UsageError(f"{option.opts[-1]} was given {count} times; give it once.", ctx)
        for param in order:
            if isinstance(param.type, click.Path) and values.get(param.name) == "":
                raise click.UsageError(f"{param.opts[-1]} is empty; name a file or a folder.", ctx)
        return parse_args(ctx, args)

    command.parse_args = check_and_parse  # type: ignore[method-assign]
    return command


path_type: Final = click.Path(path_type=Path)
file_type: Final = click.Path(path_type=Path, dir_okay=False)
existing_file_type: Final = click.Path(path_type=Path, dir_okay=False, exists=True)
folder_type: Final = click.Path(path_type=Path, file_okay=False)
count_type: Final = click.IntRange(min=1)
seed_type: Final = click.IntRange(min=0)
port_type: Final = click.IntRange(0, 65535)
positive_type: Final = FiniteRange(min=0, min_open=True)


def add_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A decorator that adds these options, in the order of the help text."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


def gather_options(name: str, make: Callable[..., Any], *options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A decorator that adds these options; the command gets `make(**their values)` as its parameter `name`."""
    add = add_options(*options)
    names = [option.name or "" for option in add(click.Command("")).params]

    def decorate(command: Callable[..., Any]) -> Any:
        @wraps(command)
        def with_gathered(**params: Any) -> Any:
            value = make(**{each: params.pop(each) for each in names})
            return command(**params, **{name: value})

        return add(with_gathered)

    return decorate


def _choice(name: str, values: Sequence[str], help_text: str) -> Callable[[Any], Any]:
    return click.option(name, type=click.Choice(values), default=values[0], help=help_text)


def max_cost_option(help_text: str, default: float | None = None) -> Callable[[Any], Any]:
    """The option --max-cost."""
    return click.option("--max-cost", type=positive_type, default=default, metavar="DOLLARS", help=help_text)


backbone_options = add_options(
    click.option(
        "--temperature", type=FiniteRange(0, 2), help="Sampling temperature. Default: the provider's recommendation."
    ),
    _choice(
        "--thinking", ("default", "none", "low", "medium", "high"), "How much the model may think before it answers."
    ),
    click.option(
        "--detail",
        metavar="LEVEL",
        default="auto",
        help="Image detail: low, medium, high, or auto (by frame height). Per provider: gemini=low,openai=high.",
    ),
    _choice(
        "--reply-format",
        ("schema", "words"),
        "words: describe the reply at the end of the prompt, so that prompt caches work across stages.",
    ),
    _choice("--service-tier", ("standard", "flex"), "flex is cheaper and slower (Gemini, OpenAI)."),
    _choice(
        "--server",
        ("auto", "vllm", "sglang", "llama.cpp", "other"),
        "Software of the server at openai:MODEL@http://…; auto detects it.",
    ),
    click.option(
        "--max-output-tokens",
        type=count_type,
        metavar="N",
        help="Maximum number of tokens in a reply, including thinking.  [default: the model's; 32,000 for Claude]",
    ),
    click.option(
        "--timeout",
        type=positive_type,
        metavar="SECONDS",
        help="Limit on one attempt; failed attempts are retried.  [default: 180; 600 for your own server or "
        "--thinking high; at least 900 in the flex tier]",
    ),
    click.option("--cache/--no-cache", default=None, help="Reuse cached responses.  [default: for paid models]"),
)
"""The options of models; the command gets each under its name in `open_backbone`."""


def spec_type(value: str) -> str:
    """The full spec of a backbone; `value` may be a common short name."""
    from trace_ves.backbone.registry import canonical_spec

    return canonical_spec(value)


@dataclass(frozen=True)
class CostOptions:
    """The options of estimates, limits and prices."""

    max_cost: float | None
    price_file: Path | None
    price: str | None = None
    estimate_only: bool = False

    @cached_property
    def prices(self) -> Prices:
        """The prices of tokens."""
        from trace_ves.runs.prices import load_prices, parse_price

        return load_prices(self.price_file, None if self.price is None else parse_price(self.price))

    @cached_property
    def limit(self) -> CostLimit | None:
        """The limit of --max-cost, which counts what is spent; None without the option."""
        from trace_ves.runs.cost import CostLimit

        return None if self.max_cost is None else CostLimit(self.max_cost, self.prices)

    def show_estimate(
        self,
        runs: Sequence[tuple[str, str]],
        durations: Sequence[float],
        model_options: Mapping[str, Any],
        *,
        budget: int | None,
        as_json: bool,
    ) -> int:
        """Print what each method and backbone will cost for one question about each of these videos."""
        from trace_ves.cli.progress import output_console
        from trace_ves.runs.estimate import estimate, estimate_table
        from trace_ves.ves.terminal import print_table

        click.echo("measuring the calls of each method in a simulation; nothing is sent", err=True)
        estimates = [
            estimate(method, spec, durations, self.prices.of(spec), budget=budget, model_options=model_options)
            for method, spec in runs
        ]
        if as_json:
            click.echo(json.dumps([each.to_json() for each in estimates], indent=2))
        else:
            print_table(estimate_table(estimates), output_console())
        return 0


prices_option = click.option("--prices", "price_file", type=file_type, help="TOML file with token prices.")
cost_options = gather_options(
    "costs",
    CostOptions,
    click.option("--estimate", "estimate_only", is_flag=True, help="Estimate the cost without calling the model."),
    max_cost_option("Stop once this much has been spent; exit status 3."),
    prices_option,
    click.option("--price", metavar="IN,CACHED,OUT", help="Price per million tokens, for models not in the table."),
)
"""The options of estimates, limits and prices; the command gets them as `costs`."""
session_cost_option = max_cost_option("Stop once the session has spent this much.", default=1.0)
no_browser_option = click.option("--no-browser", is_flag=True, help="Print the address; do not open a browser.")
backbone_option = click.option(
    "--backbone",
    type=spec_type,
    metavar="SPEC",
    help="The model: for example gemini:MODEL, claude-…, ollama:MODEL, openai:MODEL@http://host:port/v1.  "
    "[default: the first provider whose key is set]",
)
transcripts_option = click.option(
    "--transcripts/--no-transcripts",
    default=True,
    help="Save the prompt and raw reply of each call next to the record.",
)
subtitles_option = click.option(
    "--subtitles",
    is_flag=True,
    help="Show the model the .srt or .vtt next to a video, or a text track in it. Only the trace method uses them.",
)


class VideoArgument(click.Path):
    """A path becomes a `Path`; an address stays a string, because a path would merge its slashes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path or the address."""
        from trace_ves.video.download import is_address

        return value if isinstance(value, str) and is_address(value) else super().convert(value, param, ctx)


video_type: Final = VideoArgument(path_type=Path)


def _fetch_rules(allow_private: bool, max_download_gb: float) -> FetchRules:
    from trace_ves.video.download import GIGABYTE, FetchRules

    return FetchRules(allow_private=allow_private, most_bytes=int(max_download_gb * GIGABYTE))


fetch_options = gather_options(
    "fetch_rules",
    _fetch_rules,
    click.option("--allow-private", is_flag=True, help="Also fetch from this machine and private networks."),
    click.option("--max-download-gb", type=positive_type, default=8.0, help="Refuse to fetch a larger video."),
)
"""The options of fetching; the command gets them as `fetch_rules`."""


def local_video(video: Path | str, rules: FetchRules, *, quiet: bool = False) -> Path:
    """Return the path of a video; one named by its address is fetched first."""
    if isinstance(video, Path):
        return video
    from trace_ves.cli.process import warn
    from trace_ves.cli.progress import LateProgress
    from trace_ves.core.display import size_words
    from trace_ves.video.fetching import fetch_video

    with LateProgress() as progress:
        fetched = fetch_video(video, rules=rules, on_progress=partial(progress, "fetching"))
    warn(fetched.warning)
    if not quiet:
        click.echo(f"{fetched.path.name}: {size_words(fetched.bytes)}, sha256 {fetched.sha256}", err=True)
    return fetched.path
