"""`lab`: glance's rules over simulated eyes, on twins that were never drawn. For policy work.

A simulation throughout: what it answers says how a policy spends its frames, and nothing about seeing.
"""

from __future__ import annotations

import hashlib
import threading
import tomllib
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, NoReturn

from cachetools import LRUCache
from pydantic import BaseModel

from trace_ves.core import Frame, InputError, VideoError
from trace_ves.twin.glance.glance import RuleBackbone
from trace_ves.twin.glance.sightings import GLIMPSED, Sighting, View
from trace_ves.twin.synthetic.layout import HEIGHT, WIDTH
from trace_ves.twin.synthetic.truth import WORLD_FILE, read_truth
from trace_ves.twin.synthetic.vocabulary import vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trace_ves.core.observation import Picture
    from trace_ves.twin.glance.sightings import Box
    from trace_ves.twin.synthetic.truth import Presence, VideoTruth

TICKS_A_SECOND: Final = 10240
"""The time base that a drawn film gets in its MP4."""


@dataclass(frozen=True, slots=True)
class WorldPicture:
    """Which frame of which world; satisfies `core.Picture` as far as something without pixels can."""

    number: int
    width: int
    height: int
    digest: str
    """Of the truth, so that frames of different worlds differ."""
    truth: VideoTruth = field(repr=False, compare=False)

    def jpeg(self, quality: int = 90) -> NoReturn:  # noqa: ARG002  the protocol's signature
        """Never: there are no pixels."""
        raise VideoError(f"{self.truth.video}: this video was never drawn; its frames have no pixels.")

    def rgb(self) -> NoReturn:
        """Never: there are no pixels."""
        self.jpeg()


