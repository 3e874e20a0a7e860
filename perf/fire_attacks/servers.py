"""Model servers that lie, dribble, stall and break off: an answer, a fault on record or a sentence, in bounded time."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from fire_attacks.ground import Result, in_child, lost

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from fire_attacks.ground import Ground

ATTEMPT_SECONDS = 0.5
DEADLINE_SECONDS = 1.5


def _chat(content: Any, **changes: Any) -> bytes:
    message = {"role": "assistant", "content": content}
    reply = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    return json.dumps(reply | changes).encode()


GOOD = _chat('{"answer": "A"}')
BODIES: dict[str, bytes] = {
    "good": GOOD,
    "empty": b"",
    "html": b"<html><body>It works!</body></html>",
    "cut": GOOD[: len(GOOD) // 2],
    "list": b"[]",
    "null": b"null",
    "no-choices": _chat("x", choices=[]),
    "choices-null": _chat("x", choices=None),
    "content-null": _chat(None),
    "content-number": _chat(7),
    "content-list": _chat([{"type": "text", "text": "x"}]),
    "not-json": _chat("The answer is A."),
    "other-letter": _chat('{"answer": "Z"}'),
    "nan": _chat('{"answer": NaN}'),
    "deep": _chat("[" * 100_000),
    "deep-body": b"[" * 200_000,
    "huge": _chat("x" * 3_000_000),
    "surrogate": _chat('{"answer": "\\ud800"}'),
    "usage-negative": _chat('{"answer": "A"}', usage={"prompt_tokens": -5, "completion_tokens": "many"}),
    "usage-text": _chat('{"answer": "A"}', usage="none"),
    "usage-huge": _chat('{"answer": "A"}', usage={"prompt_tokens": 10**30, "completion_tokens": 1e308}),
    "error-200": b'{"error": {"message": "no"}}',
    "latin1": '{"choices": "é"}'.encode("latin-1"),
}
STATUSES = (200, 200, 200, 400, 401, 403, 404, 408, 413, 418, 422, 429, 500, 502, 503, 529)
RETRY_AFTER = (None, "0", "-1", "1e9", "soon", "Fri, 31 Dec 9999 23:59:59 GMT", "NaN")
MANNERS = ("whole", "whole", "whole", "dribble", "break-off", "wrong-length", "stall", "no-length", "twice")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer as the model's name says: body, status, retry-after and manner, with dots between."""
        length = int(self.headers.get("content-length", 0))
        asked = json.loads(self.rfile.read(length))
        body_name, status, retry, manner = asked["model"].split("~")
        body = BODIES[body_name]
        self.send_response(int(status))
        self.send_header("content-type", "application/json")
        if retry != "None":
            self.send_header("retry-after", retry.replace("_", " "))
        if manner != "no-length":
            self.send_header("content-length", str(len(body) + 50 * (manner == "wrong-length")))
        else:
            self.close_connection = True
        self.end_headers()
        try:
            self._write(body, manner)
        except OSError:
            self.close_connection = True

    def _write(self, body: bytes, manner: str) -> None:
        if manner == "dribble":
            for at in range(len(body)):
                self.wfile.write(body[at : at + 1])
                self.wfile.flush()
                time.sleep(0.05)
        elif manner == "stall":
            self.wfile.write(body[:3])
            self.wfile.flush()
            time.sleep(8)
            self.close_connection = True
        elif manner in {"break-off", "wrong-length"}:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        else:
            self.wfile.write(body * (2 if manner == "twice" else 1))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def model_servers(_: Ground, chance: random.Random) -> Result:
    """One request to one server."""
    name = "~".join(
        (
            chance.choice(sorted(BODIES)),
            str(chance.choice(STATUSES)),
            str(chance.choice(RETRY_AFTER)).replace(" ", "_"),
            chance.choice(MANNERS),
        )
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = os.fork()
    if server == 0:
        try:
            ThreadingHTTPServer(("127.0.0.1", port), _Handler).serve_forever()
        finally:
            os._exit(0)
    try:
        ended = in_child(_ask(name, port), deadline_seconds=DEADLINE_SECONDS * 4 + 10)
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
    result = ended.result
    return lost(f"{name}\n{result.note}") if result.note else result


def _ask(model: str, port: int) -> Callable[[], None]:
    def work() -> None:
        from pydantic import BaseModel

        from trace_ves.backbone.openai.provider import OpenAIProvider
        from trace_ves.backbone.protocol import Prompt, Request
        from trace_ves.backbone.remote import RemoteBackbone
        from trace_ves.backbone.retry import RetryPolicy
        from trace_ves.backbone.secret import Key

        class Reply(BaseModel):
            answer: str

        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.01)
        provider = OpenAIProvider(
            "openai:m", model, key=Key("OPENAI_API_KEY", "none"), base_url=f"http://127.0.0.1:{port}/v1"
        )
        retry = RetryPolicy(
            attempt_seconds=ATTEMPT_SECONDS,
            deadline_seconds=DEADLINE_SECONDS,
            first_wait_seconds=0.05,
            longest_wait_seconds=0.2,
        )
        backbone = RemoteBackbone(provider, retry=retry)
        (generation,) = backbone.generate([Request(Prompt("say", "Say A or B."), {}, Reply)])
        usage = generation.usage
        assert min(usage.input_tokens, usage.output_tokens) >= 0, usage
        assert max(usage.input_tokens, usage.output_tokens) < 2**63, usage
        json.dumps([str(generation.reply), usage.input_tokens, generation.seconds], allow_nan=False)

    return work
