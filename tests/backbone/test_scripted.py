"""A backbone that is a function."""

from __future__ import annotations

from tests.fakes import Sighting, make_request

from trace_ves.backbone import ModelFault
from trace_ves.backbone.protocol import ScriptedBackbone


def test_a_function_answers() -> None:
    said = {"one": {"colour": "red"}, "two": Sighting(colour="blue"), "three": ModelFault("It would not say.")}
    backbone = ScriptedBackbone(lambda request: said[request.variables["question"]])
    replies = [generation.reply for generation in backbone.generate([make_request(question) for question in said])]
    assert replies == [Sighting(colour="red"), Sighting(colour="blue"), ModelFault("It would not say.")]
