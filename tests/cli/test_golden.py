"""What commands print and how they end, letter for letter as in tests/cli/golden.

A file holds the commands of a session, each with what it printed: `!` marks standard error, `?` an exit status. `cat`
and `ls` show the files that the commands wrote. After a change that is meant: `python -m tests.cli.test_golden`, then
read the difference of each file.
"""

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from importlib import import_module, metadata
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from tests import program
from tests.cli.conftest import Model, serving
from tests.films import write_film

from trace_ves.cli.ask import SAMPLE_FILM
from trace_ves.cli.progress import LateProgress
from trace_ves.runs.answering import Job, RunOptions
from trace_ves.runs.evaluate import evaluate as run_methods
from trace_ves.twin.synthetic.world import Hints
from trace_ves.video.download import FetchRules
from trace_ves.video.folders import VideoFolders
from trace_ves.web.guard import Guard
from trace_ves.web.serve import Address
from trace_ves.web.studio import Studio

GOLDEN = Path(__file__).parent / "golden"
PLACE = GOLDEN.with_name("place")
MANY = "9" * 5000
ANSWERS = {"unseen": "unknown", "green": "no"}


class Drafting(Model):
    def answer(self, text: str, images: int) -> dict[str, Any]:
        if "rationale" in text:
            gold = json.loads((PLACE / "gold.jsonl").read_text().splitlines()[0])
            del gold["accept"]
            return {"items": [gold, gold | {"answer": "C"}]}
        words = next((words for asked, words in ANSWERS.items() if asked in text), None)
        return {"answer": words} if words else super().answer(text, images)


MEASURED = re.compile(
    r"\d+\.\d s(?= with|,)|\d+\.\d(?= (\d\.\d\d )?(MB|\?$|\$))|(?<=version:).+"
    r"|(?<=studio-)\w{8}(?=,)|(?<=\.jsonl, )\d+, \d+|(?<=\"seconds\": )(\{[^}]*|[^,}]+)|(?<=_checksum\": ){[^}]+}"
)
"""Times, and what depends on the encoder."""


def version(name: str) -> str:
    if name in {"torch", "psycopg"}:
        raise metadata.PackageNotFoundError
    return "1"


MACHINE = {
    "__version__": "0",
    "metadata": SimpleNamespace(version=version, PackageNotFoundError=metadata.PackageNotFoundError),
    "platform": SimpleNamespace(python_version=lambda: "3", system=lambda: "Linux", machine=lambda: "x86"),
    "shutil": SimpleNamespace(which=lambda name: None if name == "vllm" else f"/bin/{name}"),
    "subprocess": SimpleNamespace(
        run=lambda *given, **more: SimpleNamespace(returncode=0, stdout=f"{given}\n{more}\n")
    ),
    "cache_dir": lambda: Path("cache"),
}
"""What `doctor` finds; the program of the driver prints how it was called."""


CALLED = """
backbone.registry.open_backbone benches.load_bench benches.importers.import_bench cli.ask_many.ask_many
construction.probes.probe_leave_one_out construction.probes.probe_shortcuts construction.proposal.caption_video
construction.proposal.propose_items construction.interchange.import_intervals video.fetching.fetch_video
runs.asking.AskSession runs.counterfactual.run_check runs.counterfactual.summarise
runs.estimate.estimate twin.synthetic.bench.make_twin twin.synthetic.bench.write_twin ves.audit ves.score_files
benches.logs.read_logs web.export.write_story web.open_library.open_library web.studio.Studio
"""
"""What the session `calls` shows the calls of: options that change no output, such as --workers, reach it."""


IMPORTED_FIRST = ("cli.ask_session", "cli.doctor", "ves.release", "web.open_library", "web.studio_app")
"""Modules that import some of these when they are imported: they get the functions themselves."""


def calling(function: Any) -> Any:
    """The function, which also prints what it is called with."""

    def call(*given: Any, **named: Any) -> Any:
        values = [*map(describe, given), *(f"{name}={describe(value)}" for name, value in named.items())]
        click.echo(f"{function.__name__}({', '.join(values)})", err=True)
        return function(*given, **named)

    return call


def describe(value: object) -> str:
    """Plain values as they are, others by their type."""
    match value:
        case partial():
            return describe(value.args)
        case FetchRules() | Hints() | Job() | RunOptions():
            return describe({each.name: getattr(value, each.name) for each in fields(value)})
        case list() | tuple():
            return f"[{', '.join(map(describe, value))}]"
        case dict():
            return f"{{{', '.join(f'{name}: {describe(each)}' for name, each in value.items())}}}"
        case str() | int() | float() | Path() | None:
            return str(value)
    return type(value).__name__


def evaluate(bench: Any, methods: Any, backbones: Any, **options: Any) -> Any:
    """Evaluate with lab instead of glance: it answers alike, from the same world, without looking at pictures."""
    options["workers"] = 1  # jobs end in order
    return run_methods(bench, methods, "lab" if backbones == "glance" else backbones, **options)


def draw_figures(_report: object, _items: object, folder: Path) -> list[str]:
    """Draw nothing, which is faster."""
    return [f"{folder}/{name}" for name in ("a.svg", "a.png", "b.svg")]


def serve(make: Any, *, ready: Any, **options: Any) -> None:
    """Print how an application would be served."""
    app = make({"the names"}, "the-token")
    guard = app if isinstance(app, Guard) else app._app
    click.echo(f"{options}, {guard._hosts}, {guard._token}, {guard._secure}, {guard._body_bytes}")
    ready(Address("127.0.0.1", 1, "the-token"))


