"""A real little video, and an observer whose model is a dictionary of stages."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.fake_models import StageModel
from tests.films import write_film

from trace_ves.backbone.protocol import ModelFault, Request, ScriptedBackbone
from trace_ves.observer import UNLIMITED, Observer

FPS = 10
DURATION = 120


@pytest.fixture(scope="session")
def video_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes at ten frames a second; the brightness of a frame tells its second."""
    shades = (number // FPS for number in range(FPS * DURATION))
    return write_film(tmp_path_factory.mktemp("videos") / "grey.mp4", shades, fps=FPS)


class Script(StageModel):
    """A model whose replies that do not validate are faults, as after a repair in vain."""

    def __call__(self, request: Request[Any]) -> Any:
        try:
            return request.reply.model_validate(super().__call__(request))
        except ValidationError as error:
            return ModelFault(f"the reply does not validate: {error.error_count()} errors")


@pytest.fixture
def watching(video_path: Path) -> Callable[..., tuple[Observer, Script]]:
    """An observer of the little video whose model says what is scripted."""
    from trace_ves import video

    def make(replies: Mapping[str, Any], budget: int = UNLIMITED) -> tuple[Observer, Script]:
        script = Script(replies)
        return Observer(video.open(video_path), ScriptedBackbone(script), budget=budget), script

    return make
