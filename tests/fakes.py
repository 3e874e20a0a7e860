"""Test doubles: a real HTTP server on loopback that speaks each provider's protocol, and tiny requests to send it."""

import base64
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

import numpy as np
import simplejpeg  # type: ignore[import-untyped]
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from trace_ves.backbone import Prompt, Request
from trace_ves.backbone.provider import Completion, CompletionRequest, Provider, ServiceError
from trace_ves.backbone.registry import BackboneOptions
from trace_ves.backbone.remote import RemoteBackbone
from trace_ves.backbone.retry import RetryPolicy
from trace_ves.backbone.secret import Key
from trace_ves.core import Clip, Frame, Interval, ObservationStrategy

SECRET = "sk-test-0123456789-never-to-be-seen"
GOOD = '{"colour": "red"}'  # a `Sighting`


def run_threads(*jobs: Callable[[], object]) -> None:
    """Run jobs in threads at once; what one of them raises is raised here."""
    pool = ThreadPoolExecutor(len(jobs))
    futures = [pool.submit(job) for job in jobs]
    pool.shutdown(wait=False)
    for future in futures:
        future.result(120)


@dataclass
class Response:
    """What the server does with one request."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False  # send half of the body, then close the connection
    before: Callable[[], object] = lambda: None  # called before the response is sent: to wait, or to meet others
    drip: threading.Event | None = None  # send a space every now and then, and the body once this is set


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Server:
    """Answers with the responses of its script, one after the other; the last one stays."""

    def __init__(self) -> None:
        self.script: list[Response | Callable[[Received], Response]] = []
        self.received: list[Received] = []
        self.pages: dict[str, Any] = {}  # what is served at GET, by path
        self.got: list[str] = []  # the paths of the GET requests
        self.most_under_way = 0
        self.released = threading.Event()
        self._under_way = 0
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()

    def respond(self, *script: Response | Callable[[Received], Response]) -> None:
        self.script = list(script)

    def _next(self, received: Received) -> Response:
        with self._lock:
            self.received.append(received)
            step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return step(received) if callable(step) else step

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self._under_way += 1
            self.most_under_way = max(self.most_under_way, self._under_way)
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                with server._counted(), contextlib.suppress(OSError):
                    raw = self.rfile.read(int(self.headers["content-length"]))
                    body = json.loads(raw) if raw.startswith(b"{") else {}
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    response = server._next(Received(self.path, headers, body))
                    response.before()
                    self._send(response)

            def do_GET(self) -> None:
                server.got.append(self.path)
                page = server.pages.get(self.path)
                self._send(Response(404 if page is None else 200, page))

            def _send(self, response: Response) -> None:
                body = response.body if isinstance(response.body, bytes) else json.dumps(response.body).encode()
                self.send_response(response.status)
                for name, value in ({"content-type": "application/json"} | response.headers).items():
                    self.send_header(name, value)
                self.close_connection = response.cut or response.drip is not None
                if not response.drip:
                    self.send_header("content-length", str(len(body)))
                self.end_headers()
                if response.drip:
                    while not response.drip.wait(0.05):
                        self.wfile.write(b" ")
                self.wfile.write(body[: len(body) // 2] if response.cut else body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


Content = list[tuple[str, Any]]


@dataclass(frozen=True)
class Dialect:
    """How one provider says things on the wire."""

    name: str
    environment: Callable[[str], dict[str, str]]
    ok: Callable[..., Any]  # ok(text, read=, cached=, output=) is the body of an answer with these tokens
    length: Callable[[str], Any]
    refusal: Any
    blocked: Any
    error: Callable[[str], Any]
    content: Callable[[dict[str, Any]], list[tuple[str, Content]]]  # role, texts and pictures of each turn, in order
    schema: Callable[[dict[str, Any]], Any]  # that the provider was asked to hold the model to
    key: Callable[[Received], str]
    provider: Callable[..., Provider]  # provider(model) is the adapter under test


def turns_of(
    turns: list[dict[str, Any]], key: str, picture: Callable[[dict[str, Any]], str]
) -> list[tuple[str, Content]]:
    """The turns of a request, whose texts and pictures are under a key; `picture` finds the base64 of a JPEG."""

    def parts(said: Any) -> Content:
        if isinstance(said, str):
            return [("text", said)]
        return [("text", part["text"]) if "text" in part else ("image", decoded(picture(part))) for part in said]

    def decoded(data: str) -> bytes:
        return base64.urlsafe_b64decode(data.replace("+", "-").replace("/", "_"))  # Gemini's SDK sends either alphabet

    return [(turn["role"].replace("model", "assistant"), parts(turn[key])) for turn in turns]


def openai_ok(text: str | None, *, read: int = 0, cached: int = 0, output: int = 0, **choice: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text} | choice.pop("message", {})
    usage: dict[str, Any] = {"prompt_tokens": read, "completion_tokens": output, "total_tokens": read + output}
    usage["prompt_tokens_details"] = {"cached_tokens": cached}
    choices = [{"index": 0, "finish_reason": "stop", "message": message} | choice]
    head = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
    return head | {"choices": choices, "usage": usage}


def make_provider(name: str, model: str = "m") -> Provider:
    """The adapter under test; its library is imported only now."""
    scheme = name.lower()
    adapter = getattr(import_module(f"trace_ves.backbone.{scheme}.provider"), f"{name}Provider")
    made: Provider = adapter(f"{scheme}:{model}", model, key=Key(f"{name.upper()}_API_KEY", SECRET))
    return made


OPENAI = Dialect(
    name="openai",
    environment=lambda url: {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": SECRET},
    ok=openai_ok,
    length=lambda text: openai_ok(text, finish_reason="length"),
    refusal=openai_ok(None, message={"refusal": "I cannot help with that."}),
    blocked=openai_ok("", finish_reason="content_filter"),
    error=lambda message: {"error": {"message": message, "type": "x", "code": None}},
    content=lambda body: turns_of(
        body["messages"], "content", lambda part: part["image_url"]["url"].removeprefix("data:image/jpeg;base64,")
    ),
    schema=lambda body: body.get("response_format", {}).get("json_schema", {}).get("schema"),
    key=lambda received: received.headers["authorization"].removeprefix("Bearer "),
    provider=partial(make_provider, "OpenAI"),
)


def gemini_ok(text: str | None, *, read: int = 0, cached: int = 0, output: int = 0, **candidate: Any) -> dict[str, Any]:
    parts = [] if text is None else [{"text": "hm", "thought": True}, {"text": text}]
    candidates = [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"} | candidate]
    usage = {"promptTokenCount": read, "cachedContentTokenCount": cached}
    usage |= {"candidatesTokenCount": max(output - 1, 0), "thoughtsTokenCount": min(output, 1)}
    return {"candidates": candidates, "usageMetadata": usage}


GEMINI = Dialect(
    name="gemini",
    environment=lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": SECRET},
    ok=gemini_ok,
    length=lambda text: gemini_ok(text, finishReason="MAX_TOKENS"),
    refusal=gemini_ok(None, finishReason="RECITATION"),
    blocked={"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}},
    error=lambda message: {"error": {"code": 0, "message": message, "status": "X"}},
    content=lambda body: turns_of(body["contents"], "parts", lambda part: part["inlineData"]["data"]),
    schema=lambda body: body.get("generationConfig", {}).get("responseJsonSchema"),
    key=lambda received: received.headers["x-goog-api-key"],
    provider=partial(make_provider, "Gemini"),
)


def anthropic_ok(
    text: str | None, *, read: int = 0, cached: int = 0, output: int = 0, written: int | None = None, **message: Any
) -> dict[str, Any]:
    blocks = [] if text is None else [{"type": "text", "text": text}]
    written = int(read > cached) if written is None else written
    usage = {"input_tokens": read - cached - written, "output_tokens": output}
    usage |= {"cache_read_input_tokens": cached, "cache_creation_input_tokens": written}
    head = {"id": "x", "type": "message", "role": "assistant", "model": "m"}
    return head | {"content": blocks, "stop_reason": "end_turn", "usage": usage} | message


ANTHROPIC = Dialect(
    name="anthropic",
    environment=lambda url: {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": SECRET},
    ok=anthropic_ok,
    length=lambda text: anthropic_ok(text, stop_reason="max_tokens"),
    refusal=anthropic_ok("I would rather not.", stop_reason="refusal"),
    blocked=None,
    error=lambda message: {"type": "error", "error": {"type": "x", "message": message}},
    content=lambda body: turns_of(body["messages"], "content", lambda part: part["source"]["data"]),
    schema=lambda body: body.get("output_config", {}).get("format", {}).get("schema"),
    key=lambda received: received.headers.get("x-api-key") or received.headers["authorization"].removeprefix("Bearer "),
    provider=partial(make_provider, "Anthropic"),
)

DIALECTS = {dialect.name: dialect for dialect in (OPENAI, GEMINI, ANTHROPIC)}


class ScriptedProvider(Provider):
    """A service without a server: each call has the next outcome, and the last one stays."""

    def __init__(self, *outcomes: Completion | ServiceError) -> None:
        super().__init__("scripted:m", "m", Key("SCRIPTED_API_KEY", ""), identity={})
        self.calls = 0
        self._outcomes = outcomes

    def _send(self, call: CompletionRequest, features: frozenset[str], timeout_seconds: float) -> Completion:
        outcome = self._outcomes[min(self.calls, len(self._outcomes) - 1)]
        self.calls += 1
        if isinstance(outcome, ServiceError):
            raise outcome
        return outcome


class Sighting(BaseModel):
    """A reply with most kinds of fields."""

    colour: str = Field(description="The colour of the ball.")
    seconds: float = Field(0.0, ge=0)
    where: list[str] = Field(default_factory=list, max_length=3)


class Still:
    """A picture of one colour."""

    def __init__(self, shade: int, height: int = 36, width: int = 64) -> None:
        self.width, self.height = width, height
        self._shade = shade
        self.jpeg = cache(self._jpeg)  # many requests show it

    def rgb(self) -> NDArray[np.uint8]:
        return np.full((self.height, self.width, 3), self._shade, dtype=np.uint8)

    def _jpeg(self, quality: int = 90) -> bytes:
        return bytes(simplejpeg.encode_jpeg(self.rgb(), quality=quality))


def make_clip(start: float, shades: list[int], *, height: int = 36) -> Clip:
    frames = tuple(Frame(i, start + i / 2, Still(shade, height)) for i, shade in enumerate(shades))
    return Clip(Interval(start, start + len(shades)), ObservationStrategy(), frames)


def make_request(
    text: str = "Which colour is the ball?", *clips: Clip, sample: int = 0, reply: Any = Sighting
) -> Request[Any]:
    return Request(Prompt("look", "Look.\n$question"), {"question": text}, reply, clips, sample)


def quick_backbone(
    provider: Provider,
    *,
    attempt_seconds: float = 10.0,
    deadline_seconds: float = 20.0,
    first_wait_seconds: float = 0.01,
    **options: Any,
) -> RemoteBackbone:
    """A backbone that waits milliseconds where others wait seconds."""
    retry = RetryPolicy(attempt_seconds, deadline_seconds, first_wait_seconds=first_wait_seconds)
    return RemoteBackbone(provider, BackboneOptions(**{"concurrency": 8} | options), retry=retry)


def ask_once(dialect: Dialect, server: Server, *responses: Response, request: Request[Any] | None = None) -> Any:
    """What a backbone gives for one request, where the server responds like this."""
    server.respond(*responses)
    return quick_backbone(dialect.provider()).generate([request or make_request()])[0]