class WorldVideo:
    """A video that was made up but never drawn; satisfies `core.VideoSource`."""

    def __init__(self, truth: VideoTruth) -> None:
        self._truth = truth
        self.duration: Final = truth.frames / truth.fps

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        """The frame on screen at each of these moments, one for each, in the order asked."""
        rows = HEIGHT if height is None else min(height, HEIGHT)
        width = max(1, round(WIDTH * rows / HEIGHT))
        return tuple(self._frame(moment, width, rows) for moment in seconds)

    def close(self) -> None:
        """Nothing is open."""

    def _frame(self, moment: float, width: int, rows: int) -> Frame:
        truth = self._truth
        if not 0 <= moment <= self.duration:
            raise VideoError(f"{truth.video}: there is no frame at {moment} s; moments go from 0 to {self.duration} s.")
        number = min(int(moment * truth.fps) + 1, truth.frames - 1)
        while number / truth.fps > moment:  # floats are compared as the decoder does: a frame's own time finds it
            number -= 1
        picture = WorldPicture(number, width, rows, truth.digest, truth)
        return Frame(number * TICKS_A_SECOND // truth.fps, number / truth.fps, picture)


class ShownFigures(BaseModel):
    """What was measured on things that show to some part at least."""

    from_part: float
    size_ratios: tuple[float, ...]
    """The quantiles of the reported size, as a part of the true one."""
    scores: tuple[tuple[float, ...], ...]
    """By size: the quantiles of its score under its own name."""


class PictureFigures(BaseModel):
    """What the eyes name that is not there, in pictures of some number of rows at least."""

    from_rows: int
    misnamed: float
    """The part of the things in view that get a wrong name, beside their own or instead of it."""
    phantoms: float
    """The part of frames in which something is named where nothing is."""
    wrong_scores: tuple[float, ...]
    """The quantiles of the score of a wrong name."""
    no_scene: float
    """The part of frames whose scene is not named."""


class Figures(BaseModel):
    """What was measured: the contents of `eyes.toml`."""

    levels: tuple[float, ...]
    """Where quantiles are given, from 0 to 1."""
    likeness: float
    """How alike the scores in two frames of one visit are: the correlation of their normal scores."""
    size_likeness: float
    """How alike the ratios of reported to true size are in two frames of one visit."""
    place_error: float
    """The standard deviation of where a box lies, across and at its foot, as a part of its longer side."""
    lookalikes: float
    """The part of wrong names that belong to something that looks alike."""
    sizes_px: tuple[float, ...]
    """The lower bounds of a thing's longer side, in the pixels that the eyes get, ascending from 0."""
    shown: tuple[ShownFigures, ...]
    """By part, ascending from 0."""
    picture: tuple[PictureFigures, ...]
    """By rows, ascending from 0."""

    def at_part(self, part: float) -> ShownFigures:
        """The figures for a thing of which this part shows."""
        return self.shown[bisect_right(self.shown, part, key=lambda each: each.from_part) - 1]

    def at_rows(self, rows: float) -> PictureFigures:
        """The figures for pictures of so many rows."""
        return self.picture[bisect_right(self.picture, rows, key=lambda each: each.from_rows) - 1]

    def quantile(self, quantiles: tuple[float, ...], chance: float) -> float:
        """The value at this place (0 to 1) of a distribution that is given by its quantiles at `levels`."""
        above = min(max(bisect_right(self.levels, chance), 1), len(self.levels) - 1)
        low, high = self.levels[above - 1], self.levels[above]
        part = (chance - low) / (high - low)
        return quantiles[above - 1] + part * (quantiles[above] - quantiles[above - 1])


@cache
def figures() -> Figures:
    """The figures that ship with this package."""
    return Figures.model_validate(tomllib.loads((files(__package__) / "eyes.toml").read_text(encoding="utf-8")))


MOST_VIEWS: Final = 1 << 16
"""Views that are remembered. It only saves time: no view depends on it."""

_NORMAL: Final = NormalDist()


class SimulatedEyes:
    """Looks at the frames of a `WorldVideo`; a `glance.Look`."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._figures = figures()
        self._seen = lru_cache(MOST_VIEWS)(self._view)

    def __call__(self, picture: Picture, factor: float) -> View:
        """What the eyes report of this picture, its sides divided by a factor."""
        if not isinstance(picture, WorldPicture):
            raise InputError("lab sees undrawn twins alone, not the pixels of a video; glance looks at pixels.")
        return self._seen(picture, factor)

    def _view(self, picture: WorldPicture, factor: float) -> View:
        rows = picture.height / factor
        truth, number = picture.truth, picture.number
        mistakes = self._figures.at_rows(rows)
        sightings = []
        for there in truth.presences(number):
            name = f"{truth.video}/{there.track}"
            sightings.append(self._sighting(name, number, there, rows))
            if self._chance(name, number, "misnamed") < mistakes.misnamed:
                sightings.append(self._misnamed(name, there, mistakes))
        scene = truth.scene_at(number)
        place = f"{truth.video}/scene {scene.first if scene else 0}"
        if self._chance(place, number, "phantom") < mistakes.phantoms:
            sightings.append(self._phantom(place, mistakes))
        hidden = self._chance(place, number, "scene") < mistakes.no_scene
        reported = tuple(sighting for sighting in sightings if sighting.score >= GLIMPSED)
        return View(reported, None if hidden or scene is None else scene.scene)

    def _sighting(self, name: str, number: int, there: Presence, rows: float) -> Sighting:
        """Something that is there, under its own name."""
        measured = self._figures
        shown = measured.at_part(there.part)
        by_size = shown.scores[bisect_right(measured.sizes_px, there.size_px * rows / HEIGHT) - 1]
        score = measured.quantile(by_size, self._chance(name, number, "seen"))
        ratio = measured.quantile(shown.size_ratios, self._chance(name, number, "size", measured.size_likeness))
        off = [measured.place_error * _NORMAL.inv_cdf(self._uniform(f"{name}@{number}", way)) for way in ("x", "y")]
        return Sighting(there.sprite, score, _move_box(_scale_box(there.box, ratio), off[0], off[1]))

    def _misnamed(self, name: str, there: Presence, mistakes: PictureFigures) -> Sighting:
        """A wrong name for something that is there; the same one in all of its frames."""
        alike = _lookalikes(there.sprite)
        pool = (
            alike if alike and self._uniform(name, "alike") < self._figures.lookalikes else tuple(vocabulary().sprites)
        )
        other = pool[int(self._uniform(name, "other name") * len(pool))]
        score = self._figures.quantile(mistakes.wrong_scores, self._uniform(name, "wrong score"))
        return Sighting(other, score, there.box)

    def _phantom(self, place: str, mistakes: PictureFigures) -> Sighting:
        """Something that is not there; the same one throughout a scene, as a prop of it is mistaken."""
        pool = tuple(vocabulary().sprites)
        name = pool[int(self._uniform(place, "phantom name") * len(pool))]
        left = 0.9 * self._uniform(place, "phantom place")
        score = self._figures.quantile(mistakes.wrong_scores, self._uniform(place, "phantom score"))
        return Sighting(name, score, (left, 0.6, left + 0.05, 0.7))

    def _chance(self, name: str, frame: int, use: str, likeness: float | None = None) -> float:
        """From 0 to 1, evenly; alike in the frames of one thing by the measured correlation."""
        likeness = self._figures.likeness if likeness is None else likeness
        whole, single = (_NORMAL.inv_cdf(u) for u in (self._uniform(name, use), self._uniform(f"{name}@{frame}", use)))
        return _NORMAL.cdf(sqrt(likeness) * whole + sqrt(1 - likeness) * single)

    def _uniform(self, name: str, use: str) -> float:
        """A number between 0 and 1 that belongs to these words."""
        digest = hashlib.blake2b(f"{self._seed}\n{name}\n{use}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") + 0.5) / 2**64


def _move_box(box: Box, across: float, down: float) -> Box:
    """The box, moved by parts of its longer side."""
    left, top, right, bottom = box
    size_px = max((right - left) * WIDTH, (bottom - top) * HEIGHT)
    x, y = across * size_px / WIDTH, down * size_px / HEIGHT
    return left + x, top + y, right + x, bottom + y


def _scale_box(box: Box, ratio: float) -> Box:
    """A box of the same middle, its sides multiplied."""
    left, top, right, bottom = box
    x, y, across, down = (left + right) / 2, (top + bottom) / 2, ratio * (right - left) / 2, ratio * (bottom - top) / 2
    return x - across, y - down, x + across, y + down


@cache
def _lookalikes(name: str) -> tuple[str, ...]:
    sprites = vocabulary().sprites
    return tuple(other for other in sprites if other in sprites[name].resembles or name in sprites[other].resembles)


MOST_WORLDS: Final = 4
"""World files that are kept in memory."""


class Lab(RuleBackbone):
    """Glance with its eyes exchanged. It brings its own videos (`protocol.OpensVideos`)."""

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__("lab" if not seed else f"lab:{seed}", SimulatedEyes(seed))
        self._worlds: LRUCache[Path, dict[str, VideoTruth]] = LRUCache(MOST_WORLDS)
        self._lock = threading.Lock()

    def open_video(self, path: Path) -> WorldVideo:
        """The video that a twin's world describes under this path, whether or not it was drawn."""
        folder = path.absolute().parents[1]
        name = path.absolute().relative_to(folder).as_posix()
        truth = self._world(folder / WORLD_FILE).get(name)
        if truth is None:
            raise InputError(
                f"{folder / WORLD_FILE}: there is no video {name}; lab answers questions about twins alone."
            )
        return WorldVideo(truth)

    def _world(self, path: Path) -> dict[str, VideoTruth]:
        with self._lock:
            if path not in self._worlds:
                if not path.is_file():
                    raise InputError(
                        f"{path} is missing: lab answers questions about twins alone; trace-ves synth makes one."
                    )
                self._worlds[path] = read_truth(path)
            return self._worlds[path]
