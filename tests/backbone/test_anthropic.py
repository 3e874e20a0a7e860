"""What is particular to Anthropic's API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

GOOD = json.dumps({"colour": "red"})


@pytest.fixture
def dialect(named_dialect: Any) -> Any:
    return named_dialect("anthropic")


def marks(body: dict[str, Any]) -> list[int]:
    """Which pictures, counted from 0, end a prefix that is worth caching."""
    pictures = [block for block in body["messages"][0]["content"] if block["type"] == "image"]
    return [place for place, block in enumerate(pictures) if "cache_control" in block]


def test_the_last_four_clips_of_a_bundle_are_marked_for_the_cache_and_a_single_clip_is_not(
    dialect: Any, server: Any, kit: Any
) -> None:
    server.respond(kit.Response(body=dialect.ok(GOOD)))
    backbone = kit.quick(dialect.provider())
    for count in (1, 2, 6):
        backbone.generate([kit.ask("Which?", *(kit.clip(i * 10.0, [1, 2]) for i in range(count)))])
    assert [marks(received.body) for received in server.received] == [[], [1, 3], [5, 7, 9, 11]]


def test_a_reply_that_no_strict_schema_can_express_is_asked_for_in_words(dialect: Any, server: Any, kit: Any) -> None:
    class Facts(BaseModel):
        facts: dict[str, str]

    server.respond(kit.Response(body=dialect.ok('Here it is:\n```json\n{"facts": {"a": "b"}}\n```')))
    (generation,) = kit.quick(dialect.provider()).generate([kit.ask(reply=Facts)])
    assert generation.reply.facts == {"a": "b"}
    body = server.received[0].body
    assert "output_config" not in body
    assert json.dumps(Facts.model_json_schema()) in body["messages"][0]["content"][-1]["text"]


@pytest.mark.parametrize(
    ("feature", "refusal"),
    [
        ("temperature", "`temperature` is deprecated for this model."),
        ("output_config", "output_config: Extra inputs are not permitted"),
    ],
)
def test_what_a_model_does_not_take_is_left_out_from_then_on(
    dialect: Any, server: Any, kit: Any, feature: str, refusal: str
) -> None:
    def respond(received: Any) -> Any:
        if feature in received.body:
            return kit.Response(status=400, body=dialect.error(refusal))
        return kit.Response(body=dialect.ok(GOOD))

    server.respond(respond)
    backbone = kit.quick(dialect.provider())
    for _ in range(2):
        assert backbone.generate([kit.ask()])[0].reply.colour == "red"
    assert [feature in received.body for received in server.received] == [True, False, False]
