"""vLLM, SGLang and llama.cpp are recognised by what they say of themselves, and asked as each can best use."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes import GOOD, Response, Server, make_clip, make_request, openai_ok, run_threads

from trace_ves.backbone import open_backbone
from trace_ves.backbone.model_settings import ServerKind
from trace_ves.backbone.openai.provider import detect_server

OWNERS = {"vllm": "vllm", "sglang": "sglang", "llama.cpp": "llamacpp", "other": "library"}  # the last is Ollama's
MODELS = {
    kind: {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": owner}]}
    for kind, owner in OWNERS.items()
}
"""What the four say at /v1/models."""


@pytest.fixture
def spec(server: Server) -> str:
    """The spec of a server that answers every chat completion after a moment."""
    server.respond(Response(body=openai_ok(GOOD), before=lambda: time.sleep(0.03)))
    return f"openai:m@{server.url}/v1"


def batch() -> list[Any]:
    clips = [make_clip(10.0 * place, [place, place + 50]) for place in range(3)]
    return [make_request("Which?", *clips[:count]) for count in (2, 3, 1)]


def pictures(server: Server) -> list[list[dict[str, Any]]]:
    """The pictures of each request."""
    contents = [received.body["messages"][0]["content"] for received in server.received]
    return [[part for part in content if part["type"] == "image_url"] for content in contents]


@pytest.mark.parametrize("kind", MODELS)
def test_a_server_is_recognised_once_and_asked_as_it_can_best_use(kind: str, server: Server, spec: str) -> None:
    server.pages = {"/v1/models": MODELS[kind]}
    backbone = open_backbone(spec, temperature=0.0)
    assert server.got == []  # nothing is sent before the first question
    for _ in range(2):
        assert [generation.reply.colour for generation in backbone.generate(batch())] == ["red"] * 3
    assert server.got.count("/v1/models") == 1
    assert all(("uuid" in picture) == (kind in {"vllm", "other"}) for shown in pictures(server) for picture in shown)
    assert not any("prompt_cache_key" in received.body for received in server.received)
    in_turn = ([len(shown) for shown in pictures(server)], server.most_under_way) == ([2, 4, 6] * 2, 1)
    assert in_turn or kind != "llama.cpp"


def test_llama_cpp_is_asked_as_much_at_once_as_it_has_slots(server: Server, spec: str) -> None:
    server.pages = {"/v1/models": MODELS["llama.cpp"], "/props": {"total_slots": 2}}
    backbone = open_backbone(spec)
    run_threads(*[lambda: backbone.generate(batch())] * 4)
    assert len(server.received) == 12
    assert server.most_under_way <= 2


def test_a_server_that_is_named_by_hand_is_not_asked(server: Server, spec: str) -> None:
    server.pages = {"/v1/models": MODELS["vllm"]}
    open_backbone(spec, server="llama.cpp").generate(batch())
    assert server.got == []
    assert [len(shown) for shown in pictures(server)] == [2, 4, 6]


NAMED = {"data": [7, {"owned_by": []}, {"owned_by": "llamacpp"}]}


@pytest.mark.parametrize(
    ("pages", "kind", "slots"),
    [
        *(
            ({"/v1/models": NAMED, "/props": {"total_slots": stated}}, ServerKind.LLAMA_CPP, kept)
            for stated, kept in ((0, 1), (1, 1), (2, 2), (1024, 1024), (1025, 1), (True, 1), ("2", 1), (None, 1))
        ),
        ({"/props": {"total_slots": 4, "build_info": "b8681"}}, ServerKind.LLAMA_CPP, 4),
        ({"/v1/models": MODELS["vllm"], "/props": {"total_slots": 4}}, ServerKind.VLLM, 1),
        ({"/version": {"version": "0.14.0"}}, ServerKind.VLLM, 1),
        ({"/version": {"version": None}}, ServerKind.OTHER, 1),
        ({"/v1/models": "<html>"}, ServerKind.OTHER, 1),
    ],
)
def test_what_a_server_says_names_its_kind_and_its_slots(pages: dict[str, Any], kind: ServerKind, slots: int) -> None:
    assert detect_server(pages.get) == (kind, slots)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "owned_by", "version", "total_slots", "x"]), inner, max_size=3)
    ),
)


@given(ANYTHING, ANYTHING, ANYTHING)
def test_whatever_a_server_says_it_is_of_some_kind(models: object, version: object, props: object) -> None:
    said = {"/v1/models": models, "/version": version, "/props": props}
    kind, slots = detect_server(said.__getitem__)
    assert kind in set(ServerKind) - {ServerKind.AUTO}
    assert 1 <= slots <= 1024
