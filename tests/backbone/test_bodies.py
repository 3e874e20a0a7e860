"""What is sent to each provider, whole, with every option chosen and with none; and how each response is read."""

from types import SimpleNamespace
from typing import Any

import pytest
from google.genai import errors, types

from trace_ves.backbone.anthropic import provider as anthropic
from trace_ves.backbone.anthropic.provider import AnthropicProvider
from trace_ves.backbone.gemini import provider as gemini
from trace_ves.backbone.gemini.provider import GeminiProvider
from trace_ves.backbone.model_settings import Detail, ServerKind, ServiceTier, Thinking
from trace_ves.backbone.openai import is_local_network
from trace_ves.backbone.openai import provider as openai
from trace_ves.backbone.openai.provider import OpenAIProvider, recognise
from trace_ves.backbone.provider import (
    Completion,
    CompletionRequest,
    FinishReason,
    ImagePart,
    Provider,
    RepairTurn,
    ServiceError,
    TextPart,
)
from trace_ves.backbone.secret import Key
from trace_ves.records import Usage

KEY = Key("X_API_KEY", "k")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "additionalProperties": False}
CLOSED = SCHEMA | {"required": ["n"]}
IN_WORDS = (
    "Answer with one JSON object that matches this JSON schema, and with nothing else:\n"
    '{"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "additionalProperties": false}'
)
AGAIN = (
    "That reply cannot be used: it is empty. Say again in full what you saw, in the form that was asked for; the "
    "frames are not repeated."
)
PARTS = (TextPart("t=1.00 s"), ImagePart(b"jpeg", 720, width_px=1280), TextPart("Which?"))
PLAIN = CompletionRequest(PARTS, SCHEMA)
CHOSEN = CompletionRequest(
    PARTS,
    SCHEMA,
    repairs=(RepairTurn("no", "it is empty"),),
    temperature=0.5,
    thinking=Thinking.HIGH,
    max_output_tokens=99,
    service_tier=ServiceTier.FLEX,
    seed=7,
    shared_ends=(2,),
    cache_key="together",
)
REPAIR = [{"role": "assistant", "content": "no"}, {"role": "user", "content": AGAIN}]
NONE = frozenset[str]()


@pytest.fixture(autouse=True)
def _no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_openai() -> None:
    provider = OpenAIProvider("openai:gpt-5.6-terra", "gpt-5.6-terra", key=KEY)
    assert set(provider.optional) == set(openai._OPTIONAL) - {"max_tokens", "uuid"}
    assert (provider.may_drop_frames, provider.limits, provider.default_temperature) == (False, openai.LIMITS, None)
    url = {"url": "data:image/jpeg;base64,anBlZw=="}
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    image = {"type": "image_url", "image_url": url | {"detail": "high"}}
    content = [text("t=1.00 s"), image | mark, text("Which?")]
    assert provider._body(CHOSEN, frozenset(provider.optional)) == {
        "model": "gpt-5.6-terra",
        "messages": [{"role": "user", "content": content}, *REPAIR],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": CLOSED, "strict": True},
        },
        "temperature": 0.5,
        "max_completion_tokens": 99,
        "reasoning_effort": "high",
        "service_tier": "flex",
        "seed": 7,
        "extra_body": {"prompt_cache_key": "together", "prompt_cache_options": {"mode": "explicit"}},
    }
    bare = [text("t=1.00 s"), {"type": "image_url", "image_url": url}, text("Which?"), text(IN_WORDS)]
    assert provider._body(PLAIN, NONE) == {
        "model": "gpt-5.6-terra",
        "messages": [{"role": "user", "content": bare}],
        "extra_body": {},
    }
    without = {"messages": [{"role": "user", "content": bare}, *REPAIR], "model": "gpt-5.6-terra", "extra_body": {}}
    kept = {"max_completion_tokens": 99, "reasoning_effort": "high", "service_tier": "flex"}
    assert provider._body(CHOSEN, NONE) == without | kept
    assert "prompt_cache_key" not in provider._body(PLAIN, frozenset({"cache_key"}))["extra_body"]
    assert provider._body(CHOSEN, frozenset({"max_tokens"}))["max_tokens"] == 99


