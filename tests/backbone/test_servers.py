"""vLLM, SGLang and llama.cpp are recognised by what they say of themselves, and asked as each can best use."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes import make_clip, make_request, openai_ok

from trace_ves.backbone import open_backbone
from trace_ves.backbone.model_settings import ServerKind
from trace_ves.backbone.openai.provider import PROFILES, recognise
from trace_ves.backbone.prompt_caches import SendOrder
from trace_ves.core import BackboneConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

pytest.importorskip("openai")

GOOD = json.dumps({"colour": "red"})
MODELS = {
    "vllm": {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "vllm", "max_model_len": 32768}]},
    "sglang": {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "sglang", "root": "m"}]},
    "llama.cpp": {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "llamacpp", "meta": {}}]},
    "other": {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "library"}]},
}
"""What the four say at /v1/models; the last is Ollama's."""


class StandIn:
    """A server that says what it is told to at GET, and answers every chat completion."""

    def __init__(self, pages: Mapping[str, object]) -> None:
        self.pages = pages
        self.asked: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.under_way = self.most_under_way = 0
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.spec = f"openai:m@http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.asked.append(self.path)
                page = server.pages.get(self.path)
                self._send(404 if page is None else 200, page)

            def do_POST(self) -> None:
                with server._lock:
                    server.under_way += 1
                    server.most_under_way = max(server.most_under_way, server.under_way)
                    server.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                threading.Event().wait(0.03)
                with server._lock:
                    server.under_way -= 1
                self._send(200, openai_ok(GOOD))

            def _send(self, status: int, page: object) -> None:
                body = page if isinstance(page, bytes) else json.dumps(page).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def stand_in() -> Iterator[Callable[..., StandIn]]:
    made: list[StandIn] = []

    def make(pages: Mapping[str, object]) -> StandIn:
        made.append(StandIn(pages))
        return made[-1]

    yield make
    for server in made:
        server.close()


def batch() -> list[Any]:
    clips = [make_clip(10.0 * place, [place, place + 50]) for place in range(3)]
    return [make_request("Which?", *clips[:count]) for count in (2, 3, 1)]


def pictures(server: StandIn) -> list[int]:
    return [sum(part["type"] == "image_url" for part in body["messages"][0]["content"]) for body in server.bodies]


def sends_uuid(server: StandIn) -> bool:
    return all(
        "uuid" in part
        for body in server.bodies
        for part in body["messages"][0]["content"]
        if part["type"] == "image_url"
    )


@pytest.mark.parametrize("kind", MODELS)
def test_a_server_is_recognised_once_and_asked_as_it_can_best_use(kind: str, stand_in: Callable[..., StandIn]) -> None:
    server = stand_in({"/v1/models": MODELS[kind]})
    backbone = open_backbone(server.spec, temperature=0.0)
    assert server.asked == []  # nothing is sent before the first question
    for _ in range(2):
        assert [generation.reply.colour for generation in backbone.generate(batch())] == ["red"] * 3
    assert server.asked.count("/v1/models") == 1
    assert sends_uuid(server) == (kind in {"vllm", "other"})
    assert not any("prompt_cache_key" in body for body in server.bodies)
    assert kind != "llama.cpp" or (pictures(server), server.most_under_way) == ([2, 4, 6] * 2, 1)


@pytest.mark.parametrize(
    ("pages", "kind"),
    [
        ({"/version": {"version": "0.14.0"}}, ServerKind.VLLM),
        ({"/props": {"total_slots": 4, "build_info": "b8681"}}, ServerKind.LLAMA_CPP),
        ({"/v1/models": b"<html>"}, ServerKind.OTHER),
        ({}, ServerKind.OTHER),
    ],
)
def test_other_answers_name_a_server_too(
    pages: dict[str, object], kind: ServerKind, stand_in: Callable[..., StandIn]
) -> None:
    server = stand_in(pages)
    backbone: Any = open_backbone(server.spec)
    backbone.generate(batch()[:1])
    assert backbone._provider._profile.kind is kind


def test_llama_cpp_is_asked_as_much_at_once_as_it_has_slots(stand_in: Callable[..., StandIn]) -> None:
    server = stand_in({"/v1/models": MODELS["llama.cpp"], "/props": {"total_slots": 2}})
    backbone = open_backbone(server.spec)
    threads = [threading.Thread(target=backbone.generate, args=(batch(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.bodies) == 12
    assert server.most_under_way <= 2


def test_a_server_that_is_named_by_hand_is_not_asked(stand_in: Callable[..., StandIn]) -> None:
    server = stand_in({"/v1/models": MODELS["vllm"]})
    open_backbone(server.spec, server="llama.cpp").generate(batch())
    assert server.asked == []
    assert pictures(server) == [2, 4, 6]
    with pytest.raises(BackboneConfigError, match=r"openai:gpt-6 is no server of your own; leave out --server"):
        open_backbone("openai:gpt-6", server="vllm")
    with pytest.raises(BackboneConfigError, match=r"has no setting server; leave out --server"):
        open_backbone("glance", server="vllm")
    with pytest.raises(BackboneConfigError, match=r"There is no server kind 'tgi'; there are auto, vllm, sglang"):
        open_backbone(server.spec, server="tgi")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "owned_by", "version", "total_slots", "x"]), inner, max_size=3)
    ),
)


@given(ANYTHING, ANYTHING, ANYTHING)
def test_whatever_a_server_says_it_gets_a_profile(models: object, version: object, props: object) -> None:
    said = {"/v1/models": models, "/version": version, "/props": props}
    profile = recognise(said.__getitem__)
    assert profile.kind in PROFILES
    assert profile.prefix_cache.parallel is None or 1 <= profile.prefix_cache.parallel <= 1024
    assert (profile.prefix_cache.order is SendOrder.GROWING) == (profile.kind is ServerKind.LLAMA_CPP)
