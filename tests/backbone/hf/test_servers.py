"""`openai:` against a server that others wrote: `transformers serve`, with a tiny model, over real HTTP."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from trace_ves.backbone import ModelFault, open_backbone
from trace_ves.core import BackboneError

if TYPE_CHECKING:
    from collections.abc import Iterator

SAYS = '{"seen": true, "times": [3, 8], "colour": "red"}'
COMMAND = Path(sys.executable).with_name("transformers")
START_SECONDS = 120

pytestmark = [
    pytest.mark.skipif(not all(map(find_spec, ("torch", "fastapi", "uvicorn"))), reason="needs transformers[serving]"),
    pytest.mark.skipif(shutil.which(COMMAND) is None, reason="needs the command transformers"),
]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, kit: Any) -> Path:
    return Path(kit.save_tiny(tmp_path_factory.mktemp("parrot"), "llava", says=SAYS))


@pytest.fixture(scope="module")
def url(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    log = (tmp_path_factory.mktemp("log") / "serve.log").open("w+")
    arguments = ["serve", str(folder), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([COMMAND, *arguments], env=environment, stdout=log, stderr=log) as server:
        try:
            _wait_until_up(server, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
    log.close()


def _wait_until_up(server: subprocess.Popen[bytes], health: str, log: Any) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(health, timeout=5):
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.3)
    log.seek(0)
    pytest.fail(f"transformers serve did not come up:\n{log.read()[-3000:]}")


def test_images_words_and_many_at_once(url: str, folder: Path, kit: Any) -> None:
    backbone = open_backbone(f"openai:{folder}@{url}")
    batch = [kit.ask(*kit.CLIPS[:size], text=f"Question {number}?") for number, size in enumerate((0, 1, 2, 3, 1, 3))]
    generations = backbone.generate(batch)
    expected = kit.Sighting(seen=True, times=[3, 8], colour="red")
    assert [generation.reply for generation in generations] == [expected] * len(batch)
    tokens = [generation.usage.input_tokens for generation in generations]
    assert tokens[0] < tokens[1] < tokens[2] < tokens[3]
    assert tokens[3] - tokens[0] >= 5 * 16  # each of five frames is 4 x 4 patches
    assert all(generation.usage.output_tokens > 0 for generation in generations)


def test_what_is_not_the_reply_is_repaired_once_then_a_fault(url: str, folder: Path, kit: Any) -> None:
    class Other(kit.Sighting):
        height: int

    (generation,) = open_backbone(f"openai:{folder}@{url}").generate([kit.ask(*kit.CLIPS[:1], reply=Other)])
    assert isinstance(generation.reply, ModelFault)
    assert "height" in generation.reply.reason


def test_another_model_than_the_server_has_is_said(url: str, kit: Any) -> None:
    with pytest.raises(BackboneError, match="nobody/else"):
        open_backbone(f"openai:nobody/else@{url}").generate([kit.ask()])
