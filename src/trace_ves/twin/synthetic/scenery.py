"""Paints the twin's scenes from a seed: a backdrop with props for each kind of place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.twin.synthetic.drawing import Canvas, Colour, cutout, waves
from trace_ves.twin.synthetic.layout import HEIGHT, WIDTH
from trace_ves.twin.synthetic.tracks import Band, Bands
from trace_ves.twin.synthetic.vocabulary import vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray


Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class Backdrop:
    """A painted scene without events."""

    rgb: NDArray[np.float32]  # height x width x 3, from 0 to 255
    bands: Bands


def paint(scene: str, seed: Sequence[int]) -> Backdrop:
    """The backdrop of a scene of this kind; the same seed gives the same picture."""
    rng = np.random.default_rng(seed)
    canvas = Canvas()
    horizon = _PAINTERS[scene](canvas, rng)
    bands = Bands(ground=(horizon + 14.0, HEIGHT - 6.0), air=(34.0, horizon - 4.0))
    _place_props(canvas, rng, scene, horizon)
    canvas.rgb *= rng.uniform(0.9, 1.06) * rng.uniform(0.97, 1.03, 3).astype(np.float32)
    return Backdrop(np.clip(canvas.rgb, 0.0, 255.0), bands)


def _place_props(canvas: Canvas, rng: Rng, scene: str, horizon: float) -> None:
    """Place props along the horizon and above it, the far ones first."""
    kinds = vocabulary().scenes[scene]
    props = vocabulary().props
    light = 0.55 if scene == "city at night" else 1.0
    for name in rng.permutation(kinds.above)[: rng.integers(1, 3)]:
        size = int(rng.integers(*props[name].size, endpoint=True))
        centre = rng.uniform(30, max(31, horizon * 0.55))
        canvas.paste(cutout(str(name), size), rng.uniform(40, WIDTH - 40), centre + size / 2)
    count = int(rng.integers(3, 7))
    feet = np.sort(horizon + rng.uniform(4, 0.42 * (HEIGHT - horizon), count))
    columns = (np.arange(count) + rng.uniform(0.1, 0.9, count)) * WIDTH / count
    for name, foot, x in zip(rng.choice(kinds.ground, size=count), feet, rng.permutation(columns), strict=True):
        size = int(rng.integers(*props[name].size, endpoint=True))
        canvas.paste(cutout(str(name), size), x, foot, shadow=True, brightness=light)


def _shade(rng: Rng, colour: Colour, spread: float = 12.0) -> Colour:
    """The colour with a random deviation."""
    red, green, blue = np.clip(np.array(colour) + rng.uniform(-spread, spread, 3), 0, 255)
    return float(red), float(green), float(blue)


def _sky(canvas: Canvas, rng: Rng, rows: Band, top: Colour, low: Colour) -> float:
    """Paint a sky down to a random horizon between these rows, which is returned."""
    horizon = float(rng.uniform(*rows))
    canvas.gradient(_shade(rng, top), _shade(rng, low), 0, horizon + 20)
    return horizon


def _meadow(canvas: Canvas, rng: Rng, horizon: float, near: Colour, far: Colour) -> None:
    """Two rows of hills, and ground with a soft texture."""
    canvas.below(waves(rng, horizon - 18, 22, 700), _shade(rng, far), 0.4)
    canvas.below(waves(rng, horizon, 7, 900), _shade(rng, near), 0.5)
    canvas.texture(rng, 5.0, horizon + 6, HEIGHT, (6, 18))


def _park(canvas: Canvas, rng: Rng) -> float:
    horizon = _sky(canvas, rng, (165, 200), (96, 168, 232), (214, 236, 250))
    _meadow(canvas, rng, horizon, (128, 196, 96), (104, 172, 104))
    path = _shade(rng, (222, 206, 170))
    canvas.ellipse(WIDTH * rng.uniform(0.3, 0.7), HEIGHT + 30, rng.uniform(260, 420), rng.uniform(60, 90), path)
    return horizon


def _farm(canvas: Canvas, rng: Rng) -> float:
    horizon = _sky(canvas, rng, (150, 185), (120, 180, 226), (248, 236, 208))
    _meadow(canvas, rng, horizon, (190, 186, 96), (150, 170, 92))
    furrow = _shade(rng, (150, 124, 70))
    for row in range(5):
        y = horizon + 22 + 36 * row
        canvas.ellipse(WIDTH / 2, y, WIDTH * 0.75, 2.0 + row * 1.2, furrow, opacity=0.5)
    fence = _shade(rng, (236, 228, 214))
    for post in range(0, WIDTH, 40):
        canvas.rectangle(post + 4, horizon - 12, post + 9, horizon + 12, fence)
    canvas.rectangle(0, horizon - 7, WIDTH, horizon - 3, fence)
    canvas.rectangle(0, horizon + 2, WIDTH, horizon + 6, fence)
    return horizon


def _forest(canvas: Canvas, rng: Rng) -> float:
    horizon = _sky(canvas, rng, (170, 205), (150, 190, 190), (206, 226, 206))
    for depth, green in enumerate(((120, 160, 128), (84, 130, 92), (60, 104, 70))):
        canvas.below(waves(rng, horizon - 60 + 24 * depth, 34, 160 - 20 * depth), _shade(rng, green), 0.3)
    for x in rng.uniform(0, WIDTH, 9):
        trunk = float(rng.uniform(6, 13))
        canvas.rectangle(x, horizon - rng.uniform(60, 130), x + trunk, horizon + 14, _shade(rng, (96, 74, 56)))
    canvas.below(waves(rng, horizon + 4, 6, 400), _shade(rng, (104, 116, 66)), 0.6)
    canvas.texture(rng, 7.0, horizon + 10, HEIGHT, (5, 11))
    return horizon


def _street(canvas: Canvas, rng: Rng) -> float:
    horizon = _sky(canvas, rng, (170, 200), (140, 184, 226), (226, 232, 238))
    _houses(canvas, rng, horizon, ((206, 170, 140), (188, 196, 204), (214, 196, 164), (176, 150, 150)), (120, 140, 160))
    _road(canvas, rng, horizon, (196, 192, 186), (112, 114, 120))
    return horizon


def _night_city(canvas: Canvas, rng: Rng) -> float:
    horizon = _sky(canvas, rng, (175, 205), (16, 20, 54), (72, 54, 108))
    for x, y in zip(rng.uniform(0, WIDTH, 40), rng.uniform(0, horizon * 0.6, 40), strict=True):
        canvas.ellipse(x, y, 1.1, 1.1, (235, 235, 215))
    _houses(canvas, rng, horizon, ((34, 36, 66), (44, 42, 76), (28, 32, 58)), (244, 208, 110))
    _road(canvas, rng, horizon, (84, 82, 104), (54, 54, 70))
    return horizon


def _houses(canvas: Canvas, rng: Rng, horizon: float, walls: Sequence[Colour], window: Colour) -> None:
    x = -20.0
    while x < WIDTH:
        width, height = float(rng.uniform(50, 100)), float(rng.uniform(60, 150))
        canvas.rectangle(x, horizon - height, x + width, horizon + 8, _shade(rng, walls[int(rng.integers(len(walls)))]))
        for left in np.arange(x + 8, x + width - 12, 17):
            for top in np.arange(horizon - height + 9, horizon - 14, 22):
                if rng.random() < 0.72:
                    canvas.rectangle(left, top, left + 8, top + 11, _shade(rng, window))
        x += width + rng.uniform(-2, 8)


def _road(canvas: Canvas, rng: Rng, horizon: float, pavement: Colour, asphalt: Colour) -> None:
    kerb = horizon + 46
    canvas.gradient(_shade(rng, pavement), _shade(rng, pavement), horizon + 4, kerb)
    canvas.gradient(_shade(rng, asphalt, 6), _shade(rng, asphalt, 6), kerb, HEIGHT)
    canvas.rectangle(0, kerb, WIDTH, kerb + 3, (232, 230, 224))
    canvas.texture(rng, 3.0, kerb, HEIGHT, (4, 9))
    middle = (kerb + HEIGHT) / 2
    for x in range(int(rng.integers(-60, 0)), WIDTH, 84):
        canvas.rectangle(x, middle, x + 44, middle + 5, (226, 222, 206))


def _beach(canvas: Canvas, rng: Rng) -> float:
    horizon = _sky(canvas, rng, (150, 180), (70, 170, 236), (206, 240, 252))
    _water(canvas, rng, (horizon, horizon + 60), (44, 150, 196), (110, 206, 214))
    canvas.below(waves(rng, horizon + 50, 7, 520), (246, 250, 246))
    canvas.below(waves(rng, horizon + 56, 7, 520), _shade(rng, (240, 216, 164)), 0.25)
    canvas.texture(rng, 4.0, horizon + 66, HEIGHT, (4, 8))
    return horizon + 14


def _harbour(canvas: Canvas, rng: Rng) -> float:
    horizon = _sky(canvas, rng, (140, 170), (124, 176, 214), (236, 226, 214))
    canvas.below(waves(rng, horizon - 12, 12, 900), _shade(rng, (132, 150, 150)))
    _water(canvas, rng, (horizon, HEIGHT), (64, 124, 160), (28, 84, 124))
    quay = HEIGHT - float(rng.uniform(22, 34))
    canvas.rectangle(0, quay, WIDTH, HEIGHT, _shade(rng, (168, 150, 128)))
    for x in range(0, WIDTH, 32):
        canvas.rectangle(x, quay, x + 2, HEIGHT, (128, 112, 94))
    return horizon


def _water(canvas: Canvas, rng: Rng, rows: Band, far: Colour, near: Colour) -> None:
    y0, y1 = rows
    canvas.gradient(_shade(rng, far), _shade(rng, near), y0, y1)
    canvas.texture(rng, 5.0, y0, y1, (3, 34))
    for _ in range(36):
        y = float(rng.uniform(y0 + 4, y1))
        canvas.ellipse(
            float(rng.uniform(0, WIDTH)), y, 5 + 16 * (y - y0) / (y1 - y0), 1.1, (226, 242, 248), opacity=0.55
        )


def _desert(canvas: Canvas, rng: Rng) -> float:
    horizon = _sky(canvas, rng, (160, 190), (104, 176, 222), (252, 226, 176))
    for depth, sand in enumerate(((226, 176, 116), (234, 190, 124), (240, 204, 142))):
        canvas.below(waves(rng, horizon - 24 + 24 * depth, 20, 620 - 120 * depth), _shade(rng, sand, 8), 0.35)
    canvas.texture(rng, 3.5, horizon + 24, HEIGHT, (3, 22))
    return horizon


def _snowfield(canvas: Canvas, rng: Rng) -> float:
    horizon = _sky(canvas, rng, (165, 195), (132, 166, 204), (224, 232, 242))
    canvas.below(waves(rng, horizon - 44, 46, 260), _shade(rng, (150, 166, 188)), 0.2)
    canvas.below(waves(rng, horizon - 14, 26, 420), _shade(rng, (204, 216, 230)), 0.2)
    canvas.below(waves(rng, horizon + 2, 6, 700), _shade(rng, (238, 243, 248), 5), 0.12)
    canvas.texture(rng, 3.0, horizon + 8, HEIGHT, (8, 26))
    return horizon


def _kitchen(canvas: Canvas, rng: Rng) -> float:
    counter = float(rng.uniform(195, 225))
    canvas.gradient(_shade(rng, (244, 232, 210)), _shade(rng, (232, 216, 190)), 0, counter)
    grout, tile = (214, 208, 198), 26
    for y in np.arange(counter - 3 * tile, counter, tile):
        canvas.rectangle(0, y, WIDTH, y + 2, grout)
    for x in range(0, WIDTH, tile):
        canvas.rectangle(x, counter - 3 * tile, x + 2, counter, grout)
    canvas.gradient(_shade(rng, (172, 128, 92)), _shade(rng, (140, 100, 70)), counter, HEIGHT)
    canvas.rectangle(0, counter, WIDTH, counter + 5, _shade(rng, (206, 168, 130)))
    canvas.texture(rng, 5.0, counter + 5, HEIGHT, (3, 40))
    return counter


def _living_room(canvas: Canvas, rng: Rng) -> float:
    skirting = float(rng.uniform(205, 235))
    wall = ((196, 214, 206), (226, 204, 196), (200, 206, 228), (232, 222, 196))[int(rng.integers(4))]
    canvas.gradient(_shade(rng, wall), _shade(rng, wall), 0, skirting)
    stripe = _shade(rng, wall, 16)
    for x in range(int(rng.integers(0, 30)), WIDTH, 46):
        canvas.rectangle(x, 0, x + 16, skirting, stripe)
    canvas.rectangle(0, skirting - 10, WIDTH, skirting, (244, 240, 232))
    canvas.gradient(_shade(rng, (176, 134, 96)), _shade(rng, (150, 110, 78)), skirting, HEIGHT)
    for y in np.arange(skirting + 12, HEIGHT, 24):
        canvas.rectangle(0, y, WIDTH, y + 1, (128, 94, 66))
    rug = _shade(rng, ((176, 76, 76), (82, 112, 160), (104, 140, 104))[int(rng.integers(3))])
    canvas.ellipse(WIDTH * rng.uniform(0.35, 0.65), HEIGHT - 34, 230, 44, rug)
    canvas.ellipse(WIDTH * 0.5, HEIGHT - 34, 170, 30, _shade(rng, rug, 20), opacity=0.6)
    return skirting


def _office(canvas: Canvas, rng: Rng) -> float:
    floor = float(rng.uniform(205, 235))
    canvas.gradient(_shade(rng, (222, 228, 232)), _shade(rng, (206, 214, 220)), 0, floor)
    for x in range(int(rng.integers(-100, 0)), WIDTH, 210):
        canvas.rectangle(x, 34, x + 190, floor - 62, _shade(rng, (170, 200, 222)))
        for slat in range(40, int(floor - 62), 9):
            canvas.rectangle(x, slat, x + 190, slat + 2, (232, 238, 242))
    canvas.gradient(_shade(rng, (150, 158, 168)), _shade(rng, (120, 128, 140)), floor, HEIGHT)
    desk = _shade(rng, (222, 200, 168))
    canvas.rectangle(0, floor + 6, WIDTH, floor + 60, desk)
    canvas.rectangle(0, floor + 60, WIDTH, floor + 66, _shade(rng, (170, 146, 116)))
    canvas.texture(rng, 3.0, floor + 66, HEIGHT, (2, 5))
    return floor


_PAINTERS: Final[dict[str, Callable[[Canvas, Rng], float]]] = {  # each returns the row of the horizon or floor
    "kitchen": _kitchen,
    "living room": _living_room,
    "office": _office,
    "park": _park,
    "farm": _farm,
    "street": _street,
    "city at night": _night_city,
    "beach": _beach,
    "harbour": _harbour,
    "forest": _forest,
    "desert": _desert,
    "snowfield": _snowfield,
}
