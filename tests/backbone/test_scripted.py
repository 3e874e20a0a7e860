"""The test double itself."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from tests.fakes import Sighting, make_request

from trace_ves.backbone import ModelFault
from trace_ves.backbone.protocol import ScriptedBackbone


def test_a_function_answers() -> None:
    said = {"one": {"colour": "red"}, "two": Sighting(colour="blue"), "three": ModelFault("It would not say.")}
    backbone = ScriptedBackbone(lambda request: said[request.variables["question"]])
    replies = [generation.reply for generation in backbone.generate([make_request(question) for question in said])]
    assert replies == [Sighting(colour="red"), Sighting(colour="blue"), ModelFault("It would not say.")]


def test_a_script_that_answers_in_the_wrong_shape_is_a_mistake_of_the_test() -> None:
    with pytest.raises(ValidationError):
        ScriptedBackbone(lambda _: {"color": "red"}).generate([make_request()])
