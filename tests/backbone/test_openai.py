"""What is particular to OpenAI's API and to the many servers that resemble it."""

import hashlib
from typing import Any

import pytest
from pydantic import BaseModel
from tests.fakes import GOOD, OPENAI, Response, Server, Still, ask_once, make_clip, make_request

from trace_ves.backbone import ModelFault
from trace_ves.backbone.openai.provider import OpenAIProvider
from trace_ves.backbone.provider import CompletionRequest, ServiceError
from trace_ves.backbone.secret import Key
from trace_ves.core import BackboneError


def images(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in body["messages"][0]["content"] if part["type"] == "image_url"]


def test_a_tall_frame_is_looked_at_closely_and_every_frame_has_a_stable_name(server: Server) -> None:
    clips = make_clip(0.0, [1], height=360), make_clip(5.0, [1], height=720)
    ask_once(OPENAI, server, Response(body=OPENAI.ok(GOOD)), request=make_request("Which?", *clips))
    sent = images(server.received[0].body)
    assert [part["image_url"]["detail"] for part in sent] == ["low", "high"]
    assert [part["uuid"] for part in sent] == [
        hashlib.sha256(Still(1, height).jpeg()).hexdigest() for height in (360, 720)
    ]


def test_a_server_that_refuses_everything_gets_a_plain_request_and_then_its_error_is_said(server: Server) -> None:
    complaint = "uuid, prompt_cache_key, prompt_cache_options, detail, temperature, seed and schema are not known here"
    refusal = Response(status=400, body=OPENAI.error(complaint))
    with pytest.raises(BackboneError, match="HTTP 400"):
        ask_once(OPENAI, server, refusal, request=make_request("Which?", make_clip(0.0, [1])))
    assert len(server.received) == 8
    assert set(server.received[-1].body) == {"model", "messages"}


def test_openai_and_other_services_get_a_strict_schema_and_no_uuid() -> None:
    class Strict(BaseModel):
        colour: str = "red"

    class Free(BaseModel):
        facts: dict[str, str]

    for url in (None, "https://openrouter.ai/api/v1", "https://x.openai.azure.com/openai/v1"):
        provider = OpenAIProvider("openai:m", "m", key=Key("OPENAI_API_KEY", "k"), base_url=url)
        assert "uuid" not in provider.optional
        assert "strict" in provider.optional

    def schema(reply: type[BaseModel]) -> Any:
        call = CompletionRequest((), reply.model_json_schema())
        return provider._body(call, frozenset({"schema", "strict"}))["response_format"]["json_schema"]

    assert schema(Strict) == {
        "name": "reply",
        "strict": True,
        "schema": {
            "title": "Strict",
            "type": "object",
            "properties": {"colour": {"title": "Colour", "type": "string"}},
            "required": ["colour"],
            "additionalProperties": False,
        },
    }
    assert schema(Free) == {"name": "reply", "schema": Free.model_json_schema()}


def test_a_prompt_that_a_filter_refuses_is_the_models_fault_and_not_an_error(server: Server) -> None:
    body = {"error": {"message": "filtered", "code": "content_filter", "type": None, "param": "prompt"}}
    fault = ask_once(OPENAI, server, Response(status=400, body=body)).reply
    assert fault == ModelFault("A filter of the provider blocked the answer (content_filter).")


@pytest.mark.parametrize("body", [{"detail": "no such thing"}, {"message": "no such thing"}, b"no such thing"])
def test_errors_are_read_in_the_shapes_that_servers_give_them(server: Server, body: Any) -> None:
    with pytest.raises(BackboneError, match=r"HTTP 418\): .*no such thing"):
        ask_once(OPENAI, server, Response(status=418, body=body))


@pytest.mark.parametrize(
    ("code", "status"), [(399, 500), (400, 400), (599, 599), (600, 500), ("rate_limit_exceeded", 429), (None, 500)]
)
def test_an_error_that_is_stated_with_the_status_200_has_the_status_of_its_code(
    server: Server, code: object, status: int
) -> None:
    server.respond(Response(body={"error": {"code": code, "message": "no"}}))
    with pytest.raises(ServiceError) as caught:
        OPENAI.provider().complete(CompletionRequest((), {}), features=frozenset(), timeout_seconds=20)
    assert caught.value.status == status


def test_a_server_that_counts_nothing_is_understood(server: Server) -> None:
    generation = ask_once(OPENAI, server, Response(body={"choices": [{"message": {"content": GOOD}}]}))
    assert generation.reply.colour == "red"
    assert generation.usage.input_tokens == 0


@pytest.mark.parametrize("stated", [-5, "many", 1e308, 10**30, None, [1]])
def test_counts_of_tokens_that_are_no_counts_are_not_believed(server: Server, stated: object) -> None:
    usage = {"prompt_tokens": stated, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": stated}}
    counted = ask_once(OPENAI, server, Response(body=OPENAI.ok(GOOD) | {"usage": usage})).usage
    assert (counted.input_tokens, counted.cached_tokens, counted.output_tokens) == (0, 0, 7)
