"""Frame features from the model's vision tower, computed once and cached by pixels."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import torch
from cachetools import LRUCache
from torch.nn.functional import linear, scaled_dot_product_attention

from trace_ves.backbone.hf.layers import compile_on_gpu, kernels_for

if TYPE_CHECKING:
    from trace_ves.core import Frame

DEFAULT_MAX_BYTES: Final = 2 * 1024**3  # size of the cache; the least recently used features are dropped first
_FRAMES_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class FrameFeatures:
    """The embeddings of one frame."""

    grid: tuple[int, int, int]  # patches in time, height and width
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


@dataclass(frozen=True, slots=True)
class PendingFrame:
    """A frame that is being prepared for the vision tower."""

    tokens: int
    patches: Future[tuple[torch.Tensor, torch.Tensor]]  # and their grid


def frame_key(frame: Frame) -> str:
    """Identifies a picture by its pixels and its size."""
    pixels = frame.rgb()
    return f"{pixels.shape[0]}x{pixels.shape[1]}-{hashlib.sha256(pixels.tobytes()).hexdigest()}"


def encode(model: Any, pixel_values: torch.Tensor, grids: torch.Tensor) -> list[FrameFeatures]:
    """Features of preprocessed pictures by the model's own vision tower; neighbours of one size go through at once."""
    features: list[FrameFeatures] = []
    first = 0
    for grid, alike in groupby(map(tuple, grids.tolist())):
        frames, patches = len(list(alike)), grid[0] * grid[1] * grid[2]
        features += _encode_alike(model, pixel_values[first : first + frames * patches], grid, frames)
        first += frames * patches
    return features


def _encode_alike(model: Any, pixel_values: torch.Tensor, grid: tuple[Any, ...], frames: int) -> list[FrameFeatures]:
    grids = torch.tensor([grid] * frames, device=model.device)
    with torch.inference_mode(), kernels_for(grid[1] * grid[2]):
        seen = model.model.get_image_features(
            pixel_values.to(model.device), grids, return_dict=True, max_seqlen=grid[1] * grid[2]
        )
    sizes = [len(embedding) for embedding in seen.pooler_output]
    deeper = getattr(seen, "deepstack_features", None) or ()
    # transformers before 5.18 gives each deeper level as one tensor over all pictures, later ones as one for each.
    split = [level if isinstance(level, tuple | list) else torch.split(level, sizes) for level in deeper]
    return [FrameFeatures(grid, tuple(level)) for level in zip(seen.pooler_output, *split, strict=True)]


def speed_up(model: Any) -> None:
    """Make the vision tower faster: one call of attention for frames of one size, and no convolution."""
    visual = model.model.visual
    if "forward" not in vars(visual.patch_embed):
        visual.patch_embed.forward = partial(_embed_patches, visual.patch_embed.proj)
        for block in visual.blocks:
            block.attn.forward = partial(_attend_frames, block.attn, block.attn.forward)


def _embed_patches(convolution: Any, patches: torch.Tensor) -> torch.Tensor:
    """The convolution's stride is its size, so each patch is multiplied once."""
    weight = convolution.weight.flatten(1)
    return linear(patches.view(-1, weight.shape[1]).to(weight.dtype), weight, convolution.bias)


