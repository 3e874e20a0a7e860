"""`openai:` against servers that others wrote, with tiny models over real HTTP: `transformers serve`, and vLLM.

vLLM runs where its command is found, on the path or in TRACE_VES_VLLM; it holds a model to the schema, transformers
does not. So the model here is one that says a valid reply by itself.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.backbone.hf.tiny_models import CLIPS, Sighting, make_request, save_tiny

from trace_ves.backbone import ModelFault, open_backbone
from trace_ves.core import BackboneError

SAYS = '{"seen": true, "times": [3, 8], "colour": "red"}'
START_SECONDS = 180
SETTINGS = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}

pytestmark = pytest.mark.skipif(not find_spec("torch"), reason="needs the extra hf")


@dataclass(frozen=True)
class Server:
    kind: str
    model: str
    url: str

    @property
    def spec(self) -> str:
        return f"openai:{self.model}@{self.url}"


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[str]:
    """A server as a process of its own; gives its URL once it is up."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    log = folder / "server.log"
    command = [*command, "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as out, subprocess.Popen(command, env=os.environ | SETTINGS, stdout=out, stderr=out) as server:
        try:
            wait_until_up(server, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def wait_until_up(server: subprocess.Popen[bytes], health: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(health, timeout=5):
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.3)
    pytest.fail(f"{server.args!r} did not come up:\n{log.read_text(errors='replace')[-3000:]}")


@pytest.fixture(scope="module")
def transformers_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    command = Path(sys.executable).with_name("transformers")
    if not (command.exists() and find_spec("fastapi") and find_spec("uvicorn")):
        pytest.skip("needs transformers[serving]")
    folder = save_tiny(tmp_path_factory.mktemp("llava"), "llava", says=SAYS)  # Qwen's processor needs torchvision
    with running([str(command), "serve", str(folder), "--device", "cpu"], folder) as url:
        yield Server("transformers", str(folder), url)


@pytest.fixture(scope="module")
def vllm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    command = os.environ.get("TRACE_VES_VLLM") or shutil.which("vllm")
    if not command:
        pytest.skip("needs vLLM: set TRACE_VES_VLLM to its command")
    folder = save_tiny(tmp_path_factory.mktemp("qwen"), "qwen3_vl", says=SAYS)
    limits = ["--max-model-len", "1024", "--max-num-seqs", "8", "--dtype", "float32", "--enforce-eager"]
    caching = ["--enable-prefix-caching", "--enable-prompt-tokens-details"]
    with running([command, "serve", str(folder), "--served-model-name", "tiny", *limits, *caching], folder) as url:
        yield Server("vllm", "tiny", url)


@pytest.fixture(params=["transformers", "vllm"])
def server(request: pytest.FixtureRequest) -> Server:
    chosen: Server = request.getfixturevalue(f"{request.param}_server")
    return chosen


def test_images_words_and_many_at_once(server: Server) -> None:
    batch = [make_request(*CLIPS[:size], text=f"Question {number}?") for number, size in enumerate((0, 1, 2, 3, 1, 3))]
    generations = open_backbone(server.spec).generate(batch)
    expected = Sighting(seen=True, times=[3, 8], colour="red")
    assert [generation.reply for generation in generations] == [expected] * len(batch)
    tokens = [generation.usage.input_tokens for generation in generations]
    assert tokens[0] < tokens[1] < tokens[2] < tokens[3]
    assert tokens[3] - tokens[0] >= 5 * 8  # five frames, none of fewer than eight tokens
    assert all(generation.usage.output_tokens > 0 for generation in generations)


def test_another_model_than_the_server_has_is_said(server: Server) -> None:
    with pytest.raises(BackboneError, match="nobody/else"):
        open_backbone(f"openai:nobody/else@{server.url}").generate([make_request()])


class Other(Sighting):
    height: int  # this model never says it by itself: what validates was enforced


def test_what_is_not_the_reply_is_repaired_once_then_a_fault(transformers_server: Server) -> None:
    (generation,) = open_backbone(transformers_server.spec).generate([make_request(*CLIPS[:1], reply=Other)])
    assert isinstance(generation.reply, ModelFault)
    assert "height" in generation.reply.reason


def test_vllm_holds_the_model_to_the_schema(vllm_server: Server) -> None:
    draws = [make_request(*CLIPS[:1], reply=Other, sample=sample) for sample in range(1, 7)]
    found = [generation.reply for generation in open_backbone(vllm_server.spec).generate(draws)]
    assert any(isinstance(reply, Other) for reply in found)


def test_vllm_reports_its_prefix_cache_in_our_usage(vllm_server: Server) -> None:
    backbone = open_backbone(vllm_server.spec)
    bundle = [make_request(*CLIPS, *CLIPS, text="Is it cached?")]
    first, again = (backbone.generate(bundle)[0].usage for _ in range(2))
    assert again.input_tokens == first.input_tokens
    assert again.cached_tokens > first.cached_tokens
