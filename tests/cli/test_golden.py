"""What commands print and how they end, letter for letter as in tests/cli/golden.

A file holds the commands of a session, each with what it printed: `!` marks standard error, `?` an exit status. After
a change that is meant: `python -m tests.cli.test_golden`, then read the difference of each file.
"""

import json
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from tests import program
from tests.cli.conftest import Model, serving
from tests.cli.test_ask_many import TABLE
from tests.cli.test_ask_session import QUESTION
from tests.cli.test_audit import QUESTION as BENCH_LINE
from tests.cli.test_audit import ROW
from tests.films import write_film

from trace_ves.web.guard import Guard
from trace_ves.web.serve import Address

GOLDEN = Path(__file__).parent / "golden"
TYPED = f"{QUESTION}\n/help\n/evidence\n/evidence 1\n/why\n/budget\n/budget 60\nWhat is it?\n/history\n/cost\n"
MANY = "9" * 5000
MISTYPED = f"/evidence\n/evidense\n/budget x\n/budget 0\n/budget {MANY}\nWhich? | one\n/save\n{QUESTION}\n/evidence 9\n"
PRICES = '["openai:*"]\ninput = 10\ncached = 1\noutput = 100\ndate = 2026-05-01\n'
GOLD = {
    "video": "videos/a.mp4",
    "question": "How many?",
    "options": ["1", "2", "3", "4"],
    "answer": "B",
    "evidence": [[4, 6], [10, 12]],
    "rationales": ["one", "two"],
}
ANSWERS = {"unseen": "unknown", "green": "no"}


class Drafting(Model):
    def answer(self, text: str, images: int) -> dict[str, Any]:
        if "rationale" in text:
            return {"items": [GOLD, GOLD | {"answer": "C"}]}
        words = next((words for asked, words in ANSWERS.items() if asked in text), None)
        return {"answer": words} if words else super().answer(text, images)


REGIONS = [{"value": {"start": at, "end": at + 2, "labels": ["the fox"]}} for at in (0, 20, 40)]
MEASURED = re.compile(
    r"\d+\.\d s(?= with|,)|\d+\.\d(?= (\d\.\d\d )?(MB|\?$|\$))|(?<=version:).+"
    r"|(?<=\"seconds\": )(\{[^}]*|[^,}]+)|(?<=_checksum\": ){[^}]+}"
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


def serve(make: Any, *, ready: Any, **options: Any) -> None:
    """Print how an application would be served."""
    app = make({"the names"}, "the-token")
    guard = app if isinstance(app, Guard) else app._app
    click.echo(f"{options}, {guard._hosts}, {guard._token}, {guard._secure}, {guard._body_bytes}")
    ready(Address("127.0.0.1", 1, "the-token"))


@contextmanager
def place(folder: Path) -> Iterator[str]:
    """Films, tables and answers in a folder, and the spec of a model behind a server."""
    for name in ("film.mp4", "films/a.mp4", "new/videos/a.mp4"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_film(folder / name, [(255, 0, 0)] * 300 + [(0, 0, 255)] * 300, fps=5, size=(96, 64))
    (folder / "films" / "broken.mp4").touch()
    (folder / "text.mp4").write_text("not a video at all")
    (folder / "empty").mkdir()
    (folder / "questions.jsonl").write_text(json.dumps(BENCH_LINE) + "\n")
    (folder / "table.csv").write_text(TABLE)
    (folder / "typed").write_text(TYPED)
    (folder / "mistyped").write_text(f"{MISTYPED}/evidence {MANY}\n/quit\nnever asked\n")
    (folder / "prices.toml").write_text(PRICES)
    (folder / "question").write_text("Où? Which colour is seen?\n")
    (folder / "cg.json").write_text(json.dumps([ROW, ROW | {"qid": 2, "clue_intervals": [[3, 1]]}, ROW | {"qid": 3}]))
    (folder / "gold.jsonl").write_text("".join(json.dumps(GOLD | {"accept": each}) + "\n" for each in (True, False)))
    (folder / "regions.json").write_text(json.dumps([{"annotations": [{"result": REGIONS}]}]))
    (folder / "key").write_text("a-secret\n")
    yield from serving(Drafting)


def replay(script: str, folder: Path, model: str) -> list[str]:
    """Run the commands of a session again; what they print without their times and the address of the model."""
    lines: list[str] = []
    numbers = count(1)
    chance = SimpleNamespace(
        token_hex=lambda size: f"{next(numbers):0{2 * size}x}", token_urlsafe=lambda _: f"token-{next(numbers)}"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trace_ves.web.serve.serve_app", serve)
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
        for command in re.findall(r"^\$ (.+)", script, re.MULTILINE):
            words = shlex.split(command.replace("MODEL", model).replace("MANY", MANY))
            typed = (folder / words.pop()).read_text() if words[-2:-1] == ["<"] and not words.remove("<") else ""
            own = {f"TRACE_VES_{each}_DIR": f"{folder}-{each}" for each in ("CACHE", "CONFIG")}
            done = program.run(*words, stdin=typed, cwd=folder, COLUMNS="120", **own)
            said = re.sub(r"^Usage: .*\n(Try .*\n)?\n", "", done.stderr)  # as click has it
            printed = [*done.stdout.splitlines(), *(f"! {line}" for line in said.splitlines())]
            lines += ["", f"$ {command}", *printed, *([f"? {done.returncode}"] if done.returncode else [])]
    for word, name in ((model, "MODEL"), (MANY, "MANY"), (f"{folder}/", "")):
        lines = [line.replace(word, name).rstrip() for line in lines]
    return [
        MEASURED.sub("0", words) if MEASURED.search(words := " ".join(line.split())) else line for line in lines[1:]
    ]


@pytest.mark.parametrize("name", [path.name for path in sorted(GOLDEN.iterdir())])
def test_a_session_goes_as_it_went(name: str, tmp_path: Path) -> None:
    script = (GOLDEN / name).read_text(encoding="utf-8")
    with place(tmp_path) as model:
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert replay(script, tmp_path, model) == script.splitlines()
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before or name != "mistakes.txt"  # they write nothing


if __name__ == "__main__":
    for file in sorted(GOLDEN.iterdir()):
        with tempfile.TemporaryDirectory() as scratch, place(Path(scratch)) as spec:
            made = [*replay(file.read_text(encoding="utf-8"), Path(scratch), spec), ""]
        file.write_text("\n".join(made), encoding="utf-8")
