"""`trace-ves view` and `trace-ves ask --view` as a person runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from tests import program
from tests.cli.test_ask import Model, serving
from tests.web.web_bench import WIDTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def running(*arguments: object) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A command that serves, and the address that it printed on either stream; interrupted at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "trace_ves", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"BROWSER": "true", "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.match(r"http://\S+:\d+/\S*", line):
                yield found[0], process
                break
        else:
            pytest.fail("no address was printed")
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(20) == 0, rest
        assert "Traceback" not in rest
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def fetch(url: str) -> str:
    """A page as a browser gets it: the token in the address becomes a cookie."""
    with build_opener(HTTPCookieProcessor()).open(url, timeout=20) as response:
        return response.read().decode()


def within(address: str, path: str) -> str:
    """The address of another page, with the token of the one that was printed."""
    start, _, query = address.partition("?")
    token = re.search(r"token=[^&]+", query)
    assert token is not None
    return f"{urljoin(start, path)}{'&' if '?' in path else '?'}{token[0]}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "nowhere: no such folder"),
        (["{runs}", "--bench", "nowhere"], "nowhere: no bench here"),
        (["{runs}", "--question", "q000"], "give --export"),
        (["{runs}", "--bench", "{bench}", "--export", "x.html"], "give --question"),
        (["{runs}", "--bench", "{bench}", "--export", "x.html", "--question", "q000"], "say which one with --run"),
        (["{runs}", "--bench", "{bench}", "--export", "x.html", "--question", "q000", "--run", "no"], "no run 'no'"),
        (["{runs}", "--bench", "{bench}", "--export", "x.html", "--question", "no", "--run", "avp@scripted"], "'no'"),
        (["{runs}", "--host", "host.invalid"], "could not listen"),
    ],
)
def test_what_a_person_gets_wrong(world: Path, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    places = {"runs": str(world / "runs"), "bench": str(world / "bench")}
    result = program.run("view", *(each.format(**places) for each in arguments))
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_the_page_asks_for_the_token_that_it_printed(world: Path, host: str) -> None:
    """On loopback too: other users of the machine can reach it."""
    arguments = ["view", world / "runs", "--bench", world / "bench", "--port", 0, "--no-browser", "--host", host]
    with running(*arguments) as (address, _):
        here = re.sub(r"//[^:]+:", "//127.0.0.1:", address)
        with pytest.raises(HTTPError, match="401"):
            fetch(here.partition("?")[0])
        with pytest.raises(HTTPError, match="401"):
            fetch(here[:-1])
        opener = build_opener(HTTPCookieProcessor())
        with opener.open(here, timeout=20) as response:
            assert "token" not in response.url
            assert "12 questions on 2 videos" in response.read().decode()


def test_loopback_is_known_and_an_address_holds_its_token() -> None:
    from trace_ves.web.serve import Address, is_loopback

    assert all(map(is_loopback, ("127.0.0.1", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "example.org")))
    assert Address("0.0.0.0", 80, "secret").url("/run", name="a b") == "http://0.0.0.0:80/run?name=a+b&token=secret"


def test_a_story_in_one_file(world: Path, tmp_path: Path, new_page: Callable[..., Any]) -> None:
    file = tmp_path / "story.html"
    exported = ("--export", file, "--question", "q002", "--run", "trace@scripted")
    result = program.run("view", world / "runs", "--bench", world / "bench", *exported)
    assert result.returncode == 0, result.stderr
    line = (world / "runs" / "trace@scripted.jsonl").read_text().splitlines()[2]
    frames = len(json.loads(line)["timestamps"])
    assert f": {frames} frames" in result.stdout
    text = file.read_text()
    assert text.count("data:image/jpeg") == frames
    assert not re.search(r"""(src|href)=["']?(https?:|/)""", text)
    page = new_page(offline=True)
    page.goto(file.as_uri())
    page.wait_for_selector("#player[data-ready]")
    assert page.locator(".round").count() == 4
    assert page.locator(".timeline .span.dropped").count() == 1
    page.keyboard.press("]")
    page.wait_for_selector("#player[data-shown='1']")
    assert page.locator("#player .still").evaluate("image => image.naturalWidth") == WIDTH
    page.locator("details.call summary").first.click()
    page.locator(".frames img").first.wait_for()
    page.keyboard.press("?")
    assert "Next supplied frame" in page.locator("#help dd").all_inner_texts()


# --- ask --view ------------------------------------------------------------------


class AlwaysA(Model):
    """A model that always answers A."""

    said = json.dumps({"answer": "A"})


@pytest.fixture
def model() -> Iterator[str]:
    yield from serving(AlwaysA)


def test_ask_view_opens_the_story_of_the_answer(world: Path, tmp_path: Path, model: str) -> None:
    video = os.path.relpath(world / "bench" / "videos" / "one.mp4")
    question = ["ask", video, "What passes?", "-o", "a van", "-o", "a <b>cow</b>", "--backbone", model]
    saved = tmp_path / "saved"
    with running(*question, "--method", "uniform-4", "--view", "--save", saved) as (address, _):
        text = fetch(address)
        assert "What passes?" in text
        assert "a &lt;b&gt;cow&lt;/b&gt;" in text
        assert "4 supplied, 4 distinct" in text
        assert ">gold<" not in text
        assert 'class="interval"' not in text
        moment = within(address, "/frame?id=What+passes%3F&t=1.0")
        with build_opener(HTTPCookieProcessor()).open(moment) as response:
            assert response.headers["X-Frame-Seconds"] == "1.0"
    without_video = program.run("view", saved, "--no-browser")
    assert without_video.stdout.strip() == (saved / "story.html").resolve().as_uri()
    assert "What passes?" in re.search(r"<title>(.*?)</title>", (saved / "story.html").read_text(), re.DOTALL)[1]  # type: ignore[index]
    videos = world / "bench" / "videos"
    with running("view", saved, "--videos", videos, "--port", 0, "--no-browser") as (address, _):
        assert "data-frame" in fetch(address)
        assert "What passes?" in re.search(r"<title>(.*?)</title>", fetch(address), re.DOTALL)[1]  # type: ignore[index]


def test_the_studio_serves_its_page_and_ends(world: Path, tmp_path: Path) -> None:
    folder = world / "bench" / "videos"
    with running("studio", folder, "--backbone", "glance", "--port", 0, "--save", tmp_path / "kept") as (address, _):
        shown = fetch(address)
    assert "Ask about a video" in shown
    assert 'value="one.mp4"' in shown
    assert str(folder) not in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "nowhere: no such file or folder"),
        (["."], "there is no video in this folder"),
        (["text.mp4"], "text.mp4"),
        (["one.mp4", "--backbone", "lab"], "lab answers about simulated videos"),
        (["one.mp4", "--method", "no-such"], "no-such"),
        (["one.mp4", "--save", "one.mp4"], "one.mp4 is an input of this command"),
    ],
)
def test_what_the_studio_cannot_serve_is_one_sentence(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    from click.testing import CliRunner

    from trace_ves.cli.main import group
    from trace_ves.core import TraceVesError

    monkeypatch.chdir(tmp_path)
    if "." not in arguments:
        shutil.copyfile(world / "bench" / "videos" / "one.mp4", tmp_path / "one.mp4")
        (tmp_path / "text.mp4").write_text("no video")
    done = CliRunner().invoke(group, ["studio", *arguments, "--no-browser"])
    assert isinstance(done.exception, TraceVesError)
    assert sentence in str(done.exception)
