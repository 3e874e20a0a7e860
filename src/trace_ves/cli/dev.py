"""`trace-ves dev`: file schemas, missing videos, a glance server and shell completion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from trace_ves.cli.options import folder_type, path_type, port_type, requires_extra
from trace_ves.core.errors import MissingExtraError, TraceVesError

if TYPE_CHECKING:
    from trace_ves.records import Item
    from trace_ves.web.serve import Address

FORMATS: Final = {
    "bench-line": ("records.item:BenchLine", "A line of a bench, questions.jsonl."),
    "mapping": ("benches.mapping:Mapping", "A mapping from your annotations to a bench, *.toml."),
    "run-line": ("records.prediction:Prediction", "A line of a run, METHOD@BACKBONE.jsonl."),
    "recorded-look": ("records.calls:RecordedLook", "A line of recorded frames, frames-PROCESS.jsonl."),
    "run-configuration": ("records.run_file:RunConfiguration", "What a run was made with, *.run.toml."),
    "audit-report": ("ves.report:AuditReport", "What audit --json writes."),
    "counterfactual-line": ("records.counterfactual:Outcome", "A line of a counterfactual check."),
    "saved-answer": ("records.prediction:SavedAnswer", "What ask --save and ask --json write, record.json."),
    "transcript": ("records.transcript:Transcript", "Prompts and replies of each call, *.transcripts."),
    "released-video": ("records.disk_cache:ReleasedVideo", "A line of a release's videos.jsonl."),
    "build-settings": ("construction.project:BuildSettings", "The settings of a build, build.toml."),
    "gold-line": ("construction.gold:GoldLine", "A line of a file of gold items for a build."),
    "twin-line": ("twin.synthetic.truth:VideoTruth", "A line of a twin's world.jsonl: what is in one video."),
}
"""Each file format: the type that reads and writes it, and what it is."""
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


@click.group("dev")
def dev_command() -> None:
    """Tools for developers."""


@dev_command.command("schema", short_help="Print the JSON Schema of a file format.")
@click.argument("name", required=False, type=click.Choice(list(FORMATS)), metavar="[NAME]")
@click.option("--out", type=folder_type, metavar="DIR", help="Write each schema to DIR/NAME.json.")
def schema_command(*, name: str | None, out: Path | None) -> None:
    """Print the JSON Schema of the file format NAME, or the list of formats."""
    from trace_ves.core.files import write_atomic

    if out is not None:
        for each in [name] if name else FORMATS:
            write_atomic(out / f"{each}.json", schema_text(each))
            click.echo(out / f"{each}.json")
    elif name is not None:
        click.echo(schema_text(name), nl=False)
    else:
        width = max(map(len, FORMATS))
        for each, (_, words) in FORMATS.items():
            click.echo(f"{each:{width}}  {words}")


def schema_text(name: str) -> str:
    """The schema of a format as JSON, with the docstrings of its fields as descriptions."""
    module, _, attribute = FORMATS[name][0].partition(":")
    kind = getattr(import_module(f"trace_ves.{module}"), attribute)
    from pydantic import TypeAdapter  # only needed here

    from trace_ves.records import Prediction
    from trace_ves.records.search import SearchRecord

    with _field_docstrings():
        schema: dict[str, Any] = TypeAdapter(kind).json_schema()
        searches = TypeAdapter(SearchRecord).json_schema()
    if kind is Prediction:  # `trajectory` is one of the known searches, or the method's own record
        schema["$defs"] |= searches["$defs"]
        schema["properties"]["trajectory"] |= {"anyOf": [*searches["oneOf"], {"type": "object"}]}
        del schema["properties"]["trajectory"]["type"]
        schema["required"] += ["timestamps"]  # without them an answer cannot be audited
    described = {"$schema": DIALECT, **schema, "title": name, "description": FORMATS[name][1]}
    return json.dumps(described, indent=2, ensure_ascii=False) + "\n"


@contextmanager
def _field_docstrings() -> Iterator[None]:
    """Let pydantic read field docstrings. Only for schemas: it is slow, and not thread-safe in Python 3.11."""
    from trace_ves.records import Record

    kinds: list[Any] = [Record]
    for each in kinds:  # the list grows in this loop
        kinds += each.__subclasses__()
    configs = [kind.__pydantic_config__ for kind in kinds if "__pydantic_config__" in vars(kind)]
    try:
        for config in configs:
            config["use_attribute_docstrings"] = True
        yield
    finally:
        for config in configs:
            config.pop("use_attribute_docstrings", None)


@dev_command.command("videos")
@click.argument("bench", type=path_type)
@click.option("--missing", is_flag=True, help="List only what is missing or has a problem.")
@click.option("--check", is_flag=True, help="Open every video and compare its duration with the bench.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each video.")
def videos_command(*, bench: Path, missing: bool, check: bool, as_json: bool) -> None:
    """List the videos that BENCH needs and show which exist.

    Nothing is fetched. Each line has the state, the path relative to the bench, the number of questions about it,
    its duration, and its URL if the bench has one.
    """
    from trace_ves.benches import load_bench
    from trace_ves.benches.bench import list_videos, summarise_videos
    from trace_ves.cli.progress import LateProgress
    from trace_ves.core.jsonl import dump_line
    from trace_ves.ves.terminal import printable

    loaded = load_bench(bench)
    folder = loaded.path.parent if loaded.path else Path()
    videos = list_videos(loaded.items, folder)
    first = {item.question.video: item for item in reversed(loaded.items)}
    with LateProgress() as progress:
        for place, video in enumerate(videos if check else ()):
            if video.there:
                videos[place] = replace(video, problem=_problem(first[video.video], folder))
            progress("opening videos", place + 1, len(videos))
    for video in videos:
        if missing and video.there and video.problem is None:
            continue
        if as_json:
            click.echo(dump_line(video.to_json()), nl=False)
            continue
        state = video.problem or ("found" if video.there else "missing")
        seconds = "" if video.duration is None else f"{video.duration:g} s"
        questions = f"{video.questions} question{'' if video.questions == 1 else 's'}"
        click.echo(printable("  ".join(filter(None, (state, video.video, questions, seconds, video.url)))))
    click.echo(f"{loaded.path}: {summarise_videos(videos)}", err=as_json)


def _problem(item: Item, folder: Path) -> str | None:
    from trace_ves.runs.video_pool import matches_duration
    from trace_ves.video import open as open_video

    try:
        with open_video(folder / item.question.video) as video:
            seconds = video.duration
    except MissingExtraError:
        raise
    except TraceVesError:
        return "cannot be read as a video"
    return None if matches_duration(item, seconds) else f"is {seconds:.1f} s long; the bench says {item.duration:g} s"


@dev_command.command("serve-glance")
@click.option("--port", default=8643, type=port_type, help="0 picks a free port.")
def serve_glance_command(*, port: int) -> None:
    """Serve glance to OpenAI clients on this machine.

    It receives only rendered prompts and JPEGs, so you can test prompts and clients without a key. glance recognises
    only synthetic videos; it is not a vision-language model (see docs/twin.md).
    """
    with requires_extra("trace-ves dev serve-glance", "video,glance,web"):
        from trace_ves.twin.glance.glance import Glance
        from trace_ves.twin.glance.server import CHAT_PATH, MAX_BODY_BYTES, create_app
        from trace_ves.web.guard import Guard
        from trace_ves.web.serve import serve_app

    def announce(address: Address) -> None:
        url = address.url("/v1")
        click.echo(f"glance answers at {url}; press Ctrl-C to stop.")
        click.echo(f"Try: trace-ves run BENCH --backbone openai:glance@{url} --method trace --out runs")

    app = create_app(Glance())
    serve_app(
        lambda hosts, token: Guard(app, hosts=hosts, token=token, body_bytes={CHAT_PATH: MAX_BODY_BYTES}),
        host="127.0.0.1",
        port=port,
        ready=announce,
        needs_token=False,
    )
    click.echo("stopped.")


SHELLS: Final = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@dev_command.command("completion", short_help="Print the script that completes commands in your shell.")
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion_command(shell: str) -> None:
    """Print the completion script for your shell.

    \b
    bash: trace-ves dev completion bash >> ~/.bashrc
    zsh:  trace-ves dev completion zsh >> ~/.zshrc
    fish: trace-ves dev completion fish > ~/.config/fish/completions/trace-ves.fish
    """  # noqa: D301  click reads the \b
    from trace_ves.cli.main import group

    click.echo(SHELLS[shell](group, {}, "trace-ves", "_TRACE_VES_COMPLETE").source())
