"""Outputs that cannot be written or read: a full disk, /dev/full, ascii terminals; never a traceback."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Annotated, Any
from weakref import ref

import click
import pytest
from pydantic import PlainSerializer
from tests import program
from tests.cli.conftest import Call
from tests.films import write_film

from trace_ves.benches import write_bench
from trace_ves.cli.main import group
from trace_ves.cli.process import ESCAPE, exit_process, silence_stdout, tidy_sentence, track_interrupts
from trace_ves.core import InputError, Interval, Question
from trace_ves.records import Item
from trace_ves.records.base import Record, SparseRecord

FULL = Path("/dev/full")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bench with a question in words that ascii lacks, and a run of it."""
    item = Item(Question("q1", "v.mp4", "Wer öffnet das 窗?", ("ja", "nein")), "A", (Interval(1, 5),), 60.0)
    write_bench([item], tmp_path)
    line = {"question_id": "q1", "answer": "A", "timestamps": [2.0, 3.0], "method": "méthode"}
    (tmp_path / "run.jsonl").write_text(json.dumps(line) + "\n")
    return tmp_path


def start(*arguments: object, folder: Path, status: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python, which must end with `status` and without a traceback."""
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"} | options
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, check=False, timeout=60, **settings)
    assert "Traceback" not in done.stderr
    assert done.returncode == status, done.stderr
    return done


def test_standard_output_on_a_full_disk_is_one_sentence(folder: Path) -> None:
    with FULL.open("w") as full:
        done = start("-m", "trace_ves", "--help", folder=folder, stdout=full, status=2)
    assert done.stderr.splitlines()[-1] == "trace-ves: cannot be read or written: No space left on device."


@pytest.mark.parametrize("option", ["--json", "--csv", "--markdown", "--latex"])
def test_a_file_on_a_full_disk_is_one_sentence(folder: Path, cli: Call, option: str) -> None:
    done = cli("audit", folder, folder / "run.jsonl", option, FULL, status=2)
    assert done.stderr == "trace-ves: /dev/full: cannot be written: No space left on device.\n"
    assert FULL.is_char_device()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_any_encoding_of_the_terminal_gets_its_characters_or_their_escapes(folder: Path, encoding: str) -> None:
    environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    written = "utf-8" if encoding == "ascii" else encoding  # click takes ascii for a mistake and writes UTF-8
    audit = ("-m", "trace_ves", "audit", ".", "run.jsonl", "--json", "-")
    report = start(*audit, folder=folder, env=environment, encoding=written)
    assert json.loads(report.stdout)["runs"][0]["name"] == "méthode"


VIEW = ("view", ".", "--export", "story.html", "--question", "q1")
GLANCE = ("--backbone", "glance", "--method", "uniform-8", "-o", "ja", "-o", "nein")


def test_no_output_is_or_holds_an_input(film: Path, folder: Path, cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "link").symlink_to("run.jsonl")
    (folder / "runs").mkdir()
    shutil.copy(folder / "run.jsonl", folder / "runs")
    os.link(folder / "questions.jsonl", folder / "hard-link")
    (folder / "linked").mkdir()
    for name in ("run.run.toml", "run.transcripts", "v.srt", "world.jsonl", "prices.toml", "linked/x.run.toml"):
        (folder / name).write_text("")
    (folder / "linked/prices.toml").symlink_to(folder / "prices.toml")
    (folder / "linked/questions.jsonl").symlink_to(folder / "questions.jsonl")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    again = ("counterfactual", ".", "run.jsonl", "--backbone", "glance", "--k", "1", "--out")
    export = ("view", ".", "--question", "q1", "--run", "run", "--export")
    run = ("run", ".", "--method", "random", "--backbone", "glance", "--out")
    for arguments, outputs in {
        ("audit", ".", "run.jsonl", "--json"): "questions.jsonl run.transcripts v.mp4",
        ("audit", ".", "run.jsonl", "--csv"): "link run.run.toml",
        ("audit", ".", "run.jsonl", "--markdown"): "./run.jsonl v.srt",
        ("audit", ".", "run.jsonl", "--latex"): "hard-link world.jsonl",
        ("audit", ".", "run.jsonl", "--figures"): ".",
        again: "run.jsonl v.mp4 run.run.toml",
        export: "run.jsonl questions.jsonl v.mp4 v.srt run.run.toml",
        ("view", "runs", "--bench", ".", "--question", "q1", "--export"): "v.mp4 v.srt questions.jsonl",
        run: ". ..",
        (*run[:-1], "--prices", "linked/prices.toml", "--out"): "linked",
        ("ask", "v.mp4", *GLANCE[:4], "--questions", "questions.jsonl", "--save"): "runs/../linked",
        ("release", ".", "run.jsonl"): "v.en.srt",
        ("ask", "v.mp4", "Wer?", *GLANCE, "--overwrite", "--save"): ".",
        ("ask", "v.mp4", "Wer?", *GLANCE, "--prices", "prices.toml", "--record"): "prices.toml",
        ("ask", "v.mp4", "Wer?", "--backbone", "replay:run.transcripts", "--record"): "run.transcripts",
    }.items():
        for output in outputs.split():
            said = cli(*arguments, output, status=2).stderr
            assert "an input of this command" in said or "--export writes an HTML page" in said, (arguments, output)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.fixture
def film(folder: Path) -> Path:
    """Four seconds of grey."""
    return write_film(folder / "v.mp4", range(0, 200, 10), fps=5)


def test_an_answer_that_cannot_be_saved_is_printed_first(film: Path, folder: Path) -> None:
    """A disk that fills up: no file of the process may grow beyond 4 KB."""

    def fill_up() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    ask = ("-m", "trace_ves", "ask", film, "Wer?", *GLANCE, "--json", "--save", "answer")
    done = start(*ask, folder=folder, preexec_fn=fill_up, status=2)
    assert json.loads(done.stdout)["frames_supplied"] == 8
    assert "\ntrace-ves: answer: the answer could not be saved completely: File too" in f"\n{done.stderr}"


@pytest.mark.parametrize(
    ("typed", "question", "option"), [(b"Wer \xe4?\n", "-", "ja"), (b"", "Wer \udce4?", "ja"), (b"", "Wer?", "\udce4")]
)
def test_a_question_that_is_not_utf8(film: Path, cli: Call, typed: bytes, question: str, option: str) -> None:
    done = cli("ask", film, question, "-o", option, "-o", "nein", "--backbone", "glance", stdin=typed, status=2)
    assert done.stderr.startswith("trace-ves: the question or an option is not UTF-8 text;")


@pytest.mark.parametrize(
    ("missing", "command", "extra"),
    [("jinja2", VIEW, "web"), ("fastapi", VIEW, ""), ("av", ("ask", ".", "Wer?", *GLANCE), "video")],
)
def test_a_core_install_names_what_to_install(film: Path, missing: str, command: tuple[str, ...], extra: str) -> None:
    code = f"import sys; sys.modules['{missing}'] = None; from trace_ves.cli import main; main()"
    done = start("-c", code, *command, folder=film.parent, status=2 if extra else 0)
    said = f"needs an optional part: pip install '.[{extra}]' in the checkout.\n" if extra else ""
    assert done.stderr.endswith(said)
    assert bool(done.stdout) == (film.parent / "story.html").exists() == (not extra)  # a file needs no server


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("it failed: no such file..", "it failed: no such file."),
        ("why?.", "why?"),
        ("an error.. try again", "an error. try again"),
        ("../folder: gone.", "../folder: gone."),
        ("and so on....", "and so on..."),
        ("a, b, ….", "a, b, …"),
    ],
)
def test_no_sentence_ends_twice(text: str, clean: str) -> None:
    assert tidy_sentence(text) == clean


def interrupted(value: int = 0) -> int:
    signal.raise_signal(signal.SIGINT)
    return value


@dataclass(frozen=True)
class Part(SparseRecord):
    value: Annotated[int, PlainSerializer(interrupted)]


@dataclass(frozen=True)
class Whole(Record):
    parts: tuple[Part, ...]


class Dropped:
    def __del__(self) -> None:
        interrupted()


@pytest.mark.parametrize(
    ("work", "result"),
    [
        (Part(1).to_json, {"value": 1}),
        (Whole((Part(1), Part(2))).to_json, {"parts": [{"value": 1}, {"value": 2}]}),
        (lambda: str(type(Dropped())), str(Dropped)),
        (lambda: [ref(Event(), interrupted)()], [None]),
    ],
)
def test_an_interrupt_that_would_be_swallowed_comes_after_it(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[], object], result: object
) -> None:
    done: list[object] = []
    delays: list[float] = []
    set_timer = signal.setitimer
    monkeypatch.setattr(signal, "setitimer", lambda which, delay: delays.append(delay) or set_timer(which, delay))

    def long_work() -> None:
        done.append(work())
        time.sleep(60)

    with track_interrupts() as noted, pytest.raises(KeyboardInterrupt):
        long_work()
    assert noted.is_set()
    assert done == [result]
    assert {*delays} == {0, 0.001}


STOPPED = "trace-ves: interrupted; everything saved so far is kept.\n"


@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        (KeyboardInterrupt(), 130, STOPPED),
        (click.Abort(), 130, STOPPED),
        (BrokenPipeError(), 141, ""),
        (OSError(28, "full"), 2, "trace-ves: cannot be read or written: full.\n"),
        (OSError(28, "full", "a.txt"), 2, "trace-ves: a.txt: cannot be read or written: full.\n"),
        (OSError("odd"), 2, "trace-ves: cannot be read or written: odd.\n"),
        (InputError("Is it?."), 2, "trace-ves: Is it?\n"),
        (InputError("a\udc80"), 2, "trace-ves: a\\udc80\n"),
        (ImportError("half imported"), 130, STOPPED),  # by an interrupt
        (InputError("half read"), 130, STOPPED),
    ],
)
def test_how_a_command_ends(monkeypatch: pytest.MonkeyPatch, ending: BaseException, status: int, said: str) -> None:
    def end(*_: object, **__: object) -> None:
        if "half" in str(ending):
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        raise ending

    ignored: list[bool] = []
    monkeypatch.setattr(group, "main", end)
    monkeypatch.setattr(sys.modules["trace_ves.cli.main"], "ignore_interrupts", lambda: ignored.append(True))
    assert program.run("ask") == (status, "", said)
    assert ignored == [True] * (status == 130)
    assert "a😀é".encode("ascii", ESCAPE) == rb"a\ud83d\ude00\u00e9"
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii", ESCAPE)


def test_a_daemon_thread_ends_with_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the shutdown of Python, which native code in such a thread may not survive."""
    ended: list[object] = []
    file = tmp_path / "out"
    own, daemon, other = threading.current_thread(), threading.Thread(daemon=True), threading.Thread(daemon=False)
    monkeypatch.setattr("os._exit", lambda status: ended.append((status, file.read_text())))
    monkeypatch.setattr("trace_ves.cli.process.ignore_interrupts", lambda: ended.append("ignored"))
    with file.open("w", encoding="utf-8") as out, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        out.write("it says")
        for others, at_once in (([daemon, other], True), ([other], True), ([], True), ([daemon], False), ([], False)):
            patch.setattr("threading.enumerate", lambda others=others: [own, *others])
            with pytest.raises(SystemExit, match="3"):
                exit_process(3, at_once=at_once)
            ended.append(len(others))
        silence_stdout()
        out.write("nobody reads this")
    assert ended == [(3, "it says"), 2, 1, "ignored", 0, 1, 0]
    assert file.read_text() == "it says"


def test_an_interrupt_after_the_end_does_not_spoil_the_status(tmp_path: Path) -> None:
    script = "import atexit, os; from trace_ves.cli import main; atexit.register(os.kill, os.getpid(), 2); main()"
    assert start("-c", script, "--version", folder=tmp_path).stderr == ""


def test_an_interrupt_while_modules_are_imported_prints_no_traceback(tmp_path: Path) -> None:
    script = """
import signal, sys
from trace_ves.__main__ import main
class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == "click":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
main()
"""
    assert start("-c", script, "--version", folder=tmp_path, status=-signal.SIGINT).stderr == ""
