"""Frame features from the model's vision tower, computed once and cached.

The cache is keyed by pixels, so that the same moment at the same size is found again in another bundle, stage or round.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.core import Frame

DEFAULT_MAX_BYTES: Final = 2 * 1024**3
"""Size of the cache; the least recently used features are dropped first."""
_FRAMES_AT_ONCE: Final = 32
_FRAMES_PER_THREAD: Final = 8


@dataclass(frozen=True, slots=True)
class FrameFeatures:
    """The embeddings of one frame."""

    grid: tuple[int, int, int]
    """Patches in time, height and width."""
    levels: tuple[torch.Tensor, ...]
    """What replaces the frame's tokens, then what deeper layers add to them (none for Qwen2.5-VL)."""

    @property
    def tokens(self) -> int:
        """Tokens that the frame takes."""
        return int(self.levels[0].shape[0])

    @property
    def bytes(self) -> int:
        """Memory that it takes."""
        return sum(level.numel() * level.element_size() for level in self.levels)


def frame_key(frame: Frame) -> str:
    """Identifies a picture by its pixels and its size."""
    pixels = frame.rgb()
    return f"{pixels.shape[0]}x{pixels.shape[1]}-{hashlib.sha256(pixels.tobytes()).hexdigest()}"


def encode(model: Any, pixel_values: torch.Tensor, grids: torch.Tensor) -> list[FrameFeatures]:
    """Features of preprocessed pictures by the model's own vision tower."""
    with torch.inference_mode():
        seen = model.model.get_image_features(pixel_values.to(model.device), grids.to(model.device), return_dict=True)
    sizes = [len(embedding) for embedding in seen.pooler_output]
    deeper = getattr(seen, "deepstack_features", None) or ()
    # transformers before 5.18 gives each deeper level as one tensor over all pictures, later ones as one for each.
    split = [level if isinstance(level, tuple | list) else torch.split(level, sizes) for level in deeper]
    levels = zip(seen.pooler_output, *split, strict=True)
    return [
        FrameFeatures((int(grid[0]), int(grid[1]), int(grid[2])), tuple(level))
        for grid, level in zip(grids.tolist(), levels, strict=True)
    ]


class VisionEncoder:
    """The vision tower with a least-recently-used cache of its results."""

    def __init__(self, model: Any, image_processor: Any, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._model = model
        self._image_processor = image_processor
        self._max_bytes = max_bytes
        self._cache: OrderedDict[str, FrameFeatures] = OrderedDict()
        self.frames_encoded = 0
        """How many frames went through the vision tower so far."""

    def features(self, frames: Mapping[str, Frame]) -> dict[str, FrameFeatures]:
        """Features of these frames; only those that are not cached are computed."""
        new = [key for key in frames if key not in self._cache]
        for start in range(0, len(new), _FRAMES_AT_ONCE):
            keys = new[start : start + _FRAMES_AT_ONCE]
            self._cache.update(zip(keys, self._encode([frames[key] for key in keys]), strict=True))
        found = {key: self._cache[key] for key in frames}
        for key in frames:
            self._cache.move_to_end(key)
        self._evict()
        return found

    def forget(self) -> None:
        """Drop all cached features."""
        self._cache.clear()

    def _encode(self, frames: Sequence[Frame]) -> list[FrameFeatures]:
        self.frames_encoded += len(frames)
        groups = [frames[start : start + _FRAMES_PER_THREAD] for start in range(0, len(frames), _FRAMES_PER_THREAD)]
        with ThreadPoolExecutor(len(groups)) as pool:
            prepared = list(pool.map(self._prepare, groups))
        pixels, grids = (torch.cat(parts) for parts in zip(*prepared, strict=True))
        return encode(self._model, pixels, grids)

    def _prepare(self, frames: Sequence[Frame]) -> tuple[torch.Tensor, torch.Tensor]:
        """Patches of the frames, resized and normalised by the model's own rule: slow, and without a GPU."""
        pictures = self._image_processor(images=[frame.rgb() for frame in frames], return_tensors="pt")
        return pictures["pixel_values"], pictures["image_grid_thw"]

    def _evict(self) -> None:
        cached_bytes = sum(features.bytes for features in self._cache.values())
        while cached_bytes > self._max_bytes:
            _, features = self._cache.popitem(last=False)
            cached_bytes -= features.bytes
