"""What is particular to Anthropic's API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel
from tests.fakes import Response, make_clip, make_request, quick_backbone

from trace_ves.backbone.model_settings import ModelSettings, ReplyFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes import Dialect, Server

GOOD = json.dumps({"colour": "red"})


@pytest.fixture
def dialect(named_dialect: Callable[[str], Dialect]) -> Dialect:
    return named_dialect("anthropic")


def marks(body: dict[str, Any]) -> list[int]:
    """Which pictures, counted from 0, end a beginning that is to be kept."""
    pictures = [block for block in body["messages"][0]["content"] if block["type"] == "image"]
    return [place for place, block in enumerate(pictures) if "cache_control" in block]


def test_only_what_the_schema_in_words_lets_others_share_is_marked(dialect: Dialect, server: Server) -> None:
    server.respond(Response(body=dialect.ok(GOOD)))
    for reply_format in ReplyFormat:
        backbone = quick_backbone(dialect.provider(), model=ModelSettings(reply_format=reply_format))
        for count in (1, 2, 6):
            backbone.generate([make_request("Which?", *(make_clip(i * 10.0, [1, 2]) for i in range(count)))])
    assert [marks(received.body) for received in server.received] == [[], [], [], [], [1, 3], [5, 7, 9, 11]]


def test_a_reply_that_no_strict_schema_can_express_is_asked_for_in_words(dialect: Dialect, server: Server) -> None:
    class Facts(BaseModel):
        facts: dict[str, str]

    server.respond(Response(body=dialect.ok('Here it is:\n```json\n{"facts": {"a": "b"}}\n```')))
    (generation,) = quick_backbone(dialect.provider()).generate([make_request(reply=Facts)])
    assert generation.reply.facts == {"a": "b"}
    body = server.received[0].body
    assert "output_config" not in body
    assert json.dumps(Facts.model_json_schema()) in body["messages"][0]["content"][-1]["text"]
