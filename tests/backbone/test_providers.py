"""What is sent to each provider, whole, with every option chosen and with none; and how each response is read."""

import gc
import hashlib
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anthropic as anthropic_sdk
import httpx
import pytest
from google.genai import errors, types
from tests.fakes import (
    GEMINI,
    GOOD,
    OPENAI,
    Dialect,
    Response,
    Server,
    ask_once,
    make_clip,
    make_request,
    quick_backbone,
)

from trace_ves.backbone import ModelFault, open_backbone
from trace_ves.backbone.anthropic import provider as anthropic
from trace_ves.backbone.anthropic.provider import AnthropicProvider
from trace_ves.backbone.gemini import provider as gemini
from trace_ves.backbone.gemini.provider import GeminiProvider
from trace_ves.backbone.model_settings import RequestLimits, ServerKind, ServiceTier, Thinking
from trace_ves.backbone.openai import is_local_network
from trace_ves.backbone.openai import provider as openai
from trace_ves.backbone.openai.provider import OpenAIProvider
from trace_ves.backbone.provider import (
    Completion,
    CompletionRequest,
    FinishReason,
    ImagePart,
    RepairTurn,
    ServiceError,
    TextPart,
)
from trace_ves.backbone.secret import Key
from trace_ves.core import BackboneError
from trace_ves.records import Usage

