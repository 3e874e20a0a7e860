"""The network of the eyes: an anchor-free detector that is small enough for two CPU cores, and its export to ONNX.

Peaks of a one-channel heatmap are where something is; what it is, is read from the features under each peak alone,
so that a hundred classes cost little. A second, global head names the scene.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  the name everybody uses

STRIDE = 4
PEAKS = 24
"""How many detections a frame yields; most have a score near zero."""


class Features(NamedTuple):
    """What the trunk gives: a heatmap of logits, box geometry, features to classify, scene logits."""

    heat: Tensor
    box: Tensor
    """Four channels: offset of the centre within its cell (x, y), log of width and height in cells."""
    trunk: Tensor
    scene: Tensor


def conv(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, normalisation, ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Block(nn.Module):
    """A wide depthwise filter, then mixing of channels, with a way around both."""

    def __init__(self, channels: int, expansion: int = 2) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 5, 1, 2, groups=channels, bias=False),
            nn.BatchNorm2d(channels),
            conv(channels, expansion * channels, 1),
            nn.Conv2d(expansion * channels, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """As many channels as came."""
        out: Tensor = F.relu(x + self.body(x))
        return out


class Eyes(nn.Module):
    """RGB frames of any size in, features of `Features` out."""

    def __init__(self, classes: int, scenes: int, widths: tuple[int, ...] = (24, 48, 96, 192), neck: int = 48) -> None:
        super().__init__()
        first, second, third, fourth = widths
        self.stem = nn.Sequential(conv(3, 16, 3, 2), conv(16, first, 3, 2), Block(first))
        self.down8 = nn.Sequential(conv(first, second, 3, 2), Block(second), Block(second))
        self.down16 = nn.Sequential(conv(second, third, 3, 2), Block(third), Block(third), Block(third))
        self.down32 = nn.Sequential(conv(third, fourth, 3, 2), Block(fourth), Block(fourth))
        self.laterals = nn.ModuleList(nn.Conv2d(width, neck, 1) for width in widths)
        self.merge = nn.ModuleList(Block(neck) for _ in range(2))
        self.last = nn.Sequential(nn.ReLU(), nn.Conv2d(neck, neck, 5, 1, 2, groups=neck), conv(neck, neck, 1))
        self.heat = nn.Conv2d(neck, 1, 1)
        self.box = nn.Conv2d(neck, 4, 1)
        self.classify = nn.Sequential(nn.Linear(neck, 192), nn.ReLU(), nn.Linear(192, classes))
        self.scene = nn.Sequential(nn.Linear(fourth, 64), nn.ReLU(), nn.Linear(64, scenes))
        nn.init.constant_(self.heat.bias, -4.0)  # almost every cell is empty: start there

    def forward(self, pictures: Tensor) -> Features:
        """Features of a batch of pictures, in colours from -1 to 1."""
        level4 = self.stem(pictures)
        level8 = self.down8(level4)
        level16 = self.down16(level8)
        level32 = self.down32(level16)
        merged = self.laterals[3](level32)
        merged = self.merge[0](self.laterals[2](level16) + _grown(merged, level16))
        merged = self.merge[1](self.laterals[1](level8) + _grown(merged, level8))
        trunk = self.last(self.laterals[0](level4) + _grown(merged, level4))
        return Features(self.heat(trunk), self.box(trunk), trunk, self.scene(level32.mean(dim=(2, 3))))


def _grown(x: Tensor, like: Tensor) -> Tensor:
    return F.interpolate(x, size=like.shape[2:], mode="nearest")


class Exported(nn.Module):
    """The eyes as they are shipped: frames as bytes in, boxes, scores and names out."""

    def __init__(self, eyes: Eyes) -> None:
        super().__init__()
        self.eyes = eyes

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Frames (N, height, width, 3) uint8 to boxes (N, K, 4: left, top, right, bottom as parts of the frame's
        sides), scores (N, K), class numbers (N, K) and scene probabilities (N, S).
        """  # noqa: D205
        pictures = frames.permute(0, 3, 1, 2).float() / 127.5 - 1.0
        found = self.eyes(pictures)
        rows, columns = found.heat.shape[2], found.heat.shape[3]
        heat = torch.sigmoid(found.heat)
        peaks = heat * (heat == F.max_pool2d(heat, 3, 1, 1)).float()
        objectness, place = peaks.flatten(1).topk(PEAKS, dim=1)
        trunk = _gathered(found.trunk, place)
        likelihood, label = self.eyes.classify(trunk).softmax(dim=-1).max(dim=-1)
        geometry = _gathered(found.box, place)
        cell_x = torch.arange(columns, device=heat.device).float().expand(rows, columns).flatten()
        cell_y = torch.arange(rows, device=heat.device).float().unsqueeze(1).expand(rows, columns).flatten()
        centre_x, centre_y = cell_x[place] + geometry[..., 0], cell_y[place] + geometry[..., 1]
        half_width, half_height = (geometry[..., side].clamp(max=6.0).exp() / 2 for side in (2, 3))
        box = torch.stack(
            [
                (centre_x - half_width) / columns,
                (centre_y - half_height) / rows,
                (centre_x + half_width) / columns,
                (centre_y + half_height) / rows,
            ],
            dim=-1,
        ).clamp(0.0, 1.0)
        return box, objectness * likelihood, label, found.scene.softmax(dim=-1)


def _gathered(features: Tensor, place: Tensor) -> Tensor:
    """The features (N, K, C) at these cells (N, K) of a map (N, C, H, W)."""
    flat = features.flatten(2).transpose(1, 2)
    return flat.gather(1, place.unsqueeze(-1).expand(-1, -1, flat.shape[2]))


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
