"""Temperature, thinking, detail, seeds and limits: what each provider is sent, by model and by what a person chose."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import (
    DIALECTS,
    GEMINI,
    GOOD,
    OPENAI,
    Dialect,
    Response,
    ScriptedProvider,
    Server,
    make_clip,
    make_request,
    quick_backbone,
)

from trace_ves.backbone import Prompt
from trace_ves.backbone.model_settings import Detail, ModelSettings, RequestLimits, Thinking
from trace_ves.backbone.provider import sampling_seed
from trace_ves.backbone.registry import BackboneOptions
from trace_ves.backbone.response_cache import CachedBackbone
from trace_ves.backbone.retry import RetryPolicy
from trace_ves.core import BackboneConfigError, BackboneError
from trace_ves.observer import Observer


def sent(dialect: Dialect, server: Server, model: str, *requests: Any, **chosen: Any) -> list[dict[str, Any]]:
    """The bodies that a model is sent for these requests, one after the other."""
    server.received.clear()
    server.respond(Response(body=dialect.ok(GOOD)))
    backbone = quick_backbone(dialect.provider(model), model=ModelSettings(**chosen))
    for request in requests or (make_request(),):
        backbone.generate([request])
    return [received.body for received in server.received]


@pytest.mark.parametrize(
    ("name", "temperature", "models"),
    [
        ("gemini", None, ["gemini-3-flash-preview", "gemini-3.5-flash", "gemini-flash-latest"]),
        ("gemini", 0.0, ["gemini-2.5-flash", "gemini-2.0-flash"]),
        ("openai", None, ["gpt-5.4-mini", "openai/gpt-5.6", "o3"]),
        ("openai", 0.0, ["gpt-4o", "Qwen/Qwen3-VL-8B-Instruct"]),
        ("anthropic", None, ["claude-sonnet-5", "claude-opus-5-5", "claude-opus-4-7"]),
        ("anthropic", 0.0, ["claude-sonnet-4-6", "claude-opus-4-1-20250805", "claude-haiku-4-5"]),
    ],
)
def test_the_default_temperature_follows_the_providers_advice(
    server: Server, name: str, temperature: float | None, models: list[str]
) -> None:
    dialect = DIALECTS[name]
    for model in models:
        assert dialect.provider(model).default_temperature == temperature
    for chosen, expected in (({}, temperature), ({"temperature": 0.4}, 0.4)):
        (body,) = sent(dialect, server, models[0], **chosen)
        assert dialect.temperature(body) == expected


def test_a_temperature_lies_between_0_and_2_both_included() -> None:
    for inside in (0.0, 2.0):
        assert ModelSettings(temperature=inside).chosen == {"temperature": inside}
    for outside in (-0.01, 2.01, float("nan")):
        with pytest.raises(BackboneConfigError, match=rf"must lie between 0 and 2, got {outside:g}\.$"):
            ModelSettings(temperature=outside)


def test_a_repeated_draw_is_sampled_where_the_temperature_is_0(server: Server) -> None:
    first, again = sent(OPENAI, server, "gpt-4o", make_request(), make_request(sample=3))
    assert (OPENAI.temperature(first), OPENAI.temperature(again)) == (0.0, 0.7)
    assert "seed" not in first
    assert again["seed"] == sampling_seed(make_request(sample=3))
    (warm,) = sent(OPENAI, server, "gpt-4o", make_request(sample=3), temperature=0.4)
    assert OPENAI.temperature(warm) == 0.4


def test_a_model_that_samples_by_itself_gets_a_seed_for_every_draw(server: Server) -> None:
    bodies = sent(GEMINI, server, "gemini-3-flash-preview", make_request(), make_request(sample=1))
    seeds = [body["generationConfig"]["seed"] for body in bodies]
    assert seeds == [sampling_seed(make_request()), sampling_seed(make_request(sample=1))]


def test_seeds_come_from_the_whole_request_and_not_from_the_number_of_the_draw() -> None:
    clip = make_clip(3.0, [1, 2])
    request = make_request("Which?", clip, sample=1)
    different = [
        make_request("Which one?", clip, sample=1),
        make_request("Which?", clip, sample=2),
        make_request("Which?", make_clip(3.0, [1, 9]), sample=1),
        make_request("Which?", make_clip(4.0, [1, 2]), sample=1),
        make_request("Which?", sample=1),
        replace(request, prompt=Prompt("other", request.prompt.text)),
    ]
    seeds = [sampling_seed(other) for other in [request, *different]]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert sampling_seed(make_request("Which?", make_clip(3.0, [1, 2]), sample=1)) == seeds[0]


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
    (body,) = sent(dialect, server, model, thinking=Thinking(thinking))
    assert read(body) == expected
    assert dialect.schema(body) is not None  # the schema is still asked for
    (default,) = sent(dialect, server, model)
    assert read(default) in (None, (None, None))


def test_the_limit_on_the_output_is_sent_in_the_providers_own_words(dialect: Dialect, server: Server) -> None:
    def limit(body: dict[str, Any]) -> Any:
        return body.get("max_tokens", body.get("generationConfig", {}).get("maxOutputTokens"))

    (default,) = sent(dialect, server, "claude-haiku-4-5")
    assert limit(default) == (32_000 if dialect.name == "anthropic" else None)
    (chosen,) = sent(dialect, server, "claude-haiku-4-5", max_output_tokens=4000, thinking=Thinking.HIGH)
    assert limit(chosen) == 4000
    assert chosen.get("thinking", {}).get("budget_tokens", 2000) == 2000
    assert dialect.name != "anthropic" or "temperature" not in chosen  # it takes none beside a budget


def test_newer_models_know_the_limit_by_another_name(server: Server) -> None:
    refusal = Response(status=400, body=OPENAI.error("'max_tokens' is not supported with this model."))
    server.respond(refusal, Response(body=OPENAI.ok(GOOD)))
    quick_backbone(OPENAI.provider(), model=ModelSettings(max_output_tokens=9)).generate([make_request()])
    assert server.received[-1].body["max_completion_tokens"] == 9


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


def test_the_detail_of_frames_can_be_chosen(server: Server) -> None:
    request = make_request("Which?", make_clip(0.0, [1], height=100), make_clip(5.0, [1], height=1080))

    def openai(**chosen: Any) -> list[str]:
        (body,) = sent(OPENAI, server, "m", request, **chosen)
        parts = body["messages"][0]["content"]
        return [part["image_url"]["detail"] for part in parts if part["type"] == "image_url"]

    def gemini(**chosen: Any) -> list[str]:
        (body,) = sent(GEMINI, server, "m", request, **chosen)
        parts = body["contents"][0]["parts"]
        return [part["mediaResolution"]["level"] for part in parts if "inlineData" in part]

    assert openai() == ["low", "high"]
    assert openai(detail=Detail.HIGH) == ["high", "high"]
    assert gemini() == ["MEDIA_RESOLUTION_LOW", "MEDIA_RESOLUTION_HIGH"]
    assert gemini(detail=Detail.MEDIUM) == ["MEDIA_RESOLUTION_MEDIUM"] * 2


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
    server.respond(Response(status=400, body=dialect.error(refusal)))
    with pytest.raises(BackboneError, match=f"HTTP 400.*{refusal}"):
        quick_backbone(dialect.provider(), model=ModelSettings(**chosen)).generate(
            [make_request("Which?", make_clip(0.0, [1]))]
        )


def test_what_a_person_chose_is_part_of_the_cache_key(dialect: Dialect) -> None:
    settings = [
        quick_backbone(dialect.provider(), model=ModelSettings(**model)).answer_settings
        for model in ({}, {"temperature": 0.3}, {"thinking": Thinking.LOW}, {"detail": Detail.LOW})
    ]
    assert len({json.dumps(each, sort_keys=True) for each in settings}) == 4
    assert set(settings[0]) == {"temperature", *dialect.provider().identity}  # as before there were such settings


def test_a_request_above_the_providers_limits_is_refused_before_it_is_sent() -> None:
    provider = ScriptedProvider()
    provider.limits = RequestLimits(images=2, payload_bytes=2 * 2**20)
    backbone = quick_backbone(provider)
    with pytest.raises(BackboneError, match=r"^scripted:m: the request has 3 frames, and the provider accepts 2 in"):
        backbone.generate([make_request("Which?", make_clip(0.0, [1, 2, 3]))])
    with pytest.raises(BackboneError, match=r"^scripted:m: the request has 3\.8 MiB, and the provider accepts 2 MiB"):
        backbone.generate([make_request("x" * 4_000_000)])
    assert provider.calls == 0


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


@pytest.mark.usefixtures("server")
def test_the_limits_that_providers_state() -> None:
    for model, images in (("claude-haiku-4-5", 100), ("claude-sonnet-5", 600)):
        assert DIALECTS["anthropic"].provider(model).limits.images == images
    assert GEMINI.provider("gemini-3-flash-preview").limits.images == 3000
    assert OPENAI.provider("m").limits.images is None  # a server of one's own