@pytest.mark.parametrize(
    ("url", "server", "unused", "uuid"),
    [
        ("http://localhost:1/v1", ServerKind.VLLM, {"strict", "cache_marks", "cache_key"}, True),
        ("http://localhost:1/v1", ServerKind.OTHER, {"strict", "cache_marks", "cache_key"}, True),
        ("http://localhost:1/v1", ServerKind.SGLANG, {"strict", "cache_marks", "cache_key"}, False),
        ("http://localhost:1/v1", ServerKind.LLAMA_CPP, {"strict", "cache_marks", "cache_key"}, False),
        ("https://x.example.org/v1", ServerKind.OTHER, {"uuid", "cache_marks", "cache_key"}, False),
    ],
)
def test_compatible_servers(url: str, server: ServerKind, unused: set[str], uuid: bool) -> None:
    provider = OpenAIProvider("openai:m@x", "m", key=KEY, base_url=url, server=server)
    assert set(provider.optional) == set(openai._OPTIONAL) - unused
    assert (provider.may_drop_frames, provider.limits.images, provider.default_temperature) == (True, None, 0.0)
    assert provider.identity == {"base_url": url}
    sent = provider._body(PLAIN, frozenset(provider.optional))["messages"][0]["content"][1]
    assert ("uuid" in sent) is uuid
    assert (provider.prefix_cache.parallel == 1) == (server is ServerKind.LLAMA_CPP)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1/v1", True),
        ("http://gpu-box/v1", True),
        ("http://gpu.local/v1", True),
        ("http://gpu.internal/v1", True),
        ("http://gpu.lan/v1", True),
        ("http://10.0.0.7/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://8.8.8.8/v1", False),
        ("https://api.openai.com/v1", False),
        ("nonsense", True),
    ],
)
def test_what_is_in_the_local_network(url: str, local: bool) -> None:
    assert is_local_network(url) is local


@pytest.mark.parametrize(
    ("slots", "kept"), [(0, 1), (1, 1), (2, 2), (1024, 1024), (1025, 1), (True, 1), ("2", 1), (None, 1)]
)
def test_the_slots_of_a_llama_cpp_are_those_it_states_within_reason(slots: object, kept: int) -> None:
    pages = {"/v1/models": {"data": [7, {"owned_by": []}, {"owned_by": "llamacpp"}]}, "/props": {"total_slots": slots}}
    assert recognise(pages.get) == (ServerKind.LLAMA_CPP, kept)
    named = {"/v1/models": {"data": [{"owned_by": "vllm"}]}, "/props": {"total_slots": slots}}
    assert recognise(named.get) == (ServerKind.VLLM, 1)
    assert recognise({"/version": {"version": None}}.get) == (ServerKind.OTHER, 1)


@pytest.mark.parametrize(
    ("stated", "status", "message", "permanent"),
    [
        ("busy", 500, "busy", False),
        ({"message": "no", "code": 400}, 400, "no", False),
        ({"message": "no", "code": True}, 500, "no", False),
        ({"message": "no", "code": "context_length_exceeded"}, 400, "no", False),
        ({"message": "no", "type": "invalid_request_error"}, 400, "no", False),
        ({"message": "no", "code": "insufficient_quota"}, 500, "no", True),
        ({"message": "no", "code": "billing_hard_limit_reached"}, 500, "no", True),
        ({"message": "no", "metadata": {"raw": "top up"}}, 500, "no top up", False),
        ({"metadata": "odd"}, 500, "", False),
    ],
)
def test_an_error_that_openai_states_in_a_body(stated: object, status: int, message: str, permanent: bool) -> None:
    failure = OpenAIProvider("openai:m", "m", key=KEY)._stated_failure(stated)
    assert (failure.status, failure.message, failure.permanent) == (status, message, permanent)


def chunk(content: str | None = None, finish: str | None = None, refusal: str | None = None, **more: Any) -> Any:
    choice = SimpleNamespace(delta=SimpleNamespace(content=content, refusal=refusal), finish_reason=finish)
    return SimpleNamespace(choices=[choice, None][: more.pop("choices", 1)], usage=None, **more)


