"""The backbone `vllm:`: starts a vLLM server and uses it through the `openai` provider."""

from __future__ import annotations

import atexit
import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.model_settings import RequestLimits, ServerKind
from trace_ves.backbone.openai.provider import OpenAIProvider
from trace_ves.backbone.remote import RemoteBackbone
from trace_ves.backbone.retry import Announcer
from trace_ves.backbone.secret import Key
from trace_ves.core import BackboneConfigError, BackboneError

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Generation, R, Request
    from trace_ves.backbone.provider import Completion, CompletionRequest
    from trace_ves.backbone.registry import BackboneOptions

COMMAND_VARIABLE: Final = "TRACE_VES_VLLM"
ARGUMENTS_VARIABLE: Final = "TRACE_VES_VLLM_ARGS"
MAX_IMAGES: Final = 256
START_SECONDS: Final = 1800.0  # The server may have to download and load hundreds of gigabytes
MAX_STARTS: Final = 3  # A server that ended this often is not started again
_POLL_SECONDS: Final = 0.25
_LOG_LINES: Final = 12
_LOG_BYTES: Final = 20_000
_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def find_command(spec: str) -> Path:
    """The command in `TRACE_VES_VLLM`, or `vllm` on the path. Raises `BackboneConfigError`."""
    name = os.environ.get(COMMAND_VARIABLE, "").strip()
    command = shutil.which(name or "vllm")
    if command is None:
        problem = f"{COMMAND_VARIABLE} names {name!r}, which is not a command" if name else "there is no command vllm"
        raise BackboneConfigError(
            f"{spec}: {problem}; install vLLM in a separate environment and set {COMMAND_VARIABLE} to its bin/vllm, "
            "or start a server yourself and use openai:MODEL@URL."
        )
    return Path(command)


def serve_arguments(model: str, gpus: int) -> list[str]:
    """The arguments of `vllm` except for the address."""
    structured = {"backend": "guidance", "disable_any_whitespace": True}
    parallel = 1 << (max(gpus, 1).bit_length() - 1)  # a power of two divides the number of heads
    return [
        *("serve", model),
        *("--served-model-name", model),
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        *("--limit-mm-per-prompt", json.dumps({"image": MAX_IMAGES})),
        *("--structured-outputs-config", json.dumps(structured)),
        *("--generation-config", "vllm"),
        *(("--tensor-parallel-size", str(parallel)) if parallel > 1 else ()),
        *shlex.split(os.environ.get(ARGUMENTS_VARIABLE, "")),
    ]


def count_gpus() -> int:
    """The number of GPUs that the server can use: those of CUDA_VISIBLE_DEVICES, or of nvidia-smi."""
    devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    if devices is not None:
        return len([number for number in devices.split(",") if number.strip() not in ("", "-1")])
    try:
        command = ["nvidia-smi", "-L"]
        output = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(line.startswith("GPU ") for line in output.splitlines())


