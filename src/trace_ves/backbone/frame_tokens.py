"""How many tokens a frame takes, by the formulas that providers publish. Only for estimates.

Gemini     https://ai.google.dev/gemini-api/docs/media-resolution
OpenAI     https://developers.openai.com/api/docs/guides/images-vision, "Calculating costs"
Anthropic  https://platform.claude.com/docs/en/build-with-claude/vision, "Resolution and token cost"
Others     one token for 32 x 32 pixels, as for Qwen3-VL
"""

import math
import re
from typing import Final

_GEMINI: Final = frozenset({"gemini", "vertex"})
_GEMINI_3: Final = {"low": 280, "medium": 560, "high": 1120}
_GEMINI_2: Final = {"low": 64, "medium": 256, "high": 256}

_OPENAI_PATCHES: Final = (
    (re.compile(r"gpt-4\.1-mini"), 1.62, 1536),
    (re.compile(r"gpt-4\.1-nano"), 2.46, 1536),
    (re.compile(r"o4-mini"), 1.72, 1536),
    (re.compile(r"gpt-5-nano"), 1.5, 1536),
    (re.compile(r"gpt-5(?:\.\d)?-(?:mini|nano)|gpt-5\.[23]"), 1.2, 1536),
    (re.compile(r"gpt-(?:5\.[4-9]|[6-9]|\d\d)"), 1.2, 2500),
)
"""Models that count patches of 32 x 32 pixels: tokens for a patch, and the most patches at detail high."""
_OPENAI_TILES: Final = (  # Others count tiles of 512 x 512: tokens for the image, and for each tile at detail high
    (re.compile(r"gpt-4o-mini"), 2833, 5667),
    (re.compile(r"gpt-4"), 85, 170),
    (re.compile(r"o\d"), 75, 150),
    (re.compile(r""), 70, 140),
)
_OPENAI_LONGEST_PX: Final = 2048
_OPENAI_LOW_PX: Final = 512

_CLAUDE_STANDARD: Final = re.compile(r"claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[0-6])?(?:-\d{8})?$)")
_CLAUDE_PATCH_PX: Final = 28


def text_tokens(text: str) -> int:
    """A rough count of the tokens of English text and JSON, for any tokenizer."""
    return math.ceil(len(text) / 4)


def frame_detail(scheme: str, height: int, detail: str = "auto") -> str:
    """The level of detail of a frame: the chosen one, else by its height. Only Gemini has a medium level."""
    if detail != "auto":
        return detail
    if height <= 360:
        return "low"
    return "medium" if scheme in _GEMINI and height <= 720 else "high"


def frame_tokens(spec: str, width: int, height: int, detail: str = "auto") -> int:
    """The tokens of one frame of this size for a backbone."""
    scheme, _, model = spec.partition(":")
    level = frame_detail(scheme, height, detail)
    if scheme in _GEMINI:
        return (_GEMINI_2 if re.match(r"gemini-[12]\.", model) else _GEMINI_3)[level]
    if scheme == "openai" and "@" not in model:
        return _openai_tokens(model, width, height, low=level == "low")
    if scheme == "anthropic":
        return _claude_tokens(model, width, height)
    return math.ceil(width / 32) * math.ceil(height / 32)


def _openai_tokens(model: str, width: int, height: int, *, low: bool) -> int:
    for pattern, multiplier, most_patches in _OPENAI_PATCHES:
        if pattern.match(model):
            shrink = min(1.0, (_OPENAI_LOW_PX if low else _OPENAI_LONGEST_PX) / max(width, height))
            return math.ceil(multiplier * _count_patches(round(width * shrink), round(height * shrink), most_patches))
    base, tile = next((base, tile) for pattern, base, tile in _OPENAI_TILES if pattern.match(model))
    if low:
        return base
    scale = min(1.0, _OPENAI_LONGEST_PX / max(width, height))
    scale *= min(1.0, 768 / (min(width, height) * scale))
    return base + tile * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


def _count_patches(width: int, height: int, most: int) -> int:
    patches = math.ceil(width / 32) * math.ceil(height / 32)
    if patches <= most:
        return patches
    shrink = math.sqrt(32**2 * most / (width * height))
    columns, rows = width * shrink / 32, height * shrink / 32
    shrink *= min(math.floor(columns) / columns, math.floor(rows) / rows)
    return math.ceil(round(width * shrink / 32, 6)) * math.ceil(round(height * shrink / 32, 6))


def _claude_tokens(model: str, width: int, height: int) -> int:
    """One token for 28 x 28 pixels, after the image is shrunk to the model's limits."""
    longest_px, most = (1568, 1568) if _CLAUDE_STANDARD.match(model) else (2576, 4784)
    longer, shorter = max(width, height), min(width, height)
    for edge in range(min(longer, longest_px), 0, -1):
        tokens = math.ceil(edge / _CLAUDE_PATCH_PX) * math.ceil(
            max(1, round(shorter * edge / longer)) / _CLAUDE_PATCH_PX
        )
        if tokens <= most:
            return tokens
    return 1
