"""The options of every command that opens a backbone and lets a person set something about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from trace_ves.cli.options import FiniteRange

if TYPE_CHECKING:
    from collections.abc import Callable

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