KEY = Key("X_API_KEY", "k")
NUMBER = {"type": "integer", "minimum": 0}
SCHEMA = {"title": "Größe", "type": "object", "properties": {"n": NUMBER}, "additionalProperties": False}
CLOSED = SCHEMA | {"required": ["n"]}
FREE = {"type": "object", "additionalProperties": {"type": "string"}}  # which no strict mode can express
IN_WORDS = (
    "Answer with one JSON object that matches this JSON schema, and with nothing else:\n"
    '{"title": "Größe", "type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, '
    '"additionalProperties": false}'
)
AGAIN = (
    "That reply cannot be used: it is empty. Say again in full what you saw, in the form that was asked for; the "
    "frames are not repeated."
)
PARTS = (TextPart("t=1.00 s"), ImagePart(b"jpeg", 720, 1280), TextPart("Which?"))
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


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_openai() -> None:
    provider = OpenAIProvider("openai:gpt-5.6-terra", "gpt-5.6-terra", key=KEY)
    assert set(provider.optional) == set(openai._OPTIONAL) - {"max_tokens", "uuid"}
    limits = RequestLimits(500, 52_428_800, 2048)
    assert (provider.may_drop_frames, provider.limits, provider.default_temperature) == (False, limits, None)
    url = {"url": "data:image/jpeg;base64,anBlZw=="}
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    image = {"type": "image_url", "image_url": url | {"detail": "high"}}
    content = [text("t=1.00 s"), image | mark, text("Which?")]
    assert provider._body(CHOSEN, frozenset(provider.optional)) == {
        "model": "gpt-5.6-terra",
        "messages": [{"role": "user", "content": content}, *REPAIR],
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": CLOSED, "strict": True}},
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
    loose = provider._body(CompletionRequest(PARTS, FREE), frozenset({"schema", "strict"}))["response_format"]
    assert loose == {"type": "json_schema", "json_schema": {"name": "reply", "schema": FREE}}
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
    assert sent.get("uuid") == (hashlib.sha256(b"jpeg").hexdigest() if uuid else None)
    assert (provider.prefix_cache.parallel == 1) == (server is ServerKind.LLAMA_CPP)


def test_what_a_server_is_asked_about_itself() -> None:
    provider = OpenAIProvider("openai:m@x", "m", key=KEY, base_url="http://localhost:1/v1/")
    get = lambda url, **how: (url, how)  # noqa: E731
    provider._client = cast(
        "Any", SimpleNamespace(with_options=lambda **chosen: SimpleNamespace(get=partial(get, **chosen)))
    )
    for path, place in (("/v1/models", "/v1/models"), ("/version", "/version")):
        assert provider._fetch(path) == (f"http://localhost:1{place}", {"timeout": 5.0, "cast_to": object})


def test_a_provider_that_is_dropped_closes_its_connections(dialect: Dialect) -> None:
    provider = dialect.provider()
    client: Any = provider._client  # type: ignore[attr-defined]
    is_closed = client._api_client._httpx_client if dialect is GEMINI else client._client
    del provider
    gc.collect()
    assert is_closed.is_closed


def test_what_is_in_the_local_network() -> None:
    local = ("localhost:1", "gpu-box", "gpu.local", "gpu.internal", "gpu.lan", "10.0.0.7", "[::1]:8000")
    assert all(is_local_network(url) for url in ("nonsense", *(f"http://{host}/v1" for host in local)))
    assert not any(is_local_network(url) for url in ("http://8.8.8.8/v1", "https://api.openai.com/v1"))


def failure_of_openai(server: Server, response: Response) -> ServiceError:
    server.respond(response)
    with pytest.raises(ServiceError) as caught:
        OPENAI.provider().complete(PLAIN, features=NONE, timeout_seconds=20)
    return caught.value


@pytest.mark.parametrize(
    ("stated", "status", "message", "permanent"),
    [
        ("busy", 500, "busy", False),
        *(({"message": "no", "code": code}, 500, "no", False) for code in (399, 600, True, None)),
        *(({"message": "no", "code": code}, code, "no", False) for code in (400, 599)),
        ({"message": "no", "code": "rate_limit_exceeded"}, 429, "no", False),
        ({"message": "no", "code": "context_length_exceeded"}, 400, "no", False),
        ({"message": "no", "type": "invalid_request_error"}, 400, "no", False),
        ({"message": "no", "code": "insufficient_quota"}, 500, "no", True),
        ({"message": "no", "code": "billing_hard_limit_reached"}, 500, "no", True),
        ({"message": "no", "metadata": {"raw": "top up"}}, 500, "no top up", False),
        ({"metadata": "odd"}, 500, "", False),
    ],
)
def test_an_error_that_openai_states_with_the_status_200(
    server: Server, stated: object, status: int, message: str, permanent: bool
) -> None:
    failure = failure_of_openai(server, Response(body={"error": stated}))
    assert vars(failure) == vars(ServiceError(status, message, permanent=permanent))


@pytest.mark.parametrize("code", [None, "insufficient_quota"])
def test_errors_are_read_in_the_shapes_that_servers_give_them(server: Server, code: str | None) -> None:
    for body in ({"error": {"message": "no", "code": code}}, {"message": "no", "code": code}):
        failure = failure_of_openai(server, Response(418, body, {"retry-after": "7"}))
        assert vars(failure) == vars(ServiceError(418, "no", retry_after_seconds=7, permanent=code is not None))
    for other in ({"detail": "no"}, b"no"):
        assert failure_of_openai(server, Response(418, other)).message == "no"


def test_a_server_that_refuses_everything_gets_a_plain_request_and_then_its_error_is_said(server: Server) -> None:
    complaint = "uuid, prompt_cache_key, prompt_cache_options, detail, temperature, seed and schema are not known here"
    refusal = Response(status=400, body=OPENAI.error(complaint))
    with pytest.raises(BackboneError, match="HTTP 400"):
        ask_once(OPENAI, server, refusal, request=make_request("Which?", make_clip(0.0, [1])))
    assert len(server.received) == 8
    assert set(server.received[-1].body) == {"model", "messages"}


def test_a_prompt_that_a_filter_refuses_is_the_models_fault_and_not_an_error(server: Server) -> None:
    body = {"error": {"message": "filtered", "code": "content_filter", "type": None, "param": "prompt"}}
    fault = ask_once(OPENAI, server, Response(status=400, body=body)).reply
    assert fault == ModelFault("A filter of the provider blocked the answer (content_filter).")


@pytest.mark.parametrize("stated", [-5, "many", 1e308, 10**30, None, [1]])
def test_counts_of_tokens_that_are_no_counts_are_not_believed(server: Server, stated: object) -> None:
    usage = {"prompt_tokens": stated, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": stated}}
    assert ask_once(OPENAI, server, Response(body=OPENAI.ok(GOOD) | {"usage": usage})).usage == Usage(0, 0, 7)
    uncounted = ask_once(OPENAI, server, Response(body={"choices": [{"message": {"content": GOOD}}]}))
    assert (uncounted.reply.colour, uncounted.usage) == ("red", Usage())


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
    assert (provider.identity, provider.may_drop_frames) == ({"base_url": None}, False)
    older = AnthropicProvider("", "claude-haiku-4-5", key=KEY)
    for each, images in ((provider, 600), (older, 100)):
        assert each.limits == RequestLimits(images, 33_554_432, 2000)
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
    free = provider._body(CompletionRequest(PARTS, FREE), frozenset(provider.optional))
    assert (free["messages"][0]["content"][-1]["text"].endswith(json.dumps(FREE)), free["extra_body"]) == (True, {})
    for thinking, sent in ((Thinking.DEFAULT, 0.5), (Thinking.NONE, 0.5), (Thinking.LOW, None)):
        call = CompletionRequest(PARTS, SCHEMA, temperature=0.5, thinking=thinking)
        assert provider._body(call, frozenset({"temperature"}))["extra_body"].get("temperature") == sent


def test_older_models_of_anthropic_think_within_half_their_output() -> None:
    provider = AnthropicProvider("anthropic:claude-haiku-4-5", "claude-haiku-4-5", key=KEY)
    for thinking, most, budget in (
        (Thinking.LOW, 32_000, 1024),
        (Thinking.MEDIUM, 32_000, 4096),
        *((Thinking.HIGH, most, budget) for most, budget in ((32_000, 12_288), (8001, 4000), (2050, 1025), (9, 1024))),
    ):
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
    counts = {"cache_read_input_tokens": 20, "cache_creation_input_tokens": 3, "output_tokens": 7}
    usage = SimpleNamespace(input_tokens=100, **counts)
    blocks = [SimpleNamespace(type="thinking"), *(SimpleNamespace(type="text", text=text) for text in "ab")]
    response: Any = SimpleNamespace(content=blocks, usage=usage, stop_reason=reason)
    assert anthropic._read(response) == Completion("ab", Usage(123, 20, 7, 3), finish)
    usage.cache_creation_input_tokens = None
    assert anthropic._read(response).usage == Usage(120, 20, 7, None)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (429, {"error": {"message": "slow"}}, (429, "slow", False)),
        (299, {"error": {"type": "overloaded_error", "message": "busy"}}, (529, "busy", False)),
        (200, {"error": {"type": "x", "message": "busy"}}, (400, "busy", False)),
        (200, {"error": "odd"}, (500, "of the SDK", False)),
        (200, "odd", (500, "of the SDK", False)),
        (300, {"error": {"type": "overloaded_error", "message": "moved"}}, (300, "moved", False)),
        (400, {"error": {"message": "no", "details": "billing"}}, (400, "no", True)),
    ],
)
def test_a_failure_of_anthropic(status: int, body: Any, expected: tuple[int, str, bool]) -> None:
    request = httpx.Request("POST", "http://x")
    response = httpx.Response(status, headers={"retry-after": "7"}, request=request)
    error = anthropic_sdk.APIStatusError("of the SDK", response=response, body=body)
    failure = AnthropicProvider("anthropic:m", "m", key=KEY)._failure(error)
    *said, permanent = expected
    assert vars(failure) == vars(ServiceError(*said, retry_after_seconds=7, permanent=permanent))  # type: ignore[arg-type]


