"""Temperature, thinking, detail and service tier: what each provider is sent, by model and by what a person chose."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import (
    DIALECTS,
    GEMINI,
    GOOD,
    OPENAI,
    Dialect,
    Received,
    Response,
    Server,
    make_clip,
    make_request,
    quick_backbone,
)

from trace_ves.backbone.model_settings import Detail, ModelSettings, ServiceTier, Thinking
from trace_ves.backbone.registry import BackboneOptions
from trace_ves.backbone.remote import RemoteBackbone
from trace_ves.backbone.response_cache import CachedBackbone
from trace_ves.backbone.retry import RetryPolicy
from trace_ves.core import BackboneConfigError, BackboneError
from trace_ves.observer import Observer


def sent(
    dialect: Dialect, server: Server, model: str, response: Response | None = None, **chosen: Any
) -> dict[str, Any]:
    """The body that a model is sent for frames of three heights."""
    clips = [make_clip(start, [1], height=height) for start, height in ((0.0, 360), (5.0, 720), (9.0, 1080))]
    server.respond(response or Response(body=dialect.ok(GOOD)))
    quick_backbone(dialect.provider(model), model=ModelSettings(**chosen)).generate([make_request("Which?", *clips)])
    return server.received[-1].body


@pytest.mark.parametrize(
    ("name", "temperature", "models"),
    [
        ("gemini", None, ["gemini-3", "gemini-3-flash-preview", "gemini-3.5-flash", "gemini-flash-latest"]),
        ("gemini", 0.0, ["gemini-2.9", "gemini-2.0-flash"]),
        ("openai", None, ["gpt-5.4-mini", "gpt-10", "openai/gpt-5.6", "x/o1", "o3"]),
        ("openai", 0.0, ["gpt-4o", "Qwen/Qwen3-VL-8B-Instruct"]),
        ("anthropic", None, ["claude-sonnet-5", "claude-opus-5-5", "claude-opus-4-7"]),
        ("anthropic", 0.0, ["claude-sonnet-4-6", "claude-opus-4-1-20250805", "claude-haiku-4-5"]),
    ],
)
def test_the_default_temperature_follows_the_providers_advice(
    name: str, temperature: float | None, models: list[str]
) -> None:
    for model in models:
        assert DIALECTS[name].provider(model).default_temperature == temperature, model


def test_a_temperature_lies_between_0_and_2_both_included() -> None:
    for inside in (0.0, 2.0):
        assert ModelSettings(temperature=inside).non_defaults == {"temperature": inside}
    for outside in (-0.01, 2.01, float("nan")):
        with pytest.raises(BackboneConfigError, match=rf"must lie between 0 and 2, got {outside:g}\.$"):
            ModelSettings(temperature=outside)


@pytest.mark.parametrize(
    ("name", "model", "thinking", "expected"),
    [
        ("gemini", "gemini-3-flash-preview", "none", {"thinking_level": "MINIMAL"}),
        ("gemini", "gemini-3-flash-preview", "low", {"thinking_level": "LOW"}),
        ("gemini", "gemini-3.1-pro-preview", "high", {"thinking_level": "HIGH"}),
        ("gemini", "gemini-2.5-flash", "none", {"thinking_budget": 0}),
        ("gemini", "gemini-2.5-flash", "medium", {"thinking_budget": 8192}),
        ("openai", "gpt-5.4-mini", "none", "none"),
        ("openai", "gpt-5.4-mini", "high", "high"),
        ("anthropic", "claude-sonnet-5", "none", ({"type": "disabled"}, None)),
        ("anthropic", "claude-sonnet-5-5", "none", ({"type": "between_tools"}, None)),
        ("anthropic", "claude-sonnet-5", "medium", ({"type": "adaptive"}, "medium")),
        ("anthropic", "claude-haiku-4-5", "low", ({"type": "enabled", "budget_tokens": 1024}, None)),
    ],
)
def test_thinking_is_sent_in_the_providers_own_words_and_not_at_all_by_default(
    server: Server, name: str, model: str, thinking: str, expected: Any
) -> None:
    dialect = DIALECTS[name]
    read = {
        "gemini": lambda body: body["generationConfig"].get("thinkingConfig"),  # the SDK writes its fields so
        "openai": lambda body: body.get("reasoning_effort"),
        "anthropic": lambda body: (body.get("thinking"), body.get("output_config", {}).get("effort")),
    }[name]
    assert read(sent(dialect, server, model, thinking=Thinking(thinking))) == expected
    assert read(sent(dialect, server, model)) in (None, (None, None))


@pytest.mark.parametrize(
    ("chosen", "local", "standard", "flex"),
    [
        ({}, False, (180, 600), (900, 2700)),
        ({}, True, (600, 1800), (900, 2700)),
        ({"model": ModelSettings(thinking=Thinking.HIGH)}, False, (600, 1800), (900, 2700)),
        ({"timeout_seconds": 30}, True, (30, 600), (900, 2700)),
        ({"timeout_seconds": 1200}, False, (1200, 3600), (1200, 3600)),
    ],
)
def test_slow_models_get_more_time(
    chosen: dict[str, Any], local: bool, standard: tuple[float, float], flex: tuple[float, float]
) -> None:
    retry = RetryPolicy.of(BackboneOptions(**chosen), is_local=local)
    policies = [(each.attempt_seconds, each.deadline_seconds) for each in (retry, retry.for_flex)]
    assert policies == [standard, flex]


def test_the_detail_of_frames_follows_from_their_height_and_can_be_chosen(server: Server) -> None:
    def openai(**chosen: Any) -> list[str]:
        parts = sent(OPENAI, server, "m", **chosen)["messages"][0]["content"]
        return [part["image_url"]["detail"] for part in parts if part["type"] == "image_url"]

    def gemini(**chosen: Any) -> list[str]:
        parts = sent(GEMINI, server, "m", **chosen)["contents"][0]["parts"]
        return [part["mediaResolution"]["level"] for part in parts if "inlineData" in part]

    assert (openai(), openai(detail=Detail.HIGH)) == (["low", "high", "high"], ["high"] * 3)
    assert gemini() == [f"MEDIA_RESOLUTION_{level}" for level in ("LOW", "MEDIUM", "HIGH")]
    assert gemini(detail=Detail.MEDIUM) == ["MEDIA_RESOLUTION_MEDIUM"] * 3
    assert server.received[-1].path == "/v1beta/models/m:generateContent"


@pytest.mark.parametrize(
    ("chosen", "refusal"),
    [
        ({"temperature": 0.3}, "temperature is not supported with this model"),
        ({"detail": Detail.LOW}, "media_resolution and detail are not supported"),
        ({"thinking": Thinking.NONE}, "thinking and reasoning_effort cannot be turned off"),
    ],
)
def test_a_setting_that_a_person_chose_is_never_dropped_in_silence(
    dialect: Dialect, server: Server, chosen: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(BackboneError, match=f"HTTP 400.*{refusal}"):
        sent(dialect, server, "m", Response(status=400, body=dialect.error(refusal)), **chosen)


def test_what_a_person_chose_is_part_of_the_cache_key(dialect: Dialect) -> None:
    settings = [
        quick_backbone(dialect.provider(), model=ModelSettings(**model)).answer_settings
        for model in ({}, {"temperature": 0.3}, {"thinking": Thinking.LOW}, {"detail": Detail.LOW})
    ]
    assert len({json.dumps(each, sort_keys=True) for each in settings}) == 4
    assert set(settings[0]) == {"temperature", *dialect.provider().identity}  # as before there were such settings
    assert backbone(dialect, ServiceTier.FLEX).answer_settings == settings[0]


def test_thinking_none_is_the_least_that_the_model_has(
    dialect: Dialect, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = dialect.error("Unsupported value: thinking 'none' is not supported with this model.")
    server.respond(Response(400, refusal), Response(body=dialect.ok(GOOD)))
    quick_backbone(dialect.provider(), model=ModelSettings(thinking=Thinking.NONE)).generate([make_request()])
    assert "low" in json.dumps(server.received[-1].body).lower()
    assert "the model cannot turn thinking off (HTTP 400: Unsupported value" in caplog.text


@pytest.mark.usefixtures("server")
def test_frames_are_no_larger_than_the_provider_takes_them() -> None:
    class Film:
        duration = 9.0

        def frames_at(self, seconds: Any, *, height: int | None = None) -> Any:
            return tuple(make_clip(0.0, [1], height=height or 1).frames)  # 64 pixels wide

    for name, height in (("anthropic", 2000), ("openai", 4000), ("gemini", 3072)):
        backbone = CachedBackbone(quick_backbone(DIALECTS[name].provider("m")), Path("none"))
        (frame,) = Observer(Film(), backbone).frames_at([1.0], height=4000)
        assert frame.picture.height == height  # a server of the user's own has no limit


flex_dialects = pytest.mark.parametrize("dialect", [GEMINI, OPENAI], ids=["gemini", "openai"])


def tier_of(body: dict[str, Any]) -> str | None:
    """The tier that a request asks for, where either API has it."""
    found: str | None = body.get("service_tier") or body.get("serviceTier")
    return found.lower() if found else None


def backbone(dialect: Dialect, tier: ServiceTier) -> RemoteBackbone:
    return quick_backbone(dialect.provider(), service_tier=tier)


def answered(dialect: Dialect, tier: str | None) -> Response:
    return Response(body=dialect.ok(GOOD) | ({"service_tier": tier} if dialect.name == "openai" and tier else {}))


def without_flex(dialect: Dialect, refusal: Response) -> Callable[[Received], Response]:
    return lambda received: refusal if tier_of(received.body) == "flex" else answered(dialect, None)


@flex_dialects
def test_the_tier_is_sent_recorded_and_not_sent_by_default(dialect: Dialect, server: Server) -> None:
    by_default = None if dialect.name == "openai" else "flex"  # OpenAI says which tier answered
    flex, standard = ServiceTier.FLEX, ServiceTier.STANDARD
    for tier, said, recorded in ((flex, "flex", "flex"), (standard, None, None), (flex, "default", by_default)):
        server.respond(answered(dialect, said))
        assert backbone(dialect, tier).generate([make_request()])[0].service_tier == recorded
    assert [tier_of(received.body) for received in server.received] == ["flex", None, "flex"]


@flex_dialects
@pytest.mark.parametrize("status", [429, 503])
def test_where_the_cheaper_tier_has_no_room_the_standard_one_answers(
    dialect: Dialect, server: Server, status: int
) -> None:
    server.respond(without_flex(dialect, Response(status, dialect.error("resource unavailable"))))
    (generation,) = backbone(dialect, ServiceTier.FLEX).generate([make_request()])
    assert (generation.reply.colour, generation.service_tier) == ("red", None)
    assert [tier_of(received.body) for received in server.received] == ["flex", "flex", "flex", None]


@flex_dialects
def test_a_tier_that_the_service_refuses_is_left_for_good_and_said_once(
    dialect: Dialect, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.respond(without_flex(dialect, Response(400, dialect.error("Invalid service_tier argument: flex"))))
    asked = backbone(dialect, ServiceTier.FLEX)
    for _ in range(2):
        asked.generate([make_request()])
    assert [tier_of(received.body) for received in server.received] == ["flex", None, None]
    assert caplog.messages == [f"{dialect.name}:m: the service refuses the tier flex; the standard tier is used."]
