"""A tiny checkpoint of each kind of model."""

from pathlib import Path

import pytest
from tests.backbone.hf.tiny_models import MODELS, save_tiny


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint of each kind, by kind."""
    return {kind: save_tiny(tmp_path_factory.mktemp(kind), kind) for kind in MODELS}
