"""How many tokens a frame takes, by the formulas that providers publish. For estimates: the bill counts its own.

Gemini     https://ai.google.dev/gemini-api/docs/media-resolution
OpenAI     https://developers.openai.com/api/docs/guides/images-vision, "Calculating costs"
Anthropic  https://platform.claude.com/docs/en/build-with-claude/vision, "Evaluate image size"
Others     one token for 32 x 32 pixels, as Qwen3-VL takes them
"""

from __future__ import annotations

import math
import re
from typing import Final

_GEMINI_3: Final = {"low": 280, "medium": 560, "high": 1120}
_GEMINI_2: Final = {"low": 64, "medium": 256, "high": 256}
_PATCH_MODELS: Final = {"-mini": 1.62, "-nano": 2.46}
"""Small GPT models from 4.1 on count patches of 32 x 32 pixels, each as so many tokens."""
_MOST_PATCHES: Final = 1536


def frame_tokens(spec: str, width: int, height: int, detail: str = "auto") -> int:
    """Tokens of one frame of this size for the backbone that a spec names."""
    scheme, _, model = spec.partition(":")
    if scheme in {"gemini", "vertex"}:
        level = ("low" if height <= 360 else "medium" if height <= 720 else "high") if detail == "auto" else detail
        return (_GEMINI_2 if re.match(r"gemini-[12]\.", model) else _GEMINI_3)[level]
    if scheme == "openai" and "@" not in model:
        low = height <= 360 if detail == "auto" else detail == "low"
        for ending, multiplier in _PATCH_MODELS.items():
            if ending in model and not model.startswith("gpt-4o"):
                return math.ceil(multiplier * _patches(width, height, low=low))
        return _tiles(model, width, height, low=low)
    if scheme == "anthropic":
        return math.ceil(width * height / 750)
    return math.ceil(width / 32) * math.ceil(height / 32)


def _patches(width: int, height: int, *, low: bool) -> int:
    if low:
        shrink = min(1.0, 512 / max(width, height))
        return math.ceil(width * shrink / 32) * math.ceil(height * shrink / 32)
    patches = math.ceil(width / 32) * math.ceil(height / 32)
    if patches <= _MOST_PATCHES:
        return patches
    shrink = math.sqrt(32**2 * _MOST_PATCHES / (width * height))
    columns, rows = width * shrink / 32, height * shrink / 32
    shrink *= min(math.floor(columns) / columns, math.floor(rows) / rows)
    return math.ceil(round(width * shrink / 32, 6)) * math.ceil(round(height * shrink / 32, 6))


def _tiles(model: str, width: int, height: int, *, low: bool) -> int:
    base, tile = (85, 170) if model.startswith("gpt-4") else (70, 140)
    if low:
        return base
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / (min(width, height) * scale))
    return base + tile * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)
