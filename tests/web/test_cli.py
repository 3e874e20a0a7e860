"""`trace-ves view` and `trace-ves ask --view` as a user runs them, and as docs/view.md describes them."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from tests.cli.conftest import Call, Model, serving
from tests.docs import ROOT, read
from tests.web.web_bench import WIDTH
from trace_ves.cli.pages import view_command
from trace_ves.web.serve import Address, is_loopback
from trace_ves.web.views import static_text


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
    try:
        for line in process.stdout:
            if found := re.match(r"http://\S+:\d+/\S*", line):
                yield found[0], process
                break
        else:
            pytest.fail("no address was printed")
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60) == 0, rest
        assert "Traceback" not in rest
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def fetch(url: str) -> str:
    """A page as a browser gets it: the token in the address becomes a cookie."""
    with build_opener(HTTPCookieProcessor()).open(url, timeout=60) as response:
        return response.read().decode()


def check_token(address: str) -> None:
    """The page asks for its token, on loopback too: other users of the machine can reach it."""
    for wrong in (address.partition("?")[0], f"{address}x"):
        with pytest.raises(HTTPError, match="401"):
            fetch(wrong)


def test_a_page_for_the_network_asks_for_the_token_that_it_printed(world: Path) -> None:
    arguments = ["view", world / "runs", "--bench", world / "bench", "--port", 0, "--no-browser", "--host", "0.0.0.0"]
    with running(*arguments) as (address, _):
        here = re.sub(r"//[^:]+:", "//127.0.0.1:", address)
        check_token(here)
        with build_opener(HTTPCookieProcessor()).open(here, timeout=60) as response:
            assert "token" not in response.url
            assert "12 questions on 2 videos" in response.read().decode()


def test_loopback_is_known_and_an_address_holds_its_token() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "example.org")))
    assert Address("0.0.0.0", 80, "secret").url("/run", name="a b") == "http://0.0.0.0:80/run?name=a+b&token=secret"


def test_a_story_in_one_file(world: Path, tmp_path: Path, call: Call, new_page: Callable[..., Any]) -> None:
    file = tmp_path / "story.html"
    exported = ("--export", file, "--question", "q002", "--run", "trace@scripted")
    code, printed, said = call("view", world / "runs", "--bench", world / "bench", *exported)
    assert code == 0, said
    line = (world / "runs" / "trace@scripted.jsonl").read_text().splitlines()[2]
    frames = len(json.loads(line)["timestamps"])
    assert f": {frames} frames" in printed
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


def test_ask_view_opens_the_story_of_the_answer(world: Path, tmp_path: Path, model: str, call: Call) -> None:
    video = os.path.relpath(world / "bench" / "videos" / "one.mp4")
    question = ["ask", video, "What passes?", "-o", "a van", "-o", "a <b>cow</b>", "--backbone", model]
    saved = tmp_path / "saved"
    with running(*question, "--method", "uniform-4", "--view", "--save", saved) as (address, _):
        browser = build_opener(HTTPCookieProcessor())
        text = browser.open(address, timeout=60).read().decode()
        assert "What passes?" in text
        assert "a &lt;b&gt;cow&lt;/b&gt;" in text
        assert "4 supplied, 4 distinct" in text
        assert ">gold<" not in text
        assert 'class="interval"' not in text
        with browser.open(urljoin(address, "/frame?id=What+passes%3F&t=1.0")) as response:
            assert response.headers["X-Frame-Seconds"] == "1.0"
    _, without_video, _ = call("view", saved, "--no-browser")
    assert without_video.strip() == (saved / "story.html").resolve().as_uri()
    assert re.search(r"<title>[^<]*What passes\?", (saved / "story.html").read_text())
    with running("view", saved, "--videos", world / "bench" / "videos", "--port", 0, "--no-browser") as (address, _):
        check_token(address)
        assert re.search(r"<title>[^<]*What passes\?.*data-frame", fetch(address), re.DOTALL)


def test_the_studio_serves_its_page_and_ends(world: Path, tmp_path: Path) -> None:
    folder = world / "bench" / "videos"
    with running("studio", folder, "--backbone", "glance", "--port", 0, "--save", tmp_path / "kept") as (address, _):
        shown = fetch(address)
    assert "Ask about a video" in shown
    assert 'value="one.mp4"' in shown
    assert str(folder) not in shown


# --- docs/view.md ------------------------------------------------------------------

PAGE = read("docs/view.md")


def test_every_key_of_a_question_and_of_lists_is_listed() -> None:
    table = PAGE.partition("## Keys")[2].partition("## ")[0]
    listed = set(re.findall(r"`(\S+?)`", table)) | {"?"}
    names = {"ArrowLeft": "←", "ArrowRight": "→", "Space": "space"}
    markup = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/trace_ves/web/templates").glob("*.html"))
    keys = {names.get(key, key) for key in re.findall(r'data-key="(.*?)"', markup)} | {"j", "k"}
    minor = {"c", "g", "o", "n", "p"}  # they stand in the help of their own page
    assert listed == keys - minor
    assert "data-key" in static_text("keys.js")


def test_options_in_the_text_exist() -> None:
    options = {option for parameter in view_command.params for option in parameter.opts}
    others = {"--method", "--backbone", "--out", "--view", "--save"}  # of run and ask
    assert set(re.findall(r"--[a-z][a-z-]*", PAGE)) <= options | others
