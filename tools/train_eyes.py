"""Train the eyes on frames of the twin's world, and write them as ONNX with their recipe and figures.

    python3 tools/train_eyes.py --out DIR --minutes 8          on a machine with a GPU
    python3 tools/train_eyes.py --out DIR --smoke              a minute on any machine, to see that it runs

Needs torch, numpy, onnx and onnxscript; reads nothing but this repository. Frames are drawn while it trains.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import time
from pathlib import Path

import numpy as np
import torch

from eyes_data import CLASSES, SCENES, draw_chunk
from eyes_metrics import as_lines, measure
from eyes_model import Exported, Eyes, export_onnx
from eyes_training import HEIGHTS, Buffer, compressed, damaged, losses, pictures_of, to_rgb

HELD_OUT_SEED = 990_001
THRESHOLD = 0.4
BEGAN = time.monotonic()


def warm_up(eyes: Eyes, buffer: Buffer, batch: int) -> None:
    """Take every height once before the clock starts: kernels are loaded at their first use."""
    for height in sorted(set(HEIGHTS)):
        frames = buffer.batch(batch)
        torch.stack(list(losses(eyes, frames, damaged(frames[0], height)).values())).sum().backward()
        print(f"warm at {height} rows after {time.monotonic() - BEGAN:.0f} s", flush=True)


def train(eyes: Eyes, buffer: Buffer, seconds: float, batch: int, rate: float) -> tuple[Eyes, int]:
    """Train until the time is over; the running mean of the weights, and the number of steps."""
    decayed = [weight for weight in eyes.parameters() if weight.ndim > 1]
    plain = [weight for weight in eyes.parameters() if weight.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.02}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, fused=buffer.device == "cuda")
    mean = copy.deepcopy(eyes).eval()
    began = shown = time.monotonic()
    step = 0
    while (part := (time.monotonic() - began) / seconds) < 1.0:
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 300) * (0.5 * (1 + math.cos(math.pi * part)) + 0.01)
        frames = buffer.batch(batch)
        parts = losses(eyes, frames, damaged(frames[0], HEIGHTS[int(torch.randint(len(HEIGHTS), (1,)))]))
        optimizer.zero_grad(set_to_none=True)
        torch.stack(list(parts.values())).sum().backward()
        torch.nn.utils.clip_grad_norm_(eyes.parameters(), 5.0)
        optimizer.step()
        step += 1
        _follow(mean, eyes, min(0.999, (step + 1) / (step + 10)))
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            values = "  ".join(f"{name} {value.item():.3f}" for name, value in parts.items())
            print(f"{part:6.1%}  step {step}  frames drawn {buffer.drawn}  {values}", flush=True)
    return mean, step


@torch.no_grad()
def _follow(mean: Eyes, eyes: Eyes, keep: float) -> None:
    ours, theirs = list(mean.state_dict().values()), list(eyes.state_dict().values())
    floating = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.is_floating_point()]
    torch._foreach_lerp_([a for a, _ in floating], [b for _, b in floating], 1.0 - keep)


@torch.no_grad()
def evaluate(eyes: Eyes, device: str, chunks: int) -> dict[str, object]:
    """Figures on held-out frames at 360 lines, compressed about as the twin's videos are."""
    rng = np.random.default_rng(HELD_OUT_SEED)
    exported = Exported(eyes).eval().to(device)
    pairs = []
    for _ in range(chunks):
        chunk = draw_chunk(rng)
        yuv = pictures_of(torch.from_numpy(chunk.planes).to(device))
        rgb = to_rgb(compressed(yuv, torch.full((len(yuv),), 6.0, device=device)))
        found = exported(rgb.permute(0, 2, 3, 1).round().to(torch.uint8))
        boxes, scores, labels, scene = (part.float().cpu().numpy() for part in found)
        pairs.append((chunk, (boxes, scores, labels.astype(np.int64), scene)))
    return measure(pairs, THRESHOLD)


def write_onnx(eyes: Eyes, folder: Path) -> None:
    """Export the eyes, with the recipe that lies in the folder."""
    recipe = json.loads((folder / "eyes.json").read_text())
    metadata = {"classes": json.dumps(CLASSES), "scenes": json.dumps(SCENES), "recipe": json.dumps(recipe)}
    export_onnx(eyes, str(folder / "eyes.onnx"), metadata)
    print(f"eyes.onnx {(folder / 'eyes.onnx').stat().st_size / 1e6:.2f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=8.0, help="of training; drawing the first frames comes before")
    parser.add_argument("--end-at", type=float, help="seconds since 1970 at which training ends at the latest")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--smoke", action="store_true", help="a minute's run that only shows that everything works")
    parser.add_argument("--export-only", action="store_true", help="write ONNX from the eyes.pt that lies in --out")
    arguments = parser.parse_args()
    if arguments.export_only:
        eyes = Eyes(len(CLASSES), len(SCENES))
        eyes.load_state_dict(torch.load(arguments.out / "eyes.pt", map_location="cpu"))
        write_onnx(eyes, arguments.out)
        return
    if arguments.smoke:
        arguments.minutes, arguments.batch, arguments.workers = 0.4, 8, 1
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(arguments.seed)
    torch.set_float32_matmul_precision("high")
    arguments.out.mkdir(parents=True, exist_ok=True)

    buffer = Buffer(256 if arguments.smoke else 32_768, arguments.seed, arguments.workers, device)
    eyes = Eyes(len(CLASSES), len(SCENES)).to(device).to(memory_format=torch.channels_last)
    while buffer.drawn < (32 if arguments.smoke else 2_048):
        time.sleep(0.2)
    print(f"first frames after {time.monotonic() - BEGAN:.0f} s on {device}; {len(CLASSES)} classes", flush=True)
    warm_up(eyes, buffer, arguments.batch)
    seconds = min(60 * arguments.minutes, (arguments.end_at or math.inf) - time.time())
    mean, steps = train(eyes, buffer, seconds, arguments.batch, arguments.rate)
    buffer.close()
    torch.save(mean.state_dict(), arguments.out / "eyes.pt")

    figures = evaluate(mean.float(), device, 4 if arguments.smoke else 24)
    recipe = {
        "seed": arguments.seed,
        "held_out_seed": HELD_OUT_SEED,
        "minutes": arguments.minutes,
        "batch": arguments.batch,
        "rate": arguments.rate,
        "steps": steps,
        "frames_drawn": buffer.drawn,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "figures": figures,
    }
    (arguments.out / "eyes.json").write_text(json.dumps(recipe, indent=2) + "\n")
    print(as_lines(figures), flush=True)
    write_onnx(mean, arguments.out)
    print(f"{steps} steps, {time.monotonic() - BEGAN:.0f} s in all", flush=True)


if __name__ == "__main__":
    main()
