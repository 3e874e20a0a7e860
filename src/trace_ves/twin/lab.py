"""`lab`: the rules of glance over a simulated detector, on twins without videos, to compare policies.

It is a simulation: its answers show how a policy spends its frames, and nothing about vision.
"""

from __future__ import annotations

import hashlib
import tomllib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib.resources import files
from math import sqrt
from pathlib import Path
from random import Random
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, NoReturn

from pydantic import BaseModel

from trace_ves.core import Frame, InputError, VideoError
from trace_ves.twin.glance.glance import RuleBackbone
from trace_ves.twin.glance.sightings import GLIMPSED, Box, Moment, Sighting, View, Visit, find_visits
from trace_ves.twin.synthetic.layout import HEIGHT, WIDTH
from trace_ves.twin.synthetic.truth import WORLD_FILE, Presence, VideoTruth, read_truth
from trace_ves.twin.synthetic.vocabulary import vocabulary

if TYPE_CHECKING:
    from trace_ves.core.observation import Picture
    from trace_ves.twin.glance.prompt_reading import CallContext

TICKS_PER_SECOND: Final = 10240  # the time base of a twin's MP4 files


@dataclass(frozen=True, slots=True)
class WorldPicture:
    """A frame of a world, without pixels; satisfies `core.Picture`."""

    number: int
    width: int
    height: int
    digest: str  # Of the truth; distinguishes worlds
    truth: VideoTruth = field(repr=False, compare=False)

    def jpeg(self, quality: int = 90) -> NoReturn:  # noqa: ARG002  the protocol's signature
        """Raise a `VideoError`, because there are no pixels."""
        raise VideoError(
            f"{self.truth.video}: this video was not drawn, so its frames have no pixels; use the lab backbone."
        )

    def rgb(self) -> NoReturn:
        """Raise a `VideoError`, because there are no pixels."""
        self.jpeg()