def test_gemini(server: Server) -> None:
    provider = GeminiProvider("gemini:gemini-3.8-flash", "gemini-3.8-flash", key=KEY)
    assert (provider.limits, provider.may_drop_frames) == (RequestLimits(3000, 104_857_600, 3072), False)
    server.respond(Response(body=GEMINI.ok(GOOD)))

    def sent(call: CompletionRequest, *features: str) -> dict[str, Any]:
        assert provider._send(call, frozenset(features), 20.5).service_tier is call.service_tier
        assert server.received[-1].path == "/v1beta/models/gemini-3.8-flash:generateContent"
        body = json.dumps(server.received[-1].body)  # which versions of the SDK write in either way
        return dict(json.loads(body.replace("mime_type", "mimeType").replace("thinking_level", "thinkingLevel")))

    image = {"inlineData": {"data": "anBlZw==", "mimeType": "image/jpeg"}}
    level = {"mediaResolution": {"level": "MEDIA_RESOLUTION_MEDIUM"}}
    repair = [{"role": "model", "parts": [{"text": "no"}]}, {"role": "user", "parts": [{"text": AGAIN}]}]
    thinking = {"maxOutputTokens": 99, "thinkingConfig": {"thinkingLevel": "HIGH"}}
    parts = [{"text": "t=1.00 s"}, image | level, {"text": "Which?"}]
    assert sent(CHOSEN, *provider.optional) == {
        "contents": [{"role": "user", "parts": parts}, *repair],
        "generationConfig": {
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
            "temperature": 0.5,
            "seed": 7,
            **thinking,
        },
        "serviceTier": "flex",
    }
    bare = [{"text": "t=1.00 s"}, image, {"text": "Which?"}, {"text": IN_WORDS}]
    first = {"role": "user", "parts": bare}
    assert sent(PLAIN) == {"contents": [first], "generationConfig": {}}
    assert sent(CHOSEN) == {"contents": [first, *repair], "generationConfig": thinking, "serviceTier": "flex"}
    assert sent(PLAIN, "detail")["generationConfig"] == {"mediaResolution": "MEDIA_RESOLUTION_MEDIUM"}
    assert sent(CompletionRequest(PARTS[:1], SCHEMA), "detail")["generationConfig"] == {}
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
            prompt_token_count=9, cached_content_token_count=5, candidates_token_count=3, thoughts_token_count=thoughts
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
    *said, seconds = expected
    assert vars(failure) == vars(ServiceError(*said, retry_after_seconds=seconds))  # type: ignore[arg-type]


