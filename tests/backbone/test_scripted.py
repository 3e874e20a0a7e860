"""The test double itself."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from trace_ves.backbone import ModelFault
from trace_ves.backbone.scripted import ScriptedBackbone


def test_a_function_answers(kit: Any) -> None:
    said = {"one": {"colour": "red"}, "two": kit.Sighting(colour="blue"), "three": ModelFault("It would not say.")}
    backbone = ScriptedBackbone(lambda request: said[request.variables["question"]])
    replies = [generation.reply for generation in backbone.generate([kit.ask(question) for question in said])]
    assert replies == [kit.Sighting(colour="red"), kit.Sighting(colour="blue"), ModelFault("It would not say.")]


def test_a_script_that_answers_in_the_wrong_shape_is_a_mistake_of_the_test(kit: Any) -> None:
    with pytest.raises(ValidationError):
        ScriptedBackbone(lambda _: {"color": "red"}).generate([kit.ask()])