@compile_on_gpu
def _rotate_frames(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Like `layers.rotate`, which is compiled for the sizes of the language model."""
    left, right = heads.chunk(2, dim=-1)
    return (heads * cos[:, None] + torch.cat([-right, left], dim=-1) * sin[:, None]).to(heads.dtype)


def _attend_frames(
    module: Any,
    one_by_one: Callable[..., torch.Tensor],
    hidden_states: torch.Tensor,
    cu_seqlens: torch.Tensor,
    *,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    max_seqlen: int | None = None,
    **options: Any,
) -> torch.Tensor:
    """Attention inside each of several frames of `max_seqlen` patches."""
    if max_seqlen is None:
        return one_by_one(hidden_states, cu_seqlens, position_embeddings=position_embeddings, **options)
    patches = len(hidden_states)
    query, key, value = module.qkv(hidden_states).view(patches, 3, module.num_heads, -1).unbind(1)
    cos, sin = (one.float() for one in position_embeddings)
    query, key = (_rotate_frames(one, cos, sin) for one in (query, key))
    query, key, value = (one.view(-1, max_seqlen, *one.shape[1:]).transpose(1, 2) for one in (query, key, value))
    seen = scaled_dot_product_attention(query, key, value, scale=module.scaling).transpose(1, 2)
    attended: torch.Tensor = module.proj(seen.reshape(patches, -1))
    return attended


class VisionEncoder:
    """The vision tower with a least-recently-used cache of its results."""

    def __init__(self, model: Any, image_processor: Any, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        speed_up(model)
        self._model = model
        self._image_processor = image_processor
        self._cache: LRUCache[str, FrameFeatures] = LRUCache(max_bytes, getsizeof=lambda features: features.bytes)
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="frames")
        self.frames_encoded = 0  # how many frames went through the vision tower so far

    def keys(self, frames: Sequence[Frame]) -> list[str]:
        """What identifies each of the pictures."""
        return list(self._pool.map(frame_key, frames))

    def begin(self, frames: Mapping[str, Frame]) -> dict[str, FrameFeatures | PendingFrame]:
        """Start to prepare the frames that are not cached; any thread may call this."""
        cached = {key: self._cached(key) for key in frames}
        return {key: cached[key] or self._begin(frame) for key, frame in frames.items()}

    def features(self, frames: Mapping[str, FrameFeatures | PendingFrame]) -> dict[str, FrameFeatures]:
        """Features of these frames; only those that are not cached are computed."""
        features = {key: one for key, one in frames.items() if isinstance(one, FrameFeatures)}
        features |= {key: one for key in frames if key not in features and (one := self._cached(key)) is not None}
        new = [(key, one) for key, one in frames.items() if key not in features and isinstance(one, PendingFrame)]
        for start in range(0, len(new), _FRAMES_AT_ONCE):  # encoded while the next ones are prepared
            keys, pending = zip(*new[start : start + _FRAMES_AT_ONCE], strict=True)
            patches, grids = zip(*(one.patches.result() for one in pending), strict=True)
            encoded = encode(self._model, self._normalise(torch.cat(patches)), torch.cat(grids))
            features.update(zip(keys, encoded, strict=True))
        self.frames_encoded += len(new)
        with self._lock:
            for key in frames:
                if features[key].bytes <= self._cache.maxsize:
                    self._cache[key] = features[key]
        return {key: features[key] for key in frames}

    def _cached(self, key: str) -> FrameFeatures | None:
        with self._lock:
            return self._cache.get(key)

    def _begin(self, frame: Frame) -> PendingFrame:
        rule = self._image_processor
        patches: int = rule.get_number_of_image_patches(frame.picture.height, frame.picture.width)
        return PendingFrame(patches // rule.merge_size**2, self._pool.submit(self._prepare, frame))

    def _prepare(self, frame: Frame) -> tuple[torch.Tensor, torch.Tensor]:
        """Patches of the frame, resized by the model's own rule on the CPU, and its grid."""
        pictures = self._image_processor(
            images=[frame.rgb()],
            return_tensors="pt",
            do_rescale=False,
            do_normalize=False,
            temporal_patch_size=1,
        )
        return pictures["pixel_values"].to(torch.uint8), pictures["image_grid_thw"]

    def _normalise(self, patches: torch.Tensor) -> torch.Tensor:
        """The patches in the model's range, repeated for each picture of a temporal patch."""
        rule = self._image_processor
        pixels = patches.to(self._model.device).view(len(patches), len(rule.image_mean), 1, -1).float()
        mean, std = (
            torch.tensor(one, device=pixels.device)[:, None, None] for one in (rule.image_mean, rule.image_std)
        )
        if rule.do_rescale:
            pixels = pixels * rule.rescale_factor
        if rule.do_normalize:
            pixels = (pixels - mean) / std
        return pixels.expand(-1, -1, rule.temporal_patch_size, -1).flatten(1)