def test_a_model_that_knows_one_resolution_for_all_frames_gets_the_closest_that_any_frame_needs(server: Server) -> None:
    refusal = Response(status=400, body=GEMINI.error("Per-part media resolution is not enabled for models/m"))
    server.respond(refusal, Response(body=GEMINI.ok(GOOD)))
    backbone = quick_backbone(GEMINI.provider())
    request = make_request("Which?", make_clip(0.0, [1], height=240), make_clip(5.0, [1], height=480))
    for _ in range(2):
        backbone.generate([request])
    frames = [[part for part in sent.body["contents"][0]["parts"] if "inlineData" in part] for sent in server.received]
    assert ["mediaResolution" in shown[0] for shown in frames] == [True, False, False]
    assert server.received[1].body["generationConfig"]["mediaResolution"] == "MEDIA_RESOLUTION_MEDIUM"


@pytest.mark.filterwarnings("ignore:SOMETHING_NEW")
def test_a_reply_that_ended_for_a_reason_we_do_not_know_is_kept(server: Server) -> None:
    response = Response(body=GEMINI.ok(GOOD, finishReason="SOMETHING_NEW"))
    assert ask_once(GEMINI, server, response).reply.colour == "red"


def test_the_environment_of_the_sdk_cannot_turn_the_key_into_a_project(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    assert ask_once(GEMINI, server, Response(body=GEMINI.ok(GOOD))).reply.colour == "red"


def service_account(folder: Path, token_uri: str) -> Path:
    """Credentials as Google hands them out, but with a token service of our own."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    path = folder / "account.json"
    account = {"type": "service_account", "client_email": "a@b", "token_uri": token_uri, "private_key": pem}
    path.write_text(json.dumps(account | {"project_id": "p"}))
    return path


def test_vertex_asks_with_a_token_of_the_machines_credentials(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account(tmp_path, f"{server.url}/token")))
    monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", server.url)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")

    def respond(received: Any) -> Any:
        token = {"access_token": "ya29.token", "expires_in": 3600, "token_type": "Bearer"}
        return Response(body=token if received.path == "/token" else GEMINI.ok(GOOD))

    server.respond(respond)
    (generation,) = open_backbone("vertex:gemini-x", cache=False).generate([make_request()])
    assert generation.reply.colour == "red"
    asked = server.received[-1]
    address = "/projects/my-project/locations/global/publishers/google/models/gemini-x:generateContent"
    assert asked.path.endswith(address)
    assert asked.headers["authorization"] == "Bearer ya29.token"


def test_vertex_without_credentials_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    provider = GeminiProvider("vertex:m", "m", project="p")
    advice = r"^vertex:m: .*check GOOGLE_APPLICATION_CREDENTIALS and GOOGLE_CLOUD_PROJECT"
    with pytest.raises(BackboneError, match=advice):
        quick_backbone(provider).generate([make_request()])


def test_a_redirect_that_would_send_the_key_to_another_host_is_not_followed() -> None:
    for access in ({"key": KEY}, {"project": "p"}):
        client: Any = GeminiProvider("gemini:m", "m", **access)._client  # type: ignore[arg-type]
        assert client._api_client._http_options.client_args == {"follow_redirects": False}
