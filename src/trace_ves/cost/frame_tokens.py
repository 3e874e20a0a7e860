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


def frame_tokens(spec: str, width: int, height: int, detail: str = "auto") -> int:
    """Tokens of one frame of this size for the backbone that a spec names."""
    scheme, _, model = spec.partition(":")
    if scheme in {"gemini", "vertex"}:
        level = ("low" if height <= 360 else "medium" if height <= 720 else "high") if detail == "auto" else detail
        return (_GEMINI_2 if re.match(r"gemini-[12]\.", model) else _GEMINI_3)[level]
    if scheme == "openai" and "@" not in model:
        low = height <= 360 if detail == "auto" else detail == "low"
        return _tiles(model, width, height, low=low)
    if scheme == "anthropic":
        return math.ceil(width * height / 750)
    return math.ceil(width / 32) * math.ceil(height / 32)


def _tiles(model: str, width: int, height: int, *, low: bool) -> int:
    base, tile = (85, 170) if model.startswith("gpt-4") else (70, 140)
    if low:
        return base
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / (min(width, height) * scale))
    return base + tile * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)