def test_the_chunks_of_openai_are_one_reply_and_the_last_has_the_counts() -> None:
    details = SimpleNamespace(cached_tokens=5, cache_write_tokens=3)
    counts = SimpleNamespace(prompt_tokens=9, completion_tokens=4, prompt_tokens_details=details)
    last = SimpleNamespace(choices=[], usage=counts, service_tier="flex")
    begun: list[int] = []

    def read(*chunks: Any) -> Completion:
        return openai._read_stream(chunks, lambda: begun.append(1))

    usage = Usage(9, 5, 4, 3)
    assert read(chunk("a", choices=2), chunk("b", "length"), chunk(), last) == Completion(
        "ab", usage, FinishReason.LENGTH, service_tier=ServiceTier.FLEX
    )
    assert len(begun) == 4
    assert read(chunk("a"), chunk(None, "stop", "I "), chunk(refusal="won't")) == Completion(
        "I won't", finish=FinishReason.REFUSED
    )
    assert read(chunk("a", "content_filter", service_tier="default")) == Completion("a", finish=FinishReason.BLOCKED)
    for broken in ((), (chunk("a"),), (chunk("a"), last)):
        with pytest.raises(ServiceError, match="the response has no answer in it"):
            read(*broken)


def test_anthropic() -> None:
    provider = AnthropicProvider("anthropic:claude-sonnet-5", "claude-sonnet-5", key=KEY)
    assert (provider.identity, provider.limits) == ({"base_url": None}, anthropic.LIMITS)
    source = {"type": "base64", "media_type": "image/jpeg", "data": "anBlZw=="}
    image = {"type": "image", "source": source}
    marked = [text("t=1.00 s"), image | {"cache_control": {"type": "ephemeral"}}, text("Which?")]
    closed = CLOSED | {"properties": {"n": {"type": "integer"}}}
    assert provider._body(CHOSEN, frozenset(provider.optional)) == {
        "model": "claude-sonnet-5",
        "max_tokens": 99,
        "messages": [{"role": "user", "content": marked}, *REPAIR],
        "extra_body": {
            "thinking": {"type": "adaptive"},
            "output_config": {"format": {"type": "json_schema", "schema": closed}, "effort": "high"},
        },
    }
    content = [text("t=1.00 s"), image, text("Which?"), text(IN_WORDS)]
    assert provider._body(PLAIN, NONE) == {
        "model": "claude-sonnet-5",
        "max_tokens": 32_000,
        "messages": [{"role": "user", "content": content}],
        "extra_body": {},
    }
    for thinking, sent in ((Thinking.DEFAULT, 0.5), (Thinking.NONE, 0.5), (Thinking.LOW, None)):
        call = CompletionRequest(PARTS, SCHEMA, temperature=0.5, thinking=thinking)
        assert provider._body(call, frozenset({"temperature"}))["extra_body"].get("temperature") == sent


@pytest.mark.parametrize(
    ("thinking", "most", "budget"),
    [
        (Thinking.LOW, 32_000, 1024),
        (Thinking.MEDIUM, 32_000, 4096),
        (Thinking.HIGH, 32_000, 12_288),
        (Thinking.HIGH, 8001, 4000),
        (Thinking.HIGH, 2050, 1025),
        (Thinking.HIGH, 9, 1024),
    ],
)
def test_older_models_of_anthropic_think_within_half_their_output(thinking: Thinking, most: int, budget: int) -> None:
    provider = AnthropicProvider("anthropic:claude-haiku-4-5", "claude-haiku-4-5", key=KEY)
    assert provider._thinking(thinking, most) == {"type": "enabled", "budget_tokens": budget}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", FinishReason.STOP),
        (None, FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("refusal", FinishReason.REFUSED),
    ],
)
def test_a_response_of_anthropic(reason: str | None, finish: FinishReason) -> None:
    usage = SimpleNamespace(
        input_tokens=100, cache_read_input_tokens=20, cache_creation_input_tokens=3, output_tokens=7
    )
    blocks = [
        SimpleNamespace(type="thinking"),
        SimpleNamespace(type="text", text="a"),
        SimpleNamespace(type="text", text="b"),
    ]
    response: Any = SimpleNamespace(content=blocks, usage=usage, stop_reason=reason)
    assert anthropic._read(response) == Completion("ab", Usage(123, 20, 7, 3), finish)
    usage.cache_creation_input_tokens = None
    assert anthropic._read(response).usage == Usage(120, 20, 7, None)


