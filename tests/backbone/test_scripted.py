"""The test doubles themselves."""

import pytest
from tests.agent.test_budget import ClockVideo
from tests.fake_models import StageModel
from tests.fakes import Sighting, make_request

from trace_ves.agent import VARIANTS
from trace_ves.backbone import ModelFault
from trace_ves.backbone.protocol import ScriptedBackbone
from trace_ves.baselines.avp import Avp
from trace_ves.baselines.vca import Vca
from trace_ves.core import Question
from trace_ves.observer import Observer


def test_a_function_answers() -> None:
    said = {"one": {"colour": "red"}, "two": Sighting(colour="blue"), "three": ModelFault("It would not say.")}
    backbone = ScriptedBackbone(lambda request: said[request.variables["question"]])
    replies = [generation.reply for generation in backbone.generate([make_request(question) for question in said])]
    assert replies == [Sighting(colour="red"), Sighting(colour="blue"), ModelFault("It would not say.")]


@pytest.mark.parametrize("method", [VARIANTS["trace"], Avp(), Vca()])
def test_a_model_without_any_script_answers_every_stage_of_every_method(method: object) -> None:
    observer = Observer(ClockVideo(90), ScriptedBackbone(StageModel()), budget=200)
    method(Question("q", "v.mp4", "Which?", ("red", "blue")), observer)  # type: ignore[operator]  one of three methods
    assert observer.log.calls
    assert not any(call.fault for call in observer.log.calls)
