"""What is particular to Anthropic's API."""

import json
from typing import Any

from pydantic import BaseModel
from tests.fakes import ANTHROPIC, GOOD, Response, Server, ask_once, make_clip, make_request, quick_backbone

from trace_ves.backbone.model_settings import ModelSettings, ReplyFormat


def marks(body: dict[str, Any]) -> list[int]:
    """Which pictures, counted from 0, end a beginning that is to be kept."""
    pictures = [block for block in body["messages"][0]["content"] if block["type"] == "image"]
    return [place for place, block in enumerate(pictures) if "cache_control" in block]


def test_only_what_the_schema_in_words_lets_others_share_is_marked(server: Server) -> None:
    server.respond(Response(body=ANTHROPIC.ok(GOOD)))
    for reply_format in ReplyFormat:
        backbone = quick_backbone(ANTHROPIC.provider(), model=ModelSettings(reply_format=reply_format))
        for count in (1, 2, 6):
            backbone.generate([make_request("Which?", *(make_clip(i * 10.0, [1, 2]) for i in range(count)))])
    assert [marks(received.body) for received in server.received] == [[], [], [], [], [1, 3], [5, 7, 9, 11]]


def test_a_reply_that_no_strict_schema_can_express_is_asked_for_in_words(server: Server) -> None:
    class Facts(BaseModel):
        facts: dict[str, str]

    response = Response(body=ANTHROPIC.ok('Here it is:\n```json\n{"facts": {"a": "b"}}\n```'))
    generation = ask_once(ANTHROPIC, server, response, request=make_request(reply=Facts))
    assert generation.reply.facts == {"a": "b"}
    body = server.received[0].body
    assert "output_config" not in body
    assert json.dumps(Facts.model_json_schema()) in body["messages"][0]["content"][-1]["text"]
