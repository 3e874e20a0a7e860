"""Frame features from the model's vision tower, cached by pixels."""

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

from trace_ves.backbone.hf.layers import choose_kernels, compile_on_gpu

if TYPE_CHECKING:
    from trace_ves.core import Frame

DEFAULT_MAX_BYTES: Final = 2 * 1024**3  # The size of the cache
_FRAMES_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class FrameFeatures:
    """The embeddings of one frame."""

    grid: tuple[int, int, int]  # Patches in time, height and width
    levels: tuple[torch.Tensor, ...]
    """The embeddings of the frame's tokens, then those that deeper layers add (none for Qwen2.5-VL)."""

    @property
    def tokens(self) -> int:
        """The number of tokens of the frame."""
        return int(self.levels[0].shape[0])

    @property
    def bytes(self) -> int:
        """The memory of the embeddings."""
        return sum(level.numel() * level.element_size() for level in self.levels)


@dataclass(frozen=True, slots=True)
class PendingFrame:
    """A frame that is being prepared for the vision tower."""

    tokens: int
    patches: Future[tuple[torch.Tensor, torch.Tensor]]  # and their grid


def frame_key(frame: Frame) -> str:
    """The cache key of a picture: its size and a digest of its pixels."""
    pixels = frame.rgb()
    return f"{pixels.shape[0]}x{pixels.shape[1]}-{hashlib.sha256(pixels.tobytes()).hexdigest()}"


def encode(model: Any, pixel_values: torch.Tensor, grids: torch.Tensor) -> list[FrameFeatures]:
    """Features of preprocessed pictures, by the model's own vision tower. Neighbours of one size form a batch."""
    features: list[FrameFeatures] = []
    first = 0
    for grid, alike in groupby(map(tuple, grids.tolist())):
        frames, patches = len(list(alike)), grid[0] * grid[1] * grid[2]
        features += _encode_alike(model, pixel_values[first : first + frames * patches], grid, frames)
        first += frames * patches
    return features


def _encode_alike(model: Any, pixel_values: torch.Tensor, grid: tuple[Any, ...], frames: int) -> list[FrameFeatures]:
    grids = torch.tensor([grid] * frames, device=model.device)
    with torch.inference_mode(), choose_kernels(grid[1] * grid[2]):
        output = model.model.get_image_features(
            pixel_values.to(model.device), grids, return_dict=True, max_seqlen=grid[1] * grid[2]
        )
    sizes = [len(embedding) for embedding in output.pooler_output]
    deeper = getattr(output, "deepstack_features", None) or ()
    # transformers before 5.18 returns each deeper level as one tensor over all pictures, later versions one for each
    split = [level if isinstance(level, tuple | list) else torch.split(level, sizes) for level in deeper]
    return [FrameFeatures(grid, tuple(level)) for level in zip(output.pooler_output, *split, strict=True)]


def speed_up(model: Any) -> None:
    """Make the vision tower faster: one attention call for frames of one size, and a product for the convolution."""
    visual = model.model.visual
    if "forward" not in vars(visual.patch_embed):
        visual.patch_embed.forward = partial(_embed_patches, visual.patch_embed.proj)
        for block in visual.blocks:
            block.attn.forward = partial(_attend_frames, block.attn, block.attn.forward)


def _embed_patches(convolution: Any, patches: torch.Tensor) -> torch.Tensor:
    """The convolution as a product: its stride equals its size."""
    weight = convolution.weight.flatten(1)
    return linear(patches.view(-1, weight.shape[1]).to(weight.dtype), weight, convolution.bias)


@compile_on_gpu
def _rotate_frames(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Like `layers.rotate`, but compiled for the sizes of the vision tower."""
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
    attended = scaled_dot_product_attention(query, key, value, scale=module.scaling).transpose(1, 2)
    output: torch.Tensor = module.proj(attended.reshape(patches, -1))
    return output


class VisionEncoder:
    """The vision tower with a least-recently-used cache of its results."""

    def __init__(self, model: Any, image_processor: Any, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        speed_up(model)
        self._model = model
        self._image_processor = image_processor
        self._cache: LRUCache[str, FrameFeatures] = LRUCache(max_bytes, getsizeof=lambda features: features.bytes)
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="frames")
        self.frames_encoded = 0  # Frames that the vision tower has encoded so far

    def keys(self, frames: Sequence[Frame]) -> list[str]:
        """The cache keys of these frames."""
        return list(self._pool.map(frame_key, frames))

    def begin(self, frames: Mapping[str, Frame]) -> dict[str, FrameFeatures | PendingFrame]:
        """Start to prepare the frames that are not cached. Any thread may call this."""
        cached = {key: self._cached(key) for key in frames}
        return {key: cached[key] or self._begin(frame) for key, frame in frames.items()}

    def features(self, frames: Mapping[str, FrameFeatures | PendingFrame]) -> dict[str, FrameFeatures]:
        """The features of these frames, computed if they are not cached."""
        features = {key: one for key, one in frames.items() if isinstance(one, FrameFeatures)}
        features |= {key: one for key in frames if key not in features and (one := self._cached(key)) is not None}
        new = [(key, one) for key, one in frames.items() if key not in features and isinstance(one, PendingFrame)]
        for start in range(0, len(new), _FRAMES_AT_ONCE):  # encode some while others are prepared
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
        processor = self._image_processor
        patches: int = processor.get_number_of_image_patches(frame.picture.height, frame.picture.width)
        return PendingFrame(patches // processor.merge_size**2, self._pool.submit(self._prepare, frame))

    def _prepare(self, frame: Frame) -> tuple[torch.Tensor, torch.Tensor]:
        """The patches of a frame, resized by the model's own rule on the CPU, and its grid."""
        pictures = self._image_processor(
            images=[frame.rgb()], return_tensors="pt", do_rescale=False, do_normalize=False, temporal_patch_size=1
        )
        return pictures["pixel_values"].to(torch.uint8), pictures["image_grid_thw"]

    def _normalise(self, patches: torch.Tensor) -> torch.Tensor:
        """The normalised patches, repeated for each picture of a temporal patch."""
        processor = self._image_processor
        pixels = patches.to(self._model.device).view(len(patches), len(processor.image_mean), 1, -1).float()
        statistics = (processor.image_mean, processor.image_std)
        mean, std = (torch.tensor(one, device=pixels.device)[:, None, None] for one in statistics)
        if processor.do_rescale:
            pixels = pixels * processor.rescale_factor
        if processor.do_normalize:
            pixels = (pixels - mean) / std
        return pixels.expand(-1, -1, processor.temporal_patch_size, -1).flatten(1)
