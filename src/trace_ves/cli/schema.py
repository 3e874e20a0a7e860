"""`trace-ves schema`: the JSON Schema of every file that this package writes or reads."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Final

import click

FORMATS: Final = {
    "bench-line": ("records.item:BenchLine", "A line of a bench, questions.jsonl."),
    "mapping": ("benchmarks.mapping:Mapping", "A mapping from somebody's own annotations to a bench, *.toml."),
    "run-line": ("records.prediction:Prediction", "A line of a run, METHOD@BACKBONE.jsonl."),
    "recorded-look": ("records.recorded_look:RecordedLook", "A line of recorded frames, frames-PROCESS.jsonl."),
    "run-configuration": ("records.run_configuration:RunConfiguration", "What a run was made with, *.run.toml."),
    "audit-report": ("records.audit_report:AuditFigures", "What audit --json writes."),
    "counterfactual-line": ("records.counterfactual:Outcome", "A line of a counterfactual check."),
    "saved-answer": ("records.saved_answer:SavedAnswer", "What ask --save and ask --json write, record.json."),
    "transcript": (
        "records.transcript:Transcript",
        "What was said in each call of a question, *.transcripts.",
    ),
    "released-video": ("records.checksum:ReleasedVideo", "A line of a release's videos.jsonl."),
    "build-settings": ("construction.settings:BuildSettings", "The settings of a build, build.toml."),
    "gold-line": ("construction.gold:GoldLine", "A line of a file of gold items for a build."),
    "twin-line": ("synthetic.truth:VideoTruth", "A line of a twin's world.jsonl: what is in one video."),
}
"""Each file format: the type that reads and writes it, and what it is."""


@click.command("schema", short_help="Print the JSON Schema of a file format.")
@click.argument("name", required=False, type=click.Choice(list(FORMATS)), metavar="[NAME]")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write each schema to DIR/NAME.json."
)
def command(*, name: str | None, out: Path | None) -> None:
    """Print the JSON Schema of the file format NAME, or the list of formats."""
    from trace_ves.core.atomic import write_atomic

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
    """The schema of a format as JSON."""
    from trace_ves.records.schemas import schema_of

    module, _, attribute = FORMATS[name][0].partition(":")
    kind = getattr(import_module(f"trace_ves.{module}"), attribute)
    schema = schema_of(kind) | {"title": name, "description": FORMATS[name][1]}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
