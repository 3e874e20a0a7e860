"""Servers on loopback that count cached tokens by the rules in `tests/cache_rules.py` and answer what they are told.

Words are counted at four letters a token, frames by the provider's formula.
"""

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import simplejpeg  # type: ignore[import-untyped]

from tests.cache_rules import Block, BreakpointCache, CacheRules, CommonBeginningCache, Counted, MarkedCache, Prompt
from tests.fakes import DIALECTS, Received, Response, Server, anthropic_ok, gemini_ok, openai_ok
from trace_ves.backbone.frame_tokens import frame_tokens, text_tokens


def _words(text: str) -> Iterator[Block]:
    """Text as tokens of four letters, so that a common beginning may end inside of it."""
    for start in range(0, len(text), 4):
        yield Block(text[start : start + 4], 1)


def _last_words(parts: Sequence[dict[str, Any]]) -> str:
    """What stands after the last frame: the words of the request, and its schema where that is in words."""
    texts = [part.get("text") for part in parts]
    frames = [place for place, text in enumerate(texts) if text is None]
    return "\n".join(text for text in texts[frames[-1] + 1 if frames else 0 :] if text is not None)


def _frame(spec: str, jpeg: bytes, detail: str, *, marked: bool = False) -> Block:
    height, width, *_ = simplejpeg.decode_jpeg_header(jpeg)
    digest = hashlib.sha256(jpeg + detail.encode()).hexdigest()
    return Block(digest, frame_tokens(spec, width, height, detail), marked)


def _schema(schema: object) -> Block:
    text = "" if schema is None else json.dumps(schema)
    return Block(f"schema {text}", text_tokens(text))


class CacheServer(Server):
    """One provider's API with its cache. `answers` gives the reply to the last words of a prompt."""

    error_event: tuple[str | None, object]

    def __init__(self, spec: str, cache: CacheRules, answers: Callable[[str], str]) -> None:
        super().__init__()
        self.spec = spec
        self.cache = cache
        self.answers = answers
        self.prompts: list[Prompt] = []
        self.counted: list[Counted] = []
        self.next_fault = ""  # of the next response: `cut` inside a line, `ends` early, or `error` in the stream
        self.refuses_stream = False
        self._barrier: threading.Barrier | None = None
        self.respond(self._respond)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def expect_together(self, count: int) -> None:
        """The next requests come together: each is looked up before any of their responses begins."""
        self._barrier = threading.Barrier(count) if count > 1 else None

    def prompt(self, path: str, body: dict[str, Any]) -> Prompt:
        raise NotImplementedError

    def body(self, prompt: Prompt, counted: Counted, reply: str) -> object:
        raise NotImplementedError

    def events(self, prompt: Prompt, counted: Counted, reply: str) -> Sequence[tuple[str | None, object]]:
        """The response as server-sent events: the name of each, where it has one, and its data."""
        raise NotImplementedError

    def _respond(self, received: Received) -> Response:
        prompt = self.prompt(received.path, received.body)
        if prompt.stream and self.refuses_stream:
            said = {"message": "Your organization must be verified to stream this model.", "code": 400}
            return Response(400, {"error": said})
        with self._lock:
            counted = self.cache.look_up(prompt)
            self.prompts.append(prompt)
            self.counted.append(counted)
        if self._barrier is not None:
            self._barrier.wait(30)
        with self._lock:
            self.cache.keep(prompt)  # from here on others find it: the response begins
        try:
            reply = self.answers(prompt.words)
        except LookupError as error:  # a mistake of the test, which nobody should try again
            return Response(400, {"error": {"message": repr(error)}})
        response = Response(body=self.body(prompt, counted, reply))
        if prompt.stream:
            events = self.events(prompt, counted, reply)
            if self.next_fault in {"ends", "error"}:
                events = [*events[: len(events) // 2], *([self.error_event] * (self.next_fault == "error"))]
                self.next_fault = ""
            lines = [(f"event: {name}\n" if name else "") + f"data: {_data(data)}\n\n" for name, data in events]
            response = Response(body="".join(lines).encode(), headers={"content-type": "text/event-stream"})
        if self.next_fault == "cut":
            self.next_fault, response.cut = "", True
        return response


def _data(data: object) -> str:
    return data if isinstance(data, str) else json.dumps(data)


class AnthropicServer(CacheServer):
    """Messages."""

    error_event = ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})

    def prompt(self, path: str, body: dict[str, Any]) -> Prompt:
        schema = body.get("output_config", {}).get("format", {}).get("schema")
        settings = Block(json.dumps([body["model"], body.get("thinking")]), 0)
        blocks = [settings, _schema(schema), *(self._block(part) for part in body["messages"][0]["content"])]
        return Prompt(tuple(blocks), _last_words(body["messages"][0]["content"]), stream=body.get("stream", False))

    def _block(self, part: dict[str, Any]) -> Block:
        marked = "cache_control" in part
        if part["type"] == "text":
            return Block(part["text"], text_tokens(part["text"]), marked)
        return _frame(self.spec, base64.b64decode(part["source"]["data"]), "", marked=marked)

    def body(self, prompt: Prompt, counted: Counted, reply: str) -> dict[str, Any]:
        read, written = counted
        return anthropic_ok(reply, read=prompt.tokens, cached=read, written=written, output=text_tokens(reply))

    def events(self, prompt: Prompt, counted: Counted, reply: str) -> Sequence[tuple[str | None, object]]:
        start = self.body(prompt, counted, reply) | {"content": [], "stop_reason": None}
        start["usage"]["output_tokens"] = 1
        half = len(reply) // 2
        deltas = [{"type": "text_delta", "text": text} for text in (reply[:half], reply[half:])]
        ending = {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": text_tokens(reply)}}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", **ending},
            {"type": "message_stop"},
        ]
        return [(event["type"], event) for event in events]