class VllmServer:
    """One server on loopback. Thread-safe: all threads wait for the same start."""

    def __init__(self, spec: str, model: str, command: Path, *, start_seconds: float = START_SECONDS) -> None:
        self._spec = spec
        self._command = command
        self._start_seconds = start_seconds
        self._lock = threading.Lock()
        self._announcer = Announcer(spec)
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Path | None = None
        self._starts = 0
        self.arguments: Sequence[str] = tuple(serve_arguments(model, count_gpus()))
        self.key = Key("VLLM_API_KEY", secrets.token_hex(16))  # Other users of the machine can reach the port
        atexit.register(self.stop)

    def ensure(self) -> str:
        """Start the server if it is not running, and return its base URL. Raises if it cannot be started."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._url
            if self._starts == MAX_STARTS:
                raise BackboneError(
                    f"{self._spec}: vLLM ended {MAX_STARTS} times; the end of its log: {self._log_end()}"
                )
            self._end()
            self._starts += 1
            self._start()
            return self._url

    def stop(self) -> None:
        """End the server and every process that it started."""
        with self._lock:
            self._end()
            if self._log is not None:
                shutil.rmtree(self._log.parent)
                self._log = None

    def _start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        self._url = f"http://127.0.0.1:{port}/v1"
        command = [str(self._command), *self.arguments, "--host", "127.0.0.1", "--port", str(port)]
        if self._log is None:
            self._log = Path(tempfile.mkdtemp(prefix="trace-ves-vllm-")) / "server.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  the user's own command
                [sys.executable, str(Path(__file__).with_name("keeper.py")), *command],
                stdin=subprocess.PIPE,  # closes when this process ends, even by a kill: the keeper then ends the server
                stdout=log,
                stderr=log,
                env=os.environ | {"VLLM_API_KEY": self.key.secret, "VLLM_NO_USAGE_STATS": "1"},
                start_new_session=True,
            )
        self._wait_until_healthy(self._process, f"http://127.0.0.1:{port}/health")

    def _wait_until_healthy(self, process: subprocess.Popen[bytes], health: str) -> None:
        deadline = time.monotonic() + self._start_seconds
        while process.poll() is None and (remaining := deadline - time.monotonic()) > 0:
            with self._announcer.waits("vLLM is loading the model", remaining, then="giving up"):
                if _is_healthy(health):
                    return
                time.sleep(_POLL_SECONDS)
        problem = "did not start" if process.poll() is not None else f"was not ready after {self._start_seconds:.0f} s"
        log_end = self._log_end()
        self._end()
        raise BackboneConfigError(f"{self._spec}: vLLM {problem}; the end of its log: {log_end}")

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.communicate()  # closes the keeper's input, and waits until it has ended the server
            with suppress(ProcessLookupError):  # processes remain only if the keeper was killed
                os.killpg(process.pid, signal.SIGKILL)

    def _log_end(self) -> str:
        """The end of the server's log on one line."""
        if self._log is None or not self._log.exists():
            return "none"
        with self._log.open("rb") as log:
            log.seek(max(0, self._log.stat().st_size - _LOG_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
        return self.key.redact(" | ".join(line.strip() for line in lines[-_LOG_LINES:] if line.strip())) or "none"


def _is_healthy(health: str) -> bool:
    with suppress(urllib.error.URLError, OSError, ValueError), _DIRECT.open(health, timeout=5) as response:
        return bool(response.status == 200)
    return False


CONCURRENCY: Final = 32  # The server batches concurrent requests


class VllmBackbone(RemoteBackbone):
    """Answers with a vLLM server, which starts at the first request and ends with this process."""

    def __init__(self, name: str, model: str, options: BackboneOptions, server: VllmServer | None = None) -> None:
        self._server = server or VllmServer(name, model, find_command(name))
        if options.concurrency is None:
            options = replace(options, concurrency=CONCURRENCY)
        super().__init__(VllmProvider(name, model, self._server), options, is_local=True)

    def generate_as_completed(self, batch: Sequence[Request[R]]) -> Iterator[tuple[int, Generation[R] | BackboneError]]:
        """The index of each request with its answer or error, in order of completion."""
        self._server.ensure()  # loading a model may take longer than the timeout of an attempt
        return super().generate_as_completed(batch)


class VllmProvider(OpenAIProvider):
    """The `openai` provider for a server that is restarted if it ends."""

    def __init__(self, name: str, model: str, server: VllmServer) -> None:
        super().__init__(name, model, key=server.key, base_url="http://127.0.0.1/v1", server=ServerKind.VLLM)
        self.limits = RequestLimits(images=MAX_IMAGES)
        self.identity = {"arguments": list(server.arguments)}  # Without its port, which changes
        self._vllm = server

    def complete(self, call: CompletionRequest, *, features: frozenset[str], timeout_seconds: float) -> Completion:
        """Make one call, at the current address of the server."""
        self._client.base_url = self._vllm.ensure()
        return super().complete(call, features=features, timeout_seconds=timeout_seconds)
