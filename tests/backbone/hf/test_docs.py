"""docs/local-models.md says what the code does."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra hf")
pytest.importorskip("llguidance", reason="needs the extra hf")

from trace_ves.backbone.hf import grammar
from trace_ves.backbone.hf.decoder import MODEL_TYPES

ROOT = Path(__file__).parents[3]
NAMES = {"qwen3_vl": "Qwen3-VL", "qwen3_vl_moe": "Qwen3-VL", "qwen2_5_vl": "Qwen2.5-VL"}


@pytest.fixture(scope="module")
def text() -> str:
    return " ".join((ROOT / "docs" / "local-models.md").read_text(encoding="utf-8").split())


def test_models_and_limits_are_those_of_the_code(text: str) -> None:
    assert {NAMES[kind] for kind in MODEL_TYPES} <= set(re.findall(r"Qwen[\d.]+-VL", text))
    assert f"after {grammar.MAX_NEW_TOKENS} tokens" in text
    assert "within a billion" in text
    assert grammar.LARGEST_NUMBER == 1e9


def test_the_scripts_that_it_names_are_there(text: str) -> None:
    named = re.findall(r"(?:perf|tests)/[\w/]+\.py", text)
    assert named
    assert all((ROOT / name).is_file() for name in named)
