"""What training needs beside the network: damaged pictures, targets, losses, and a buffer that workers fill."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  the usual name
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from eyes_data import CLEAR, DOUBTFUL, FRAMES_PER_BACKDROP, MOST_SPRITES, draw_chunk
from eyes_model import STRIDE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eyes_data import Chunk
    from eyes_model import Eyes

HEIGHTS = (180, 224, 256, 288, 324, 360, 360, 360, 400, 448)
"""Rows of the pictures trained on; videos have 360, and a look may ask for fewer."""

SMALLEST_CELLS = 1.5
"""Sprites that were scaled to fewer cells than this are neither asked for nor held against the eyes."""


class Chunks(IterableDataset["Chunk"]):
    """Chunks without end; every worker draws its own."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __iter__(self) -> Iterator[Chunk]:
        worker = get_worker_info()
        torch.set_num_threads(1)
        rng = np.random.default_rng([self.seed, worker.id if worker else 0])
        while True:
            yield draw_chunk(rng)


def _as_it_is(chunk: Chunk) -> Chunk:
    """Chunks travel as numpy arrays through a pipe, so that no machine's shared memory is too small for them."""
    return chunk


class Buffer:
    """The newest frames, on the device; a thread fills it from the workers while batches are drawn from it."""

    def __init__(self, capacity: int, seed: int, workers: int, device: str) -> None:
        self.device, self.capacity = device, capacity
        self.arrays = [
            torch.empty(capacity, 540, 640, dtype=torch.uint8, device=device),
            torch.empty(capacity, MOST_SPRITES, 4, device=device),
            torch.empty(capacity, MOST_SPRITES, dtype=torch.int64, device=device),
            torch.empty(capacity, MOST_SPRITES, dtype=torch.int64, device=device),
            torch.empty(capacity, dtype=torch.int64, device=device),
        ]
        self.drawn = 0
        self._closed = threading.Event()
        loader = DataLoader(Chunks(seed), batch_size=None, num_workers=workers, prefetch_factor=8, collate_fn=_as_it_is)
        self._thread = threading.Thread(target=self._fill, args=(loader,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let the workers go."""
        self._closed.set()
        self._thread.join()

    def _fill(self, loader: DataLoader[Chunk]) -> None:
        for chunk in loader:
            start = self.drawn % self.capacity
            scenes = np.full(FRAMES_PER_BACKDROP, chunk.scene)
            parts = (chunk.planes, chunk.boxes, chunk.labels, chunk.kinds, scenes)
            for array, part in zip(self.arrays, parts, strict=True):
                array[start : start + len(part)] = torch.from_numpy(part).to(self.device)
            self.drawn += FRAMES_PER_BACKDROP
            if self._closed.is_set():
                return

    def batch(self, size: int) -> list[Tensor]:
        """Random frames of those drawn so far."""
        chosen = torch.randint(min(self.drawn, self.capacity), (size,), device=self.device)
        return [array[chosen] for array in self.arrays]


def pictures_of(planes: Tensor) -> Tensor:
    """Planes (N, 540, 640) of bytes as YUV pictures (N, 3, 360, 640) from 0 to 255."""
    luma = planes[:, :360].float().unsqueeze(1)
    chroma = planes[:, 360:].float().reshape(-1, 2, 180, 320)
    return torch.cat([luma, F.interpolate(chroma, scale_factor=2.0, mode="nearest")], dim=1)


def to_rgb(yuv: Tensor) -> Tensor:
    """BT.601 YUV to RGB, both from 0 to 255."""
    matrix = yuv.new_tensor([[1.164384, 0.0, 1.596027], [1.164384, -0.391762, -0.812968], [1.164384, 2.017232, 0.0]])
    return torch.einsum("rc,nchw->nrhw", matrix, yuv - yuv.new_tensor([16.0, 128.0, 128.0]).view(1, 3, 1, 1)).clamp(
        0, 255
    )


def compressed(yuv: Tensor, strength: Tensor) -> Tensor:
    """Round the cosine transform of 8 x 8 blocks, the finer the detail the coarser, as codecs do to pictures."""
    k = torch.arange(8, device=yuv.device, dtype=torch.float32)
    basis = torch.cos(math.pi / 8 * (k[None] + 0.5) * k[:, None]) * math.sqrt(2 / 8)
    basis[0] /= math.sqrt(2)
    count, planes, height, width = yuv.shape
    blocks = yuv.reshape(count, planes, height // 8, 8, width // 8, 8)
    spectrum = torch.einsum("ia,ncyaxb,jb->ncyixj", basis, blocks, basis)
    step = strength.view(-1, 1, 1, 1, 1, 1) * (1.0 + 0.35 * (k[:, None] + k[None]))[None, None, None, :, None, :]
    rounded = (spectrum / step).round() * step
    return torch.einsum("ia,ncyixj,jb->ncyaxb", basis, rounded, basis).reshape(yuv.shape)


def damaged(planes: Tensor, height: int) -> Tensor:
    """What a look at such frames may get: compressed, scaled to `height` rows, some blurred or noisy; from -1 to 1."""
    count = len(planes)
    yuv = pictures_of(planes)
    yuv = compressed(yuv, torch.empty(count, device=yuv.device).uniform_(0.3, 14.0))
    rgb = to_rgb(yuv)
    if height != rgb.shape[2]:
        width = round(rgb.shape[3] * height / rgb.shape[2])
        mode = ("bilinear", "bicubic")[int(torch.randint(2, (1,)))]
        rgb = F.interpolate(rgb, size=(height, width), mode=mode, antialias=True)
    blur = torch.rand(count, 1, 1, 1, device=rgb.device) < 0.25
    rgb = torch.where(blur, F.avg_pool2d(rgb, 3, 1, 1, count_include_pad=False), rgb)
    light = torch.empty(count, 3, 1, 1, device=rgb.device).uniform_(0.92, 1.08)
    light = light * torch.empty(count, 1, 1, 1, device=rgb.device).uniform_(0.8, 1.15)
    noise = torch.randn_like(rgb) * torch.empty(count, 1, 1, 1, device=rgb.device).uniform_(-4.0, 6.0).clamp(min=0)
    pictures = (rgb * light + noise).clamp(0, 255) / 127.5 - 1.0
    return pictures.contiguous(memory_format=torch.channels_last)


def losses(eyes: Eyes, batch: Sequence[Tensor], pictures: Tensor) -> dict[str, Tensor]:
    """The four losses of one batch, whose frames are looked at as these pictures."""
    _, boxes, labels, kinds, scenes = batch
    with torch.autocast(pictures.device.type, torch.bfloat16):
        found = eyes(pictures)
    heat = found.heat.float()
    rows, columns = heat.shape[2:]
    cells = boxes * (pictures.shape[2] / 360 / STRIDE)
    centre, extent = (cells[..., :2] + cells[..., 2:]) / 2, (cells[..., 2:] - cells[..., :2]).clamp(min=0.3)
    kinds = torch.where((kinds == CLEAR) & (extent.amax(dim=-1) < SMALLEST_CELLS), DOUBTFUL, kinds)
    clear = kinds == CLEAR
    home = centre.floor().long()
    home_x, home_y = home[..., 0].clamp(0, columns - 1), home[..., 1].clamp(0, rows - 1)
    target, ignored = _heat_targets(centre, extent, kinds, heat.shape[2:], (home_x, home_y))
    # Boxes and names are learnt in the cell beside the centre, too, as a peak may lie one off.
    near_x = (home_x + torch.randint_like(home_x, -1, 2)).clamp(0, columns - 1)
    near_y = (home_y + torch.randint_like(home_y, -1, 2)).clamp(0, rows - 1)
    pick_x = torch.where(extent[..., 0] > 3, near_x, home_x)
    pick_y = torch.where(extent[..., 1] > 3, near_y, home_y)
    with torch.autocast(pictures.device.type, torch.bfloat16):
        geometry, names = eyes.name(found, pick_y, pick_x)
    wanted = torch.cat([centre - torch.stack([pick_x, pick_y], -1), extent.log()], dim=-1)
    return {
        "heat": _focal(heat[:, 0], target, ignored) / clear.sum().clamp(min=1),
        "box": 0.5 * F.smooth_l1_loss(geometry[clear].float(), wanted[clear], beta=0.2),
        "name": F.cross_entropy(names[clear].float(), labels[clear], label_smoothing=0.02),
        "scene": 0.1 * F.cross_entropy(found.scene.float(), scenes),
    }


def _heat_targets(
    centre: Tensor, extent: Tensor, kinds: Tensor, shape: Sequence[int], home: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """A bump over every clear box, 1 in its middle cell; and the cells of doubtful boxes, which do not count."""
    (rows, columns), (home_x, home_y) = shape, home
    y = torch.arange(rows, device=centre.device).view(1, 1, -1, 1) + 0.5
    x = torch.arange(columns, device=centre.device).view(1, 1, 1, -1) + 0.5
    spread = (extent / 5).clamp(min=0.6)
    distance_x, distance_y = x - centre[..., 0, None, None], y - centre[..., 1, None, None]
    bumps = torch.exp(
        -0.5 * ((distance_x / spread[..., 0, None, None]) ** 2 + (distance_y / spread[..., 1, None, None]) ** 2)
    )
    clear = kinds == CLEAR
    target = (bumps * 0.98 * clear[..., None, None]).amax(dim=1)
    index = torch.arange(len(centre), device=centre.device)[:, None].expand_as(home_x)
    target[index[clear], home_y[clear], home_x[clear]] = 1.0
    inside = (distance_x.abs() <= extent[..., 0, None, None] / 2 + 1) & (
        distance_y.abs() <= extent[..., 1, None, None] / 2 + 1
    )
    doubtful = (kinds != CLEAR) & (kinds != 0)
    return target, (inside & doubtful[..., None, None]).any(dim=1) & (target < 1.0)


def _focal(logits: Tensor, target: Tensor, ignored: Tensor) -> Tensor:
    """The focal loss of key-point heatmaps: cells near a middle are punished less for firing."""
    hot, cold = F.logsigmoid(logits), F.logsigmoid(-logits)
    chance = logits.sigmoid()
    middle = target == 1.0
    positive = -((1 - chance) ** 2) * hot
    negative = -((1 - target) ** 4) * chance**2 * cold
    return torch.where(middle, positive, torch.where(ignored, torch.zeros_like(negative), negative)).sum()
