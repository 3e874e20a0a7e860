"""The test doubles themselves."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import pytest
from pydantic import BaseModel, Field, ValidationError
from tests.agent.test_budget import ClockVideo
from tests.fake_models import StageModel, default_reply
from tests.fakes import Sighting, make_request

from trace_ves.agent import VARIANTS
from trace_ves.backbone import ModelFault
from trace_ves.backbone.protocol import ScriptedBackbone
from trace_ves.backbone.replies import answer_reply
from trace_ves.baselines.avp import Avp
from trace_ves.baselines.vca import Vca
from trace_ves.core import Question
from trace_ves.observer import Observer


def test_a_function_answers() -> None:
    said = {"one": {"colour": "red"}, "two": Sighting(colour="blue"), "three": ModelFault("It would not say.")}
    backbone = ScriptedBackbone(lambda request: said[request.variables["question"]])
    replies = [generation.reply for generation in backbone.generate([make_request(question) for question in said])]
    assert replies == [Sighting(colour="red"), Sighting(colour="blue"), ModelFault("It would not say.")]


def test_a_script_that_answers_in_the_wrong_shape_is_a_mistake_of_the_test() -> None:
    with pytest.raises(ValidationError):
        ScriptedBackbone(lambda _: {"color": "red"}).generate([make_request()])


QUESTION = Question("q", "v.mp4", "Which?", ("red", "blue"))


class Kind(StrEnum):
    ONE = "one"
    TWO = "two"


class Part(BaseModel):
    kind: Kind
    size: int = Field(gt=3)


class Nested(BaseModel):
    parts: list[Part] = Field(min_length=2)
    choice: Literal["x", "y"]
    note: str = Field(min_length=4)
    share: float = Field(ge=0.5)
    maybe: Part | None


@pytest.mark.parametrize("reply", [Nested, Sighting, answer_reply(QUESTION), answer_reply(QUESTION, forced=True)])
def test_a_default_reply_is_valid(reply: type[BaseModel]) -> None:
    assert isinstance(default_reply(reply), reply)


@pytest.mark.parametrize("method", [VARIANTS["trace"], Avp(), Vca()])
def test_a_model_without_any_script_answers_every_stage_of_every_method(method: object) -> None:
    observer = Observer(ClockVideo(90), ScriptedBackbone(StageModel()), budget=200)
    method(QUESTION, observer)  # type: ignore[operator]  one of three methods
    assert observer.log.calls
    assert not any(call.fault for call in observer.log.calls)
