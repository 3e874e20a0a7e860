"""The network of the eyes: an anchor-free detector that is small enough for two CPU cores, and its export to ONNX.

Peaks of a one-channel heatmap are where something is. Its box and its name are read from the features under each peak
only: a hundred classes cost little, and fine detail is mixed only there. A second, global head names the scene.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  the usual name

STRIDE = 4
"""Pixels a side of a cell of the heatmap."""
NO_PEAK = -20.0
AROUND = 64
"""Channels of the features of a cell's surroundings."""
PEAKS = 24
"""How many detections a frame yields; most have a score near zero."""


class Features(NamedTuple):
    """What the trunk gives."""

    heat: Tensor
    """Logits, a cell for 4 x 4 pixels."""
    detail: Tensor
    """A cell for 4 x 4 pixels."""
    around: Tensor
    """A cell for 8 x 8 pixels."""
    scene: Tensor
    """Logits."""


class Named(NamedTuple):
    """What lies under cells of the heatmap."""

    box: Tensor
    """Offset of the centre within its cell (x, y), log of width and height in cells."""
    name: Tensor
    """Logits of the classes."""


def conv(inputs: int, outputs: int, size: int, stride: int = 1, padding: int | None = None) -> nn.Sequential:
    """Convolution, normalisation, ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2 if padding is None else padding, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Block(nn.Module):
    """A depthwise filter, then mixing of channels, with a way around both."""

    def __init__(self, channels: int, expansion: int = 2, size: int = 5) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, size, 1, size // 2, groups=channels, bias=False),
            nn.BatchNorm2d(channels),
            conv(channels, expansion * channels, 1),
            nn.Conv2d(expansion * channels, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """As many channels as came."""
        out: Tensor = F.relu(x + self.body(x))
        return out


class Mixed(nn.Module):
    """A small depthwise filter and one mixing of channels, with a way around both: for the finest level."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, 1, 1, groups=channels, bias=False),
            nn.BatchNorm2d(channels),
            nn.Conv2d(channels, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """As many channels as came."""
        out: Tensor = F.relu(x + self.body(x))
        return out


class Shape(NamedTuple):
    """How large the network is: channels and blocks at a quarter, an eighth, a 16th and a 32nd of the size."""

    widths: tuple[int, int, int, int] = (32, 48, 80, 128)
    depths: tuple[int, int, int, int] = (1, 1, 2, 2)
    neck: int = 48


class Eyes(nn.Module):
    """RGB frames of any size in, features of `Features` out; `name` reads what is under cells of its heatmap."""

    def __init__(self, classes: int, scenes: int, shape: Shape = Shape()) -> None:  # noqa: B008  a tuple
        super().__init__()
        first, second, third, fourth = shape.widths
        self.patches = conv(3, first, STRIDE, STRIDE, padding=0)
        self.stem = nn.Sequential(*(Mixed(first) for _ in range(shape.depths[0])))
        self.down8 = nn.Sequential(conv(first, second, 3, 2), *(Block(second) for _ in range(shape.depths[1])))
        self.down16 = nn.Sequential(conv(second, third, 3, 2), *(Block(third) for _ in range(shape.depths[2])))
        self.down32 = nn.Sequential(conv(third, fourth, 3, 2), *(Block(fourth) for _ in range(shape.depths[3])))
        self.laterals = nn.ModuleList(nn.Conv2d(width, shape.neck, 1) for width in shape.widths[1:])
        self.merge16 = Block(shape.neck)
        self.merge8 = nn.Sequential(Block(shape.neck), conv(shape.neck, AROUND, 1))
        self.heat = nn.Conv2d(AROUND, 4, 1)
        self.under = nn.Sequential(nn.Linear(AROUND + 9 * first + 4, 256), nn.ReLU(), nn.Linear(256, 4 + classes))
        self.scene = nn.Sequential(nn.Linear(fourth, 64), nn.ReLU(), nn.Linear(64, scenes))
        nn.init.constant_(self.heat.bias, -4.0)  # almost every cell is empty: start there

    def forward(self, pictures: Tensor) -> Features:
        """Features of a batch of pictures, in colours from -1 to 1."""
        level4 = self.stem(self.patches(pictures))
        level8 = self.down8(level4)
        level16 = self.down16(level8)
        level32 = self.down32(level16)
        merged = self.laterals[2](level32)
        merged = self.merge16(self.laterals[1](level16) + _grown(merged, level16))
        around = self.merge8(self.laterals[0](level8) + _grown(merged, level8))
        heat = F.pixel_shuffle(self.heat(around), 2)
        return Features(heat, level4, around, self.scene(level32.mean(dim=(2, 3))))

    def name(self, found: Features, y: Tensor, x: Tensor) -> Named:
        """What is under these cells (N, K) of the heatmap."""
        rows, columns = found.detail.shape[2:]
        step = torch.arange(-1, 2, device=x.device)
        near_y = (y[..., None] + step).clamp(0, rows - 1)
        near_x = (x[..., None] + step).clamp(0, columns - 1)
        cells = (near_y[..., :, None] * columns + near_x[..., None, :]).flatten(1)
        detail = _gathered(found.detail, cells).unflatten(2, (-1, 9)).permute(0, 2, 1, 3).flatten(2)
        around = _gathered(found.around, (y // 2) * found.around.shape[3] + x // 2).transpose(1, 2)
        corner = F.one_hot((y % 2) * 2 + x % 2, 4).to(around.dtype)
        under = self.under(torch.cat([around, detail, corner], dim=-1))
        return Named(under[..., :4], under[..., 4:])


def _grown(x: Tensor, like: Tensor) -> Tensor:
    return F.interpolate(x, size=like.shape[2:], mode="nearest")


def _gathered(features: Tensor, cells: Tensor) -> Tensor:
    """The features (N, C, K) at these cells (N, K) of a map (N, C, H, W)."""
    flat = features.flatten(2)
    return flat.gather(2, cells.unsqueeze(1).expand(-1, flat.shape[1], -1))


class Exported(nn.Module):
    """The eyes as they are shipped: frames as bytes in, boxes, scores and names out."""

    def __init__(self, eyes: Eyes) -> None:
        super().__init__()
        self.eyes = copy.deepcopy(eyes).eval()
        with torch.no_grad():  # bytes go into the first layer as they are: its weights do the scaling and the shift
            filters, normalised = self.eyes.patches[0], self.eyes.patches[1]
            normalised.running_mean += filters.weight.sum(dim=(1, 2, 3))
            filters.weight /= 127.5

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Frames (N, height, width, 3) uint8 to boxes (N, K, 4: left, top, right, bottom as parts of the frame's
        sides), scores (N, K), class numbers (N, K) and scene probabilities (N, S).
        """  # noqa: D205
        found = self.eyes(frames.permute(0, 3, 1, 2).float())
        rows, columns = found.heat.shape[2:]
        peaks = torch.where(found.heat == F.max_pool2d(found.heat, 3, 1, 1), found.heat, NO_PEAK)
        logits, place = peaks.flatten(1).topk(PEAKS, dim=1)
        x = torch.arange(columns, device=place.device).expand(rows, columns).flatten()[place]
        y = torch.arange(rows, device=place.device).unsqueeze(1).expand(rows, columns).flatten()[place]
        geometry, names = self.eyes.name(found, y, x)
        likelihood, label = names.softmax(dim=-1).max(dim=-1)
        centre_x, centre_y = x + geometry[..., 0], y + geometry[..., 1]
        half_width, half_height = (geometry[..., side].clamp(max=6.0).exp() / 2 for side in (2, 3))
        across, down = STRIDE / frames.shape[2], STRIDE / frames.shape[1]
        box = torch.stack(
            [
                (centre_x - half_width) * across,
                (centre_y - half_height) * down,
                (centre_x + half_width) * across,
                (centre_y + half_height) * down,
            ],
            dim=-1,
        ).clamp(0.0, 1.0)
        return box, torch.sigmoid(logits) * likelihood, label, found.scene.softmax(dim=-1)


def export_onnx(eyes: Eyes, path: str, metadata: dict[str, str]) -> None:
    """Write the eyes as ONNX with dynamic batch, height and width, and these texts in its metadata."""
    import onnx

    exported = Exported(eyes).eval().cpu().float()
    frames = torch.zeros(2, 360, 640, 3, dtype=torch.uint8)
    dimensions = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        exported,
        (frames,),
        path,
        input_names=["frames"],
        output_names=["boxes", "scores", "labels", "scene"],
        dynamic_shapes=(dimensions,),
        opset_version=18,
        dynamo=True,
        external_data=False,
    )
    model = onnx.load(path)
    for entry in (*model.graph.node, *model.graph.value_info):
        del entry.metadata_props[:]  # where in which file of this machine each operation was written
    for key, text in metadata.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, text
    onnx.save(model, path)
