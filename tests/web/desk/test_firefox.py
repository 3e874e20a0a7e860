"""Firefox: items are judged with the keyboard; from the studio to the viewer. It is driven over WebDriver BiDi."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.web.conftest import serving_app
from tests.web.desk.conftest import World
from tests.web.web_bench import ORDERS, RED, witness, write_video
from trace_ves.backbone.protocol import ScriptedBackbone
from trace_ves.runs.prices import load_prices
from trace_ves.video.folders import VideoFolders
from trace_ves.web.guard import LOOPBACK_NAMES
from trace_ves.web.studio import Model, SampleQuestion, Studio
from trace_ves.web.studio_app import create_studio_app

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
PREFERENCES = {
    "media.autoplay.default": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.ipc.processPrelaunch.enabled": False,
}


class Firefox:
    """One tab."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._ids = socket, count(1)
        self.send("session.new", capabilities={})
        self._context = self.send("browsingContext.getTree")["contexts"][0]["context"]

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (said := json.loads(self._socket.recv(timeout=60))).get("id") != number:
            pass
        assert said["type"] == "success", said
        result: dict[str, Any] = said["result"]
        return result

    def goto(self, url: str) -> None:
        self.send("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def value(self, script: str) -> Any:
        target = {"context": self._context}
        said = self.send("script.evaluate", expression=script, target=target, awaitPromise=True)
        return said["result"].get("value") if said["type"] == "success" else None

    def wait(self, script: str) -> None:
        deadline = time.monotonic() + 90
        while not self.value(script):
            assert time.monotonic() < deadline, (script, self.value("document.body.innerText"))
            time.sleep(0.1)

    def resize(self, width: int) -> None:
        viewport = {"width": width, "height": 700}
        self.send("browsingContext.setViewport", context=self._context, viewport=viewport)

    def sign_in(self, world: World, name: str) -> None:
        """Sign in and take an assignment."""
        self.goto(f"{world.address}/sign-in")
        self.wait("!document.querySelector('#sign-in button').disabled")
        for field, value in {"name": name, "token": world.tokens[name]}.items():
            self.value(f"document.querySelector('[name={field}]').value = {json.dumps(value)}")
        self.value("document.querySelector('#sign-in button').click()")
        self.wait("document.querySelector('[data-post=\"/api/next\"]:enabled') !== null")
        self.press("n")

    def press(self, key: str) -> None:
        typed = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        source = {"type": "key", "id": "keyboard", "actions": typed}
        self.send("input.performActions", context=self._context, actions=[source])


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    client = pytest.importorskip("websockets.sync.client")
    if FIREFOX is None:
        pytest.skip("no firefox on this machine")
    profile = tmp_path_factory.mktemp("profile")
    lines = (f'user_pref("{name}", {json.dumps(value)});\n' for name, value in PREFERENCES.items())
    (profile / "user.js").write_text("".join(lines))
    command = [FIREFOX, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        found = next(filter(None, (re.search(r"ws://127\.0\.0\.1:\d+", line) for line in process.stderr)))
        with client.connect(f"{found[0]}/session", max_size=None) as socket:
            yield Firefox(socket)
    finally:
        process.kill()
        process.communicate()


NOTICE = "document.querySelector('#notice')"
TOP = "document.querySelector('{}').getBoundingClientRect().top"


def test_items_are_judged_in_firefox(world: World, firefox: Firefox) -> None:
    firefox.sign_in(world, "ann")
    firefox.wait(
        "document.querySelector('#intervals')?.dataset.ready && document.querySelector('#player').dataset.ready"
    )
    assert firefox.value("document.querySelectorAll('#desk-timeline .tick').length") > 2
    firefox.press("?")
    firefox.wait("document.querySelector('#help').open")
    assert firefox.value("document.querySelector('#help').scrollTop") == 0
    firefox.press("\ue00c")  # Escape
    firefox.resize(390)
    assert firefox.value(TOP.format("#desk-timeline")) < firefox.value(TOP.format(".verdict"))
    assert firefox.value("document.documentElement.scrollWidth <= innerWidth")
    firefox.resize(1280)
    firefox.press("y")
    firefox.wait(f"{NOTICE}.innerText.includes('interval 1 is not played yet')")
    for place in (1, 2, 3):
        firefox.press("\ue007")  # Enter: plays the interval in a loop
        firefox.wait(f"document.querySelector('.interval:nth-child({place}) .played.done') !== null")
        assert firefox.value(f"{NOTICE}.hidden")
        firefox.press("n")
    firefox.press("y")
    firefox.wait("location.pathname === '/'")
    entry = world.written("verification/ann")
    assert entry.after["accepted"]
    assert 10 / 4 <= entry.seconds < 600

    assert world.with_task("bob").accept(spans=entry.after["evidence"]).is_success
    firefox.sign_in(world, "cat")
    firefox.wait("location.pathname === '/task' && document.querySelector('[data-choose]:enabled') !== null")
    firefox.press("0")
    firefox.wait(f"{NOTICE}.innerText.includes('clip 1 is not played yet')")
    for place in (1, 2):
        firefox.press("n")
        firefox.wait(f"document.querySelector('#clips figure:nth-of-type({place}) .played.done') !== null")
        assert firefox.value(f"{NOTICE}.hidden")
    firefox.press("0")
    firefox.wait("location.pathname === '/'")
    assert world.written("without/cat").after["answer"] is None


PLAYER_READY = "!!document.querySelector('#player[data-ready]')"
BALLOON = f"✓ {RED} (0:21.0-0:26.0)"


def test_a_sample_question_from_the_studio_to_the_viewer_and_its_saved_page(firefox: Firefox, tmp_path: Path) -> None:
    write_video(tmp_path / "film.mp4")
    studio = Studio(
        VideoFolders([tmp_path / "film.mp4"]),
        Model("glance", ScriptedBackbone(witness("plain"))),
        tmp_path / "answers",
        load_prices(),
        save=tmp_path / "saved",
        samples=[SampleQuestion("In which order?", ORDERS, "film.mp4")],
    )
    with serving_app(create_studio_app(studio, hosts=LOOPBACK_NAMES)) as address:
        firefox.goto(address)
        firefox.wait("!document.querySelector('#send').disabled")
        assert firefox.value("document.querySelector('#estimate').innerText").startswith("Costs nothing")
        firefox.value("document.querySelector('.samples button').click()")
        firefox.wait("!document.querySelector('#send').disabled && document.querySelector('#options input').value")
        firefox.value("document.querySelector('#send').click()")
        firefox.wait("!document.querySelector('#outcome').hidden")
        assert firefox.value("document.querySelector('#outcome').dataset.found") == "found"
        assert firefox.value("document.querySelector('#outcome .answer').innerText") == f"A. {ORDERS[0]}"
        assert firefox.value("document.querySelectorAll('#evidence-clips li').length") == 3
        assert firefox.value("document.querySelector('#evidence-clips .fact').innerText") == BALLOON
        firefox.value("document.querySelectorAll('#evidence-clips button')[2].click()")
        firefox.wait("document.querySelector('#at').innerText === 'at 1:40.0'")
        firefox.wait("document.querySelector('#film').videoWidth > 300 || !document.querySelector('#still').hidden")

        firefox.goto(firefox.value("document.querySelector('#story').href") + "#t=51.05")
        firefox.wait(PLAYER_READY)
        firefox.wait("document.querySelector('#moment .time').textContent === '0:51.000'")
        assert firefox.value("[...document.querySelectorAll('.what')].some(e => e.innerText.trim() === 'looks')")

    firefox.goto((tmp_path / "saved" / "answer-001" / "story.html").as_uri())
    firefox.wait(PLAYER_READY)
    assert firefox.value("document.querySelectorAll('.seen-clips li').length") == 3
    assert BALLOON in firefox.value("document.querySelector('.seen-clips li').innerText")
    firefox.value("document.querySelectorAll('.seen-clips [data-seek]')[1].click()")
    firefox.wait("document.querySelector('#moment .time').textContent.startsWith('1:0')")
    firefox.wait("document.querySelector('#player .still').naturalWidth > 300")
