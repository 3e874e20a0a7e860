"""`vllm:` starts, asks and ends a server. A stand-in process takes vLLM's place and notes how it was called."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call

import pytest
from tests.fakes import Sighting, make_clip, make_request

from trace_ves.backbone import open_backbone
from trace_ves.backbone.model_settings import ServerKind
from trace_ves.backbone.registry import BackboneOptions
from trace_ves.backbone.vllm import backbone as server_module
from trace_ves.backbone.vllm.backbone import VllmBackbone, VllmProvider, VllmServer, count_gpus, serve_arguments
from trace_ves.core import BackboneConfigError, BackboneError

MODEL = "Qwen/Qwen3-VL-8B-Instruct"
SPEC = f"vllm:{MODEL}"


@dataclass
class StandIn:
    home: Path

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.home / "calls.jsonl").read_text().splitlines()]

    def is_gone(self) -> bool:
        """Whether the server and the worker that ignores SIGTERM have both ended, as they must within seconds."""
        pids = [self.calls()[-1]["pid"], int((self.home / "worker").read_text())]
        return comes_true(lambda: not any(map(is_running, pids)))


def comes_true(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    command = tmp_path / "vllm"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).with_name("stand_in.py")}" "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("TRACE_VES_VLLM", str(command))
    monkeypatch.setenv("STAND_IN_HOME", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    return StandIn(tmp_path)


@pytest.fixture
def server(stand_in: StandIn) -> Iterator[VllmServer]:
    made = VllmServer(SPEC, MODEL, stand_in.home / "vllm", start_seconds=20)
    yield made
    made.stop()


def ask(server: VllmServer, count: int = 1) -> list[Any]:
    backbone = VllmBackbone(SPEC, MODEL, BackboneOptions(), server)
    assert server._process is None
    return list(backbone.generate([make_request("What is it?", make_clip(0, [10, 20])) for _ in range(count)]))


def test_the_server_is_started_with_its_flags_at_the_first_question_and_ends_with_all_it_started(
    stand_in: StandIn, server: VllmServer
) -> None:
    generations = ask(server, 3)
    assert [one.reply for one in generations] == [Sighting(colour="red", seconds=3.0)] * 3
    assert generations[0].usage.cached_tokens == 5
    ((arguments, _),) = (started.values() for started in stand_in.calls())
    server.stop()
    assert stand_in.is_gone()
    assert arguments[:-1] == [*server.arguments, "--host", "127.0.0.1", "--port"]
    assert not any(server.key.secret in argument for argument in arguments)  # every user can list command lines


@pytest.mark.parametrize(("gpus", "parallel"), [(0, None), (1, None), (2, "2"), (3, "2"), (8, "8")])
def test_the_whole_command(gpus: int, parallel: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_VES_VLLM_ARGS", "--max-model-len 65536 --dtype 'bfloat16'")
    assert serve_arguments(MODEL, gpus) == [
        *("serve", MODEL, "--served-model-name", MODEL, "--enable-prefix-caching", "--enable-prompt-tokens-details"),
        *("--limit-mm-per-prompt", '{"image": 256}'),
        *("--structured-outputs-config", '{"backend": "guidance", "disable_any_whitespace": true}'),
        *("--generation-config", "vllm"),
        *(("--tensor-parallel-size", parallel) if parallel else ()),
        *("--max-model-len", "65536", "--dtype", "bfloat16"),  # the user's own come last
    ]


def test_what_goes_wrong_at_the_start_is_said_with_the_end_of_the_log(
    server: VllmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_MODE", "cannot start")
    with pytest.raises(BackboneConfigError, match=r"did not start.*the model's weights are not there") as error:
        ask(server)
    assert server.key.secret not in str(error.value)


def test_a_server_that_never_becomes_healthy_is_ended(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def wait_for_worker(_: str) -> bool:
        worker = stand_in.home / "worker"
        return not comes_true(lambda: worker.exists() and worker.read_text())

    monkeypatch.setenv("STAND_IN_MODE", "hangs")
    monkeypatch.setattr(server_module, "_is_healthy", wait_for_worker)
    server = VllmServer(SPEC, MODEL, stand_in.home / "vllm", start_seconds=1.4)
    with pytest.raises(BackboneConfigError, match=r"not ready after 1 s.*reading weights"):
        server.ensure()
    assert caplog.messages[0] == f"{SPEC}: vLLM is loading the model; giving up in 1 s."
    assert stand_in.is_gone()


def test_a_server_that_dies_is_started_again(
    stand_in: StandIn, server: VllmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_MODE", "dies once")
    assert ask(server)[0].reply == Sighting(colour="red", seconds=3.0)
    assert len(stand_in.calls()) == 2


def test_a_server_that_dies_again_and_again_is_given_up(stand_in: StandIn, server: VllmServer) -> None:
    for _ in range(3):
        server.ensure()
        os.kill(stand_in.calls()[-1]["pid"], signal.SIGKILL)
        while server._process is not None and server._process.poll() is None:
            time.sleep(0.02)
    with pytest.raises(BackboneError, match="ended 3 times"):
        server.ensure()


def test_nothing_is_left_behind_when_this_process_is_killed(stand_in: StandIn) -> None:
    script = (
        "import time\nfrom pathlib import Path\nfrom trace_ves.backbone.vllm.backbone import VllmServer, find_command\n"
        f"server = VllmServer({SPEC!r}, {MODEL!r}, find_command({SPEC!r}))\n"
        "print(server.ensure(), flush=True)\ntime.sleep(99)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"http://127.0.0.1:")
        process.kill()
    assert stand_in.is_gone()


def test_without_vllm_a_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TRACE_VES_VLLM", raising=False)
    with pytest.raises(BackboneConfigError, match=r"there is no command vllm; install vLLM"):
        open_backbone(SPEC)
    monkeypatch.setenv("TRACE_VES_VLLM", "nowhere/vllm")
    with pytest.raises(BackboneConfigError, match=r"names 'nowhere/vllm', which is not a command"):
        open_backbone(SPEC)


def test_an_option_is_no_model() -> None:
    with pytest.raises(BackboneConfigError, match="is an option of vLLM"):
        open_backbone("vllm:--help")


@pytest.mark.parametrize(
    ("chosen", "gpus"), [("", 0), ("-1", 0), ("0", 1), ("0,1", 2), ("0, ,-1, 3", 2), (None, 2), ("none listed", 0)]
)
def test_the_gpus_that_a_server_sees(
    chosen: str | None, gpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen or "")
    if chosen in {None, "none listed"}:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    listing = tmp_path / "nvidia-smi"
    listing.write_text('#!/bin/sh\n[ "$1" = -L ] && echo "GPU 0: A\nGPU 1: B\nMIG x" && echo "GPU 2: no" >&2\n')
    listing.chmod(0o755 if chosen is None else 0o644)
    assert count_gpus() == gpus


def test_the_end_of_the_log_is_its_last_lines_on_one_line_without_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[object] = []
    monkeypatch.setattr(server_module.atexit, "register", at_exit.append)
    server = VllmServer(SPEC, MODEL, tmp_path / "vllm")
    assert at_exit == [server.stop]
    assert (server._log_end(), server._start_seconds) == ("none", 1800)
    server._log = tmp_path / "logs" / "server.log"
    server._log.parent.mkdir()
    assert server._log_end() == "none"
    server._log.write_text(" \n")
    assert server._log_end() == "none"
    server._log.write_text("\n".join(["no", *(f" {number} " for number in range(10)), "", server.key.secret]))
    assert server._log_end() == " | ".join([*map(str, range(10)), "[key]"])
    server._log.write_text("é" + "x" * 19_999)
    assert server._log_end() == "\N{REPLACEMENT CHARACTER}" + "x" * 3999 + "…"  # of 20,000 bytes
    server.stop()
    assert not (tmp_path / "logs").exists()


def test_a_backbone_of_ones_own_server_is_local_with_32_requests_at_once(tmp_path: Path) -> None:
    server = VllmServer(SPEC, MODEL, tmp_path / "vllm")
    backbone, chosen = (VllmBackbone(SPEC, MODEL, BackboneOptions(concurrency=count), server) for count in (None, 3))
    assert [each._concurrency for each in (backbone, chosen)] == [32, 3]
    assert backbone._attempts._retry.attempt_seconds == 600
    assert backbone._provider.limits.images == 256
    assert backbone.answer_settings == {"temperature": 0.0, "arguments": list(server.arguments)}
    assert len(server.key.secret) == 32
    provider = backbone._provider
    assert isinstance(provider, VllmProvider)
    assert (provider.may_drop_frames, provider._server) == (True, ServerKind.VLLM)


@pytest.mark.parametrize("said", [200, 201, urllib.error.URLError("no"), OSError(), ValueError()])
def test_a_server_is_healthy_when_it_says_so(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    responses = [said] if isinstance(said, Exception) else [nullcontext(SimpleNamespace(status=said))]
    monkeypatch.setattr(server_module, "_DIRECT", SimpleNamespace(open=Mock(side_effect=responses)))
    assert server_module._is_healthy("http://127.0.0.1/health") is (said == 200)
    assert server_module._DIRECT.open.mock_calls == [call("http://127.0.0.1/health", timeout=5)]  # type: ignore[attr-defined]