IMAGE_OF_GEMINI = {"inline_data": {"data": b"jpeg", "mime_type": "image/jpeg"}}


def sent_to_gemini(provider: GeminiProvider, call: CompletionRequest, features: frozenset[str]) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    reply = types.GenerateContentResponse(candidates=[types.Candidate(content=types.Content(parts=[]))])

    def generate(**sent: Any) -> types.GenerateContentResponse:
        asked.update(sent)
        return reply

    provider._client = SimpleNamespace(models=SimpleNamespace(generate_content=generate))  # type: ignore[assignment]
    assert provider._send(call, features, 20.5).service_tier is call.service_tier
    dump = {"exclude_none": True, "mode": "python"}
    return {
        "model": asked["model"],
        "contents": [content.model_dump(**dump) for content in asked["contents"]],
        "config": asked["config"].model_dump(**dump),
    }


def test_gemini() -> None:
    provider = GeminiProvider("gemini:gemini-3.8-flash", "gemini-3.8-flash", key=KEY)
    high = {"media_resolution": {"level": types.PartMediaResolutionLevel.MEDIA_RESOLUTION_MEDIUM}}
    everything = frozenset(provider.optional) - {"stream"}
    parts = [{"text": "t=1.00 s"}, IMAGE_OF_GEMINI | high, {"text": "Which?"}]
    chosen = sent_to_gemini(provider, CHOSEN, everything)
    assert chosen == {
        "model": "gemini-3.8-flash",
        "contents": [
            {"role": "user", "parts": parts},
            {"role": "model", "parts": [{"text": "no"}]},
            {"role": "user", "parts": [{"text": AGAIN}]},
        ],
        "config": {
            "http_options": {"timeout": 20_500},
            "max_output_tokens": 99,
            "response_mime_type": "application/json",
            "response_json_schema": SCHEMA,
            "temperature": 0.5,
            "seed": 7,
            "thinking_config": {"thinking_level": types.ThinkingLevel.HIGH},
            "service_tier": types.ServiceTier.FLEX,
        },
    }
    bare = [{"text": "t=1.00 s"}, IMAGE_OF_GEMINI, {"text": "Which?"}, {"text": IN_WORDS}]
    plain = sent_to_gemini(provider, PLAIN, NONE)
    assert plain["contents"] == [{"role": "user", "parts": bare}]
    assert plain["config"] == {"http_options": {"timeout": 20_500}}
    one_level = sent_to_gemini(provider, PLAIN, frozenset({"detail"}))["config"]["media_resolution"]
    assert one_level is types.MediaResolution.MEDIA_RESOLUTION_MEDIUM
    assert "media_resolution" not in provider._config(PLAIN, (), frozenset({"detail"}), 1).model_dump(exclude_none=True)
    for seconds, timeout in ((0.0001, 1), (1.5, 1500)):
        options = provider._config(PLAIN, PARTS, NONE, seconds).http_options
        assert options is not None
        assert options.timeout == timeout


@pytest.mark.parametrize(
    ("reason", "said", "finish"),
    [
        ("STOP", "a", FinishReason.STOP),
        ("FINISH_REASON_UNSPECIFIED", "", FinishReason.STOP),
        ("MAX_TOKENS", "a", FinishReason.LENGTH),
        ("CONTINUATION", "a", FinishReason.LENGTH),
        *((reason, said, FinishReason.BLOCKED) for reason in sorted(gemini._BLOCKED) for said in ("", "a")),
        *((reason, said, FinishReason.REFUSED) for reason in sorted(gemini._DECLINED) for said in ("", "a")),
        ("NEWER", "a", FinishReason.STOP),
        ("NEWER", "", FinishReason.BLOCKED),
    ],
)
def test_why_gemini_ended(reason: str, said: str, finish: FinishReason) -> None:
    note = reason if finish in {FinishReason.BLOCKED, FinishReason.REFUSED} else ""
    assert gemini._finish(reason, said) == (finish, note)


