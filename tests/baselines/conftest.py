"""An observer of two minutes whose model is a dictionary of stages."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import ValidationError
from tests.agent.test_budget import ClockVideo
from tests.fake_models import StageModel

from trace_ves.backbone.protocol import ModelFault, Request, ScriptedBackbone
from trace_ves.observer import UNLIMITED, Observer


class Script(StageModel):
    """A model whose replies that do not validate are faults, as after a repair in vain."""

    def __call__(self, request: Request[Any]) -> Any:
        try:
            return request.reply.model_validate(super().__call__(request))
        except ValidationError as error:
            return ModelFault(f"the reply does not validate: {error.error_count()} errors")


@pytest.fixture
def watching() -> Callable[..., tuple[Observer, Script]]:
    """An observer of a video with ten frames a second whose model says what is scripted."""

    def make(replies: Mapping[str, Any], budget: int = UNLIMITED) -> tuple[Observer, Script]:
        script = Script(replies)
        return Observer(ClockVideo(120), ScriptedBackbone(script), budget=budget), script

    return make