class WorldVideo:
    """A video of a world that was not drawn; satisfies `core.VideoSource`."""

    def __init__(self, truth: VideoTruth) -> None:
        self._truth = truth
        self.duration: Final = truth.frames / truth.fps

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        """The frame on screen at each of these moments, in their order."""
        rows = HEIGHT if height is None else min(height, HEIGHT)
        width = max(1, round(WIDTH * rows / HEIGHT))
        return tuple(self._frame(moment, width, rows) for moment in seconds)

    def close(self) -> None:
        """Do nothing."""

    def _frame(self, moment: float, width: int, rows: int) -> Frame:
        truth = self._truth
        if not 0 <= moment <= self.duration:
            raise VideoError(f"{truth.video}: no frame at {moment} s; give a moment from 0 to {self.duration} s.")
        number = min(int(moment * truth.fps) + 1, truth.frames - 1)
        while number / truth.fps > moment:  # compares floats as the decoder does, so that a frame's own time matches
            number -= 1
        picture = WorldPicture(number, width, rows, truth.digest, truth)
        return Frame(number * TICKS_PER_SECOND // truth.fps, number / truth.fps, picture)


class ShownFigures(BaseModel):
    """Measurements of objects of which at least `from_part` is visible."""

    from_part: float
    size_ratios: tuple[float, ...]  # Quantiles of the reported size, as a ratio to the true one
    scores: tuple[tuple[float, ...], ...]  # By size: quantiles of the score under the true name


class PictureFigures(BaseModel):
    """False names in pictures with at least this number of rows."""

    from_rows: int
    misnamed: float  # Share of visible things that get a wrong name, with or without their own
    phantoms: float  # Share of frames in which something is named where nothing is
    wrong_scores: tuple[float, ...]  # Quantiles of the score of a wrong name
    no_scene: float  # Share of frames whose scene is not named


class Figures(BaseModel):
    """The measurements in `eyes.toml`."""

    levels: tuple[float, ...]  # The levels of all quantiles, from 0 to 1
    likeness: float  # Correlation of the normal scores of two frames of one visit
    size_likeness: float  # The same for the ratios of reported to true size
    place_error: float  # Standard deviation of a box's position, as a part of its longer side
    lookalikes: float  # Share of wrong names that belong to a look-alike
    sizes_px: tuple[float, ...]  # Lower bounds of the longer side in pixels, ascending from 0
    shown: tuple[ShownFigures, ...]  # By part, ascending from 0
    picture: tuple[PictureFigures, ...]  # By rows, ascending from 0

    def at_part(self, part: float) -> ShownFigures:
        """The figures for a thing of which this part is visible."""
        return self.shown[bisect_right(self.shown, part, key=lambda each: each.from_part) - 1]

    def at_rows(self, rows: float) -> PictureFigures:
        """The figures for pictures with this number of rows."""
        return self.picture[bisect_right(self.picture, rows, key=lambda each: each.from_rows) - 1]

    def quantile(self, quantiles: tuple[float, ...], chance: float) -> float:
        """The value at `chance` (0 to 1) of a distribution with these quantiles."""
        above = min(max(bisect_right(self.levels, chance), 1), len(self.levels) - 1)
        low, high = self.levels[above - 1], self.levels[above]
        part = (chance - low) / (high - low)
        return quantiles[above - 1] + part * (quantiles[above] - quantiles[above - 1])


MOST_VIEWS: Final = 1 << 16  # Size of the cache of views

_NORMAL: Final = NormalDist()


class SimulatedEyes:
    """Looks at the frames of a `WorldVideo`; a `glance.Look`."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        text = (files(__package__) / "eyes.toml").read_text(encoding="utf-8")
        self._figures = Figures.model_validate(tomllib.loads(text))
        self._seen = lru_cache(MOST_VIEWS)(self._view)

    def __call__(self, picture: Picture, factor: float) -> View:
        """The view of this picture, with its sides divided by a factor."""
        if not isinstance(picture, WorldPicture):
            raise InputError("lab only sees twins without videos; use glance to look at pixels.")
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
        """A visible thing under its own name."""
        measured = self._figures
        shown = measured.at_part(there.part)
        by_size = shown.scores[bisect_right(measured.sizes_px, there.size_px * rows / HEIGHT) - 1]
        score = measured.quantile(by_size, self._chance(name, number, "seen"))
        ratio = measured.quantile(shown.size_ratios, self._chance(name, number, "size", measured.size_likeness))
        off = [measured.place_error * _NORMAL.inv_cdf(self._uniform(f"{name}@{number}", way)) for way in ("x", "y")]
        return Sighting(there.sprite, score, _misplace(there.box, ratio, *off))

    def _misnamed(self, name: str, there: Presence, mistakes: PictureFigures) -> Sighting:
        """A visible thing under a wrong name, which is the same in all its frames."""
        alike = _lookalikes(there.sprite)
        pool = (
            alike if alike and self._uniform(name, "alike") < self._figures.lookalikes else tuple(vocabulary().sprites)
        )
        other = pool[int(self._uniform(name, "other name") * len(pool))]
        score = self._figures.quantile(mistakes.wrong_scores, self._uniform(name, "wrong score"))
        return Sighting(other, score, there.box)

    def _phantom(self, place: str, mistakes: PictureFigures) -> Sighting:
        """A thing that is not there, the same throughout a scene, like a misread prop."""
        pool = tuple(vocabulary().sprites)
        name = pool[int(self._uniform(place, "phantom name") * len(pool))]
        left = 0.9 * self._uniform(place, "phantom place")
        score = self._figures.quantile(mistakes.wrong_scores, self._uniform(place, "phantom score"))
        return Sighting(name, score, (left, 0.6, left + 0.05, 0.7))

    def _chance(self, name: str, frame: int, use: str, likeness: float | None = None) -> float:
        """A uniform number from 0 to 1, correlated between the frames of one thing as measured."""
        likeness = self._figures.likeness if likeness is None else likeness
        whole, single = (_NORMAL.inv_cdf(u) for u in (self._uniform(name, use), self._uniform(f"{name}@{frame}", use)))
        return _NORMAL.cdf(sqrt(likeness) * whole + sqrt(1 - likeness) * single)

    def _uniform(self, name: str, use: str) -> float:
        """A number between 0 and 1 that depends only on these texts and the seed."""
        digest = hashlib.blake2b(f"{self._seed}\n{name}\n{use}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") + 0.5) / 2**64


def _misplace(box: Box, ratio: float, across: float, down: float) -> Box:
    """The box, scaled around its centre by a ratio and then moved by multiples of its longer side."""
    left, top, right, bottom = box
    x, y = (left + right) / 2, (top + bottom) / 2
    half_width, half_height = ratio * (right - left) / 2, ratio * (bottom - top) / 2
    left, top, right, bottom = x - half_width, y - half_height, x + half_width, y + half_height
    size_px = max((right - left) * WIDTH, (bottom - top) * HEIGHT)
    x, y = across * size_px / WIDTH, down * size_px / HEIGHT
    return left + x, top + y, right + x, bottom + y


@cache
def _lookalikes(name: str) -> tuple[str, ...]:
    sprites = vocabulary().sprites
    return tuple(other for other in sprites if other in sprites[name].resembles or name in sprites[other].resembles)


def _misread(moment: Moment, misread: Sequence[tuple[Visit, str | None]]) -> Moment:
    """Remove missed things from a moment, and rename mistaken ones."""
    wrong = {visit.name: taken for visit, taken in misread if visit.start <= moment.seconds <= visit.end}
    names = ((sighting, wrong.get(sighting.name, sighting.name)) for sighting in moment.view.sightings)
    sightings = tuple(replace(sighting, name=name) for sighting, name in names if name is not None)
    return replace(moment, view=replace(moment.view, sightings=sightings))


MOST_WORLDS: Final = 4  # world files in memory


class Lab(RuleBackbone):
    """glance with simulated eyes. It opens its own videos (`protocol.OpensVideos`).

    `noise` is the probability that a call misses an occurrence of a wanted thing or mistakes it for another.
    """

    def __init__(self, *, seed: int = 0, noise: float = 0.0) -> None:
        parts = ["lab", *([str(seed)] if seed else []), *([f"noise={noise:g}"] if noise else [])]
        super().__init__(":".join(parts), SimulatedEyes(seed), seed=seed)
        self._noise = noise
        self._read_world = lru_cache(MOST_WORLDS)(read_truth)

    def read(self, stage: str, context: CallContext) -> CallContext:
        """Misread the frames of a call with probability `noise`; the same call always misreads the same."""
        if not self._noise:
            return context
        wanted = context.asked.wanted
        frames = " ".join(f"{moment.seconds:.3f}" for clip in context.clips for moment in clip.moments)
        content = f"{self._seed}\n{stage}\n{context.sample}\n{context.asked.question}\n{frames}"
        misread: list[tuple[Visit, str | None]] = []
        for name in wanted:
            acts = context.conduct[name].bouts if name in context.asked.acts else ()
            for visit in [bout for _, bout in acts] or find_visits([name], context.moments)[name]:
                draw = Random(f"{content}\n{name} {visit.start:.3f}")  # noqa: S311  chance, not a secret
                if draw.random() < self._noise:
                    others = [other for other in wanted if other != name]
                    misread.append((visit, draw.choice([None, *others])))
        clips = tuple(
            replace(clip, moments=tuple(_misread(moment, misread) for moment in clip.moments)) for clip in context.clips
        )
        return replace(context, clips=clips)

    def open_video(self, path: Path) -> WorldVideo:
        """The video of a twin at this path, drawn or not."""
        folder = path.absolute().parents[1]
        name = path.absolute().relative_to(folder).as_posix()
        truth = self._read_world(folder / WORLD_FILE).get(name)
        if truth is None:
            raise InputError(f"{folder / WORLD_FILE}: no video {name}; lab only answers questions about twins.")
        return WorldVideo(truth)