def test_a_response_of_gemini() -> None:
    def chunk(*parts: types.Part, finish: str | None = None, thoughts: int | None = None) -> Any:
        counts = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=9,
            cached_content_token_count=5,
            candidates_token_count=3,
            thoughts_token_count=thoughts,
        )
        candidate = types.Candidate(
            content=types.Content(parts=list(parts)), finish_reason=types.FinishReason(finish) if finish else None
        )
        return types.GenerateContentResponse(candidates=[candidate], usage_metadata=counts)

    chunks = [
        chunk(types.Part(text="hm", thought=True), types.Part(text="a")),
        chunk(types.Part(text="b"), finish="MAX_TOKENS", thoughts=4),
        types.GenerateContentResponse(),
    ]
    assert gemini._read(chunks) == Completion("ab", Usage(9, 5, 7), FinishReason.LENGTH)
    assert gemini._read(chunks[:1]) == Completion("a", Usage(9, 5, 3))
    feedback = types.GenerateContentResponsePromptFeedback(block_reason=types.BlockedReason.SAFETY)
    blocked = types.GenerateContentResponse(prompt_feedback=feedback)
    assert gemini._read([blocked]) == Completion("", finish=FinishReason.BLOCKED, note="SAFETY")
    with pytest.raises(ServiceError, match="the response has no answer in it"):
        gemini._read([types.GenerateContentResponse()])


@pytest.mark.parametrize(
    ("code", "message", "details", "headers", "expected"),
    [
        (400, "API key not valid", [], {}, (401, "API key not valid", None)),
        (403, "API key not valid", [], {}, (403, "API key not valid", None)),
        (400, "no", [], {}, (400, "no", None)),
        (429, "no", [{"retryDelay": "7.5s"}], {}, (429, "no", 7.5)),
        (429, "no", [{"retryDelay": "7.5s"}], {"retry-after": "3"}, (429, "no", 3.0)),
        (429, "no", [{"quotaId": "APerDayB"}, {"quotaId": "CPerDay"}], {}, (429, "no APerDayB", None)),
        (429, "", [], {}, (429, "STATUS", None)),
    ],
)
def test_a_failure_of_gemini(
    code: int, message: str, details: list[Any], headers: dict[str, str], expected: tuple[int, str, float | None]
) -> None:
    body = {"error": {"code": code, "message": message, "status": "STATUS", "details": details}}
    error = errors.APIError(code, body, SimpleNamespace(headers=headers))  # type: ignore[arg-type]
    failure = GeminiProvider("gemini:m", "m", key=KEY)._failure(error)
    assert (failure.status, failure.message, failure.retry_after_seconds) == expected
    assert not failure.permanent


@pytest.mark.parametrize(
    ("make", "models"),
    [
        (lambda model: GeminiProvider("", model, key=KEY), {"gemini-2.9": 0.0, "gemini-3": None, "other": None}),
        (lambda model: OpenAIProvider("", model, key=KEY), {"gpt-4o": 0.0, "gpt-10": None, "x/o1": None}),
    ],
)
def test_who_is_asked_at_temperature_0(make: Any, models: dict[str, float | None]) -> None:
    providers: dict[str, Provider] = {model: make(model) for model in models}
    assert {model: provider.default_temperature for model, provider in providers.items()} == models


def test_a_chosen_detail_is_that_of_every_frame() -> None:
    call = CompletionRequest(PARTS, SCHEMA, detail=Detail.LOW)
    body = OpenAIProvider("openai:m", "m", key=KEY)._body(call, frozenset({"detail"}))
    assert body["messages"][0]["content"][1]["image_url"]["detail"] == "low"
