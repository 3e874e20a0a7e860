"""A world in grey codes: pictures whose pixels spell what is in them, and eyes that read such pixels.

So every rule is tested through the real methods, without weights and without a renderer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import simplejpeg
from numpy.typing import NDArray
from pydantic import BaseModel

from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.core import Clip, Frame, Interval, ObservationStrategy
from trace_ves.twin.glance.glance import Glance
from trace_ves.twin.glance.parsed_question import lexicon
from trace_ves.twin.glance.sightings import Sighting, View

THINGS = tuple(lexicon().things)
SCENES = tuple(sorted(lexicon().scenes))
FPS = 4


@dataclass
class ArrayPicture:
    """A picture that is its pixels, and counts how often they were asked for."""

    pixels: NDArray[np.uint8]
    made: int = 0

    @property
    def width(self) -> int:
        return self.pixels.shape[1]

    @property
    def height(self) -> int:
        return self.pixels.shape[0]

    def rgb(self) -> NDArray[np.uint8]:
        self.made += 1
        return self.pixels

    def jpeg(self, quality: int = 90) -> bytes:
        data: bytes = simplejpeg.encode_jpeg(self.pixels, quality=quality)
        return data


BLOCK_PX = 16
STEP = 12
"""Shades this far apart survive a JPEG of flat blocks."""
LEVELS = 255 // STEP


class CodePicture(ArrayPicture):
    """Blocks of grey that survive a JPEG: each number of the code is two of them, its digits to the base `LEVELS`.

    The first three numbers name the scene; each further three are a thing: its number, its score, its size.
    """

    width = 640
    height = 360


def code(scene: str, things: Sequence[tuple[str, float, float]]) -> CodePicture:
    cells = [(SCENES.index(scene) + 1, 0, 0)]
    cells += [(THINGS.index(name), round(100 * score), round(100 * size)) for name, score, size in things]
    shades = STEP * np.stack(np.divmod(np.array(cells).reshape(-1), LEVELS), axis=-1).reshape(1, -1, 1).astype(np.uint8)
    return CodePicture(shades.repeat(BLOCK_PX, axis=0).repeat(BLOCK_PX, axis=1).repeat(3, axis=2))


def read_code(pixels: NDArray[np.uint8]) -> View:
    """Eyes for such pictures."""
    means = pixels.reshape(BLOCK_PX, -1, BLOCK_PX, 3).mean(axis=(0, 2, 3))
    digits = np.rint(means / STEP).astype(int).reshape(-1, 2)
    (scene, _, _), *cells = (digits @ [LEVELS, 1]).reshape(-1, 3).tolist()
    sightings = (Sighting(THINGS[n], score / 100, (0.0, 0.0, size / 100, size / 100)) for n, score, size in cells)
    return View(tuple(sightings), SCENES[scene - 1])


@dataclass(frozen=True)
class Entrance:
    """A thing that is there from a start to an end."""

    name: str
    start: float
    end: float
    score: float = 0.9
    size: float = 0.2


@dataclass(frozen=True)
class CodeVideo:
    """A video source of coded pictures, four a second."""

    duration: float
    entrances: tuple[Entrance, ...] = ()
    scenes: tuple[tuple[float, str], ...] = ((0.0, "street"),)
    """When each scene begins."""

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        return tuple(self.frame(moment) for moment in seconds)

    def frame(self, moment: float) -> Frame:
        number = min(int(moment * FPS + 1e-6), int(self.duration * FPS) - 1)
        now = number / FPS
        things = [(e.name, e.score, e.size) for e in self.entrances if e.start <= now <= e.end]
        scene = next(name for start, name in reversed(self.scenes) if start <= now)
        return Frame(number, now, code(scene, things))

    def clip(self, start: float, end: float, frames: int) -> Clip:
        step = (end - start) / frames
        moments = [start + (n + 0.5) * step for n in range(frames)]
        return Clip(Interval(start, end), ObservationStrategy(1 / step), self.frames_at(moments))


@pytest.fixture
def glance() -> Glance:
    return Glance(read_code)


@pytest.fixture
def ask_stage(glance: Glance) -> Any:
    """Ask one stage with these variables and clips; the raw reply as a dictionary."""

    class Anything(BaseModel, extra="allow"):
        pass

    def ask(stage: str, clips: Sequence[Clip] = (), *, sample: int = 0, **variables: Any) -> dict[str, Any]:
        [generation] = glance.generate([Request(Prompt(stage, ""), variables, Anything, tuple(clips), sample)])
        assert not isinstance(generation.reply, ModelFault), generation.reply
        return generation.reply.model_dump()

    return ask