class Assistant:
    """Prints how a server for assistants would be made, and opens its model."""

    def __init__(self, folders: VideoFolders, open_model: Any, **options: Any) -> None:
        self._model = open_model
        click.echo(f"{[*folders.names(9)]}, {options}")

    def run(self, transport: str) -> None:
        click.echo(f"{transport}: {self._model().name}")


@contextmanager
def place(folder: Path) -> Iterator[str]:
    """Films, tables and answers in a folder, and the spec of a model behind a server."""
    shutil.copytree(PLACE, folder, dirs_exist_ok=True)
    for name in ("film.mp4", "films/a.mp4", "new/videos/a.mp4"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_film(folder / name, [(255, 0, 0)] * 300 + [(0, 0, 255)] * 300, fps=5, size=(96, 64))
    (folder / "many" / "videos").mkdir(parents=True)
    for number in range(6):
        os.link(folder / "film.mp4", folder / "many" / "videos" / f"{number}.mp4")
    (folder / "films" / "broken.mp4").touch()
    (folder / "text.mp4").write_text("not a video at all")
    (folder / "empty").mkdir()
    (folder / "mistyped").write_text((PLACE / "mistyped").read_text().replace("MANY", MANY))
    (folder / "key").write_text("a-secret\n")
    yield from serving(Drafting)


def replay(script: str, folder: Path, model: str, *, calls: bool = False) -> list[str]:
    """Run the commands of a session again; what they print without their times and the address of the model."""
    lines: list[str] = []
    numbers = count(1)
    chance = SimpleNamespace(
        token_hex=lambda size: f"{next(numbers):0{2 * size}x}", token_urlsafe=lambda _: f"token-{next(numbers)}"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trace_ves.web.serve.serve_app", serve)
        patch.setitem(sys.modules, "trace_ves.integrations.mcp", SimpleNamespace(VideoServer=Assistant))
        patch.setattr("webbrowser.open", lambda address: click.echo(f"opened: {address}"))
        for name, fake in MACHINE.items():
            patch.setattr(f"trace_ves.cli.doctor.{name}", fake)
        patch.setattr("av.library_versions", {"libavcodec": (61, 19, 100)})
        patch.setattr("av.codecs_available", {"h264", "vp9"})
        patch.setattr("os.process_cpu_count", lambda: 3, raising=False)
        patch.setattr("os.cpu_count", lambda: 3)
        for name in ("answer_panel", "run_table"):
            patch.setattr(f"trace_ves.cli.{name}.LEAST_SECONDS", 1e9)
        for name in ("people", "project", "proposal"):
            patch.setattr(f"trace_ves.construction.{name}.secrets", chance)
        for module in IMPORTED_FIRST:
            import_module(f"trace_ves.{module}")
        for each in CALLED.split() if calls else ():
            module, _, name = f"trace_ves.{each}".rpartition(".")
            patch.setattr(import_module(module), name, calling(getattr(import_module(module), name)))
        if calls:
            patch.setattr(LateProgress, "__call__", calling(LateProgress.__call__))
            patch.setattr(Studio, "close", calling(Studio.close))
            patch.setattr("trace_ves.ves.figures.draw_figures", calling(draw_figures))
            patch.setattr("trace_ves.runs.evaluate.evaluate", calling(evaluate))
        for command in re.findall(r"^\$ (.+)", script, re.MULTILINE):
            words = shlex.split(command.replace("MODEL", model).replace("MANY", MANY))
            if words[0] in {"cat", "ls"}:
                shown = folder / words[1]
                files = (path for path in shown.rglob("*") if path.is_file())
                names = sorted(path.relative_to(shown).as_posix() for path in files)
                lines += ["", f"$ {command}", *(names or shown.read_text(encoding="utf-8").splitlines())]
                continue
            own = {f"TRACE_VES_{each}_DIR": f"{folder}-{each}" for each in ("CACHE", "CONFIG")}
            while re.match("[A-Z_]+=", words[0]):
                own |= dict([words.pop(0).split("=")])
            typed = (folder / words.pop()).read_text() if words[-2:-1] == ["<"] and not words.remove("<") else ""
            done = program.run(*words, stdin=typed, cwd=folder, COLUMNS="120", **own)
            said = re.sub(r"^Usage: .*\n(Try .*\n)?\n", "", done.stderr)  # as click has it
            printed = [*done.stdout.splitlines(), *(f"! {line}" for line in said.splitlines())]
            lines += ["", f"$ {command}", *printed, *([f"? {done.returncode}"] if done.returncode else [])]
    folders = (f"{folder}/", f"{SAMPLE_FILM.parents[1]}/", f"{tempfile.gettempdir()}/")
    for word, name in ((model, "MODEL"), (MANY, "MANY"), *((each, "") for each in folders)):
        lines = [line.replace(word, name).rstrip() for line in lines]
    return [
        MEASURED.sub("0", words) if MEASURED.search(words := " ".join(line.split())) else line for line in lines[1:]
    ]


@pytest.mark.parametrize("name", [path.name for path in sorted(GOLDEN.iterdir())])
def test_a_session_goes_as_it_went(name: str, tmp_path: Path) -> None:
    script = (GOLDEN / name).read_text(encoding="utf-8")
    with place(tmp_path) as model:
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert replay(script, tmp_path, model, calls=name == "calls.txt") == script.splitlines()
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before or name != "mistakes.txt"  # they write nothing


if __name__ == "__main__":
    for file in sorted(GOLDEN.iterdir()):
        with tempfile.TemporaryDirectory() as scratch, place(Path(scratch)) as spec:
            text = file.read_text(encoding="utf-8")
            made = [*replay(text, Path(scratch), spec, calls=file.name == "calls.txt"), ""]
        file.write_text("\n".join(made), encoding="utf-8")