class OpenAIServer(CacheServer):
    """Chat completions."""

    error_event = (None, {"error": {"message": "Overloaded", "type": "server_error", "code": "server_error"}})

    def prompt(self, path: str, body: dict[str, Any]) -> Prompt:
        content = body["messages"][0]["content"]
        blocks = [_schema(body.get("response_format")), *(block for part in content for block in self._blocks(part))]
        options = body.get("prompt_cache_options", {})
        return Prompt(
            tuple(blocks),
            _last_words(content),
            key=body.get("prompt_cache_key"),
            explicit=options.get("mode") == "explicit",
            stream=body.get("stream", False),
        )

    def _blocks(self, part: dict[str, Any]) -> Iterator[Block]:
        if part["type"] == "text":
            yield from _words(part["text"])
            return
        image = part["image_url"]
        jpeg = base64.b64decode(image["url"].removeprefix("data:image/jpeg;base64,"))
        yield _frame(self.spec, jpeg, image.get("detail", "auto"), marked="prompt_cache_breakpoint" in part)

    def body(self, prompt: Prompt, counted: Counted, reply: str) -> dict[str, Any]:
        said = openai_ok(reply, read=prompt.tokens, cached=counted.read, output=text_tokens(reply))
        said["usage"]["prompt_tokens_details"]["cache_write_tokens"] = counted.written
        return said

    def events(self, prompt: Prompt, counted: Counted, reply: str) -> Sequence[tuple[str | None, object]]:
        half = len(reply) // 2
        base = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
        chunks: list[object] = [
            base | {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
            for text in ("", reply[:half], reply[half:])
        ]
        chunks.append(base | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        chunks.append(base | {"choices": [], "usage": self.body(prompt, counted, reply)["usage"]})
        return [(None, chunk) for chunk in [*chunks, "[DONE]"]]


class GeminiServer(CacheServer):
    """generateContent."""

    error_event = (None, {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}})

    def prompt(self, path: str, body: dict[str, Any]) -> Prompt:
        parts = body["contents"][0]["parts"]
        schema = body.get("generationConfig", {}).get("responseJsonSchema")
        blocks = [*(block for part in parts for block in self._blocks(part)), _schema(schema)]
        return Prompt(tuple(blocks), _last_words(parts), stream=":streamGenerateContent" in path)

    def _blocks(self, part: dict[str, Any]) -> Iterator[Block]:
        if "text" in part:
            yield from _words(part["text"])
            return
        level = part.get("mediaResolution", {}).get("level", "MEDIA_RESOLUTION_HIGH")
        data = part["inlineData"]["data"].replace("-", "+").replace("_", "/")
        yield _frame(self.spec, base64.b64decode(data), level.removeprefix("MEDIA_RESOLUTION_").lower())

    def body(self, prompt: Prompt, counted: Counted, reply: str) -> dict[str, Any]:
        return gemini_ok(reply, read=prompt.tokens, cached=counted.read, output=text_tokens(reply))

    def events(self, prompt: Prompt, counted: Counted, reply: str) -> Sequence[tuple[str | None, object]]:
        half = len(reply) // 2
        whole = self.body(prompt, counted, reply)  # each chunk has the counts
        chunks = [gemini_ok(reply[:half], finishReason=None), gemini_ok(reply[half:])]
        return [(None, whole | {"candidates": chunk["candidates"]}) for chunk in chunks]


def environment(server: CacheServer) -> dict[str, str]:
    """What points the provider of the server's spec to it."""
    return DIALECTS[server.spec.partition(":")[0]].environment(server.url)


def cache_server(spec: str, answers: Callable[[str], str]) -> CacheServer:
    """The server of a spec, with the rules that its provider publishes for its model."""
    scheme, _, model = spec.partition(":")
    if scheme == "anthropic":
        return AnthropicServer(spec, MarkedCache(), answers)
    if scheme == "gemini":
        least = 2048 if model.startswith("gemini-2") else 4096
        return GeminiServer(spec, CommonBeginningCache(least), answers)
    if model.startswith(("gpt-5.6", "gpt-6")):
        return OpenAIServer(spec, BreakpointCache(), answers)
    return OpenAIServer(spec, CommonBeginningCache(1024, step=128), answers)
