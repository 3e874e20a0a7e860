"""Asking again and again about one video, from a pipe and from a terminal, with a model behind a real HTTP server."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from tests.cli.conftest import Call, Model, serving

from trace_ves.cli.ask_session import _Prompt

OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
"""Makes standard input the terminal of a process, so that Ctrl-C reaches it, and goes on as Python."""
QUESTION = "Which colour is seen? | red | blue"


class Noting(Model):
    """A model that makes notes of the storyboard, and counts the pictures it is sent."""

    pictures: int = 0

    def answer(self, text: str, images: int) -> dict[str, Any]:
        Noting.pictures += images
        reply = super().answer(text, 1)  # it finds the colour in its notes too
        if "notes" in reply and images:
            reply["notes"] = [{"start": 0, "end": 120, "note": "colours", "promising": True}]
        return reply


@pytest.fixture
def backbone() -> Iterator[str]:
    Noting.pictures = 0
    yield from serving(Noting)


def test_every_answer_counts_what_it_rests_on(cli: Call, clip: Path, backbone: str, tmp_path: Path) -> None:
    lines = f"{QUESTION}\n/why\n{QUESTION}\n/save {tmp_path / 'second'}\n"
    done = cli("ask", clip, "--backbone", backbone, "--json", stdin=lines)
    first, second = map(json.loads, done.stdout.splitlines())
    assert "round 1" in done.stderr
    assert [call.get("remembered") for call in first["observations"]] == [None] * len(first["observations"])
    remembered = [call for call in second["observations"] if call.get("remembered")]
    assert [len(call["timestamps"]) for call in remembered] == [32]
    assert second["timestamps"] == first["timestamps"]
    assert second["frames_supplied"] == first["frames_supplied"]
    story = (tmp_path / "second" / "story.html").read_text()
    assert "Nothing was sent: an earlier question of the session showed these frames" in story
    assert Noting.pictures == first["frames_supplied"] + second["frames_supplied"] - 32


def test_a_session_saves_each_answer_in_its_folder(cli: Call, clip: Path, backbone: str, tmp_path: Path) -> None:
    ask = ("ask", clip, "--backbone", backbone, "--method", "uniform-4", "--save", tmp_path / "out")
    cli(*ask, stdin=f"Which colour is seen?\nWhat is it?\n/save {tmp_path / 'mine'}\n")
    cli(*ask, stdin="And now?\n")
    asked = [json.loads((tmp_path / "out" / n / "record.json").read_text())["question"] for n in "123"]
    assert asked == ["Which colour is seen?", "What is it?", "And now?"]
    assert json.loads((tmp_path / "mine" / "record.json").read_text())["question"] == "What is it?"
    assert sorted(folder.name for folder in (tmp_path / "out").iterdir()) == ["1", "2", "3"]


def test_bytes_that_are_no_text_do_not_end_a_session(cli: Call, clip: Path, backbone: str) -> None:
    typed = b"What is \xff\xfe?\n/help\n"
    done = cli("ask", clip, "--backbone", backbone, "--method", "uniform-4", stdin=typed)
    assert "red" in done.stdout
    assert "/evidence [N]" in done.stdout


def test_a_limit_on_the_cost_ends_a_session(cli: Call, clip: Path, backbone: str, chatterbox: str) -> None:
    ask = ("ask", clip, "--backbone", backbone, "--method", "uniform-4", "--max-cost", "0.0001")
    done = cli(*ask, "--price", "1,1,1", stdin="Which colour?\nWhat is it?\n", status=3)
    assert done.stdout.count("│ red ") == 1
    assert "stopped: the answers have cost $0.0004, and --max-cost is $0.0001." in done.stderr
    assert "--max-cost needs a price for" in cli(*ask, stdin=QUESTION, status=2).stderr
    talking = cli("ask", clip, "--backbone", chatterbox, "--method", "uniform-4", stdin=f"{QUESTION}\n", status=1)
    assert "replies of openai:red" in talking.stderr


def test_subtitles_are_shown_or_missed_before_asking(cli: Call, clip: Path, backbone: str, tmp_path: Path) -> None:
    film = tmp_path / "film.mp4"
    shutil.copyfile(clip, film)
    ask = ("ask", film, "--backbone", backbone, "--subtitles", "--json")
    missing = cli(*ask, stdin=QUESTION, status=2)
    assert "film.mp4 has no subtitles: no text track in it, and no film.srt or film.vtt next to it" in missing.stderr
    assert Noting.pictures == 0
    (tmp_path / "film.srt").write_text("1\n00:00:12,000 --> 00:00:15,000\n<i>Now it is red.</i>\n")
    record = json.loads(cli(*ask, stdin=QUESTION).stdout)
    assert record["subtitles"] == {"source": "film.srt", "cues": 1}
    shown = {call["stage"]: call.get("subtitles") for call in record["observations"]}
    assert {stage for stage, lines in shown.items() if lines} == {"temporal-proposal", "evidence-assembly"}
    other = cli(*ask, "--method", "uniform-4", stdin=QUESTION, status=2)
    assert "the method does not read subtitles; trace and its variants do" in other.stderr


def test_a_prompt_survives_what_is_typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    typed = iter((KeyboardInterrupt(), "# a remark", "  What\udc80? ", "/quit", EOFError()))
    prompts: list[str] = []

    def read(prompt: str) -> str:
        prompts.append(prompt)
        if isinstance(each := next(typed), BaseException):
            raise each
        return each

    def interrupt(line: str) -> None:
        assert line == "What??"
        raise KeyboardInterrupt

    imported: list[str] = []
    monkeypatch.setattr("trace_ves.cli.ask_session.import_module", imported.append)
    monkeypatch.setattr("builtins.input", read)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    settings: Any = SimpleNamespace(costs=SimpleNamespace(limit=None))
    prompt: Any = _Prompt(SimpleNamespace(video=Path("a/film.mp4")), settings)  # type: ignore[arg-type]
    prompt._handle = interrupt
    assert prompt.run() == 1
    assert [*prompt._lines()] == []
    greeting = "film.mp4: ask a question. /help lists the commands.\n"
    said = f"{greeting}\nTo leave, type /quit or press Ctrl-D.\nstopped; earlier answers are kept.\n{greeting}"
    assert capsys.readouterr() == ("\n", said)
    assert (prompts, imported) == (["ask> "] * 5, ["readline"] * 2)


class Terminal:
    """A program in a terminal of its own: what it shows, and keys to press."""

    def __init__(self, *arguments: str) -> None:
        self._end, inner = pty.openpty()
        words = [sys.executable, "-c", OWN_TERMINAL, *arguments]
        env = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
        self.process = subprocess.Popen(words, stdin=inner, stdout=inner, stderr=inner, start_new_session=True, env=env)
        os.close(inner)
        self.shown = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)

    def press(self, keys: bytes) -> None:
        os.write(self._end, keys)

    def until(self, is_there: Callable[[bytes], bool], seconds: float = 60) -> bool:
        """Read on until what is shown is as wanted; whether it became so in time."""
        end = time.monotonic() + seconds
        while not is_there(self.shown) and time.monotonic() < end:
            if select.select([self._end], [], [], 0.1)[0]:
                self.shown += os.read(self._end, 65536)
        return is_there(self.shown)


def test_a_person_at_a_terminal_gets_a_prompt_history_and_colours(clip: Path, backbone: str) -> None:
    def at_prompt(shown: bytes) -> bool:
        return shown.endswith(b"ask> ")

    ask = ["-m", "trace_ves", "ask", str(clip), "--backbone", backbone, "--method", "uniform-4"]
    with Terminal(*ask) as terminal:
        assert terminal.until(at_prompt)
        terminal.press(b"What is it?\n")
        assert terminal.until(lambda shown: b"frames of 64 px" in shown and at_prompt(shown))
        terminal.press(b"\x1b[A\n")  # the line before, once more
        assert terminal.until(lambda shown: shown.count(b"frames of 64 px") == 2 and at_prompt(shown))
        terminal.press(b"/evidence 1\n")
        assert terminal.until(lambda shown: b"105.00 s" in shown and at_prompt(shown))
        for _ in range(30):  # Ctrl-C ends nothing; one just before Python's `select` is seen with the next key
            terminal.press(b"\x03")
            if terminal.until(lambda shown: b"To leave" in shown, seconds=2):
                break
        assert terminal.until(lambda shown: b"To leave" in shown and at_prompt(shown))
        terminal.press(b"\x04")
        assert terminal.process.wait(60) == 0
        assert "▀".encode() in terminal.shown
