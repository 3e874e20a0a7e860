"""Simulated eyes: what glance's detector would report of a frame, drawn by chance from how it was measured to see.

A draw depends on the seed, the video, the thing and the frame alone, so it is the same in every call and every run.
What is hard to see in one frame of a visit is hard in its other frames too, as much as was measured.
"""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.glance.sightings import GLIMPSED, Sighting, View
from trace_ves.backbone.lab.figures import Figures, figures
from trace_ves.backbone.lab.video import WorldPicture
from trace_ves.core import InputError
from trace_ves.synthetic.canvas import HEIGHT, WIDTH
from trace_ves.synthetic.vocabulary import vocabulary

if TYPE_CHECKING:
    from trace_ves.backbone.glance.parsed_question import ParsedQuestion
    from trace_ves.backbone.glance.sightings import Box
    from trace_ves.backbone.lab.figures import Mistakes
    from trace_ves.core import Frame
    from trace_ves.synthetic.truth import Presence

MOST_VIEWS: Final = 1 << 16
"""Views that are remembered. It only saves time: no view depends on it."""

_NORMAL: Final = NormalDist()


class SimulatedEyes:
    """Looks at the frames of a `WorldVideo`; a `glance.rules.Look`."""

    def __init__(self, seed: int = 0, measured: Figures | None = None) -> None:
        self._seed = seed
        self._figures = measured or figures()
        self._seen = lru_cache(MOST_VIEWS)(self._view)

    def __call__(self, frame: Frame, asked: ParsedQuestion, smaller: float) -> View:  # noqa: ARG002  it reads no words
        """What the eyes report of this frame, its picture's sides divided by a factor."""
        if not isinstance(frame.picture, WorldPicture):
            raise InputError("lab sees undrawn twins alone, not the pixels of a video; glance looks at pixels.")
        return self._seen(frame.picture, smaller)

    def _view(self, picture: WorldPicture, smaller: float) -> View:
        rows = picture.height / smaller
        truth, number = picture.truth, picture.number
        mistakes = self._figures.mistakes_at(rows)
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
        score = measured.score(there.part, there.size_px * rows / HEIGHT, self._chance(name, number, "seen"))
        ratio = measured.size_ratio(there.part, self._chance(name, number, "size", measured.size_likeness))
        off = [measured.place_error * _NORMAL.inv_cdf(self._uniform(f"{name}@{number}", way)) for way in ("x", "y")]
        return Sighting(there.sprite, score, _moved(_scaled(there.box, ratio), off[0], off[1]))

    def _misnamed(self, name: str, there: Presence, mistakes: Mistakes) -> Sighting:
        """A wrong name for something that is there; the same one in all of its frames."""
        alike = _lookalikes(there.sprite)
        pool = (
            alike if alike and self._uniform(name, "alike") < self._figures.lookalikes else tuple(vocabulary().sprites)
        )
        other = pool[int(self._uniform(name, "other name") * len(pool))]
        score = self._figures.quantile(mistakes.wrong_scores, self._uniform(name, "wrong score"))
        return Sighting(other, score, there.box)

    def _phantom(self, place: str, mistakes: Mistakes) -> Sighting:
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


def _moved(box: Box, across: float, down: float) -> Box:
    """The box, moved by parts of its longer side."""
    left, top, right, bottom = box
    size_px = max((right - left) * WIDTH, (bottom - top) * HEIGHT)
    x, y = across * size_px / WIDTH, down * size_px / HEIGHT
    return left + x, top + y, right + x, bottom + y


def _scaled(box: Box, ratio: float) -> Box:
    """A box of the same middle, its sides multiplied."""
    left, top, right, bottom = box
    x, y, across, down = (left + right) / 2, (top + bottom) / 2, ratio * (right - left) / 2, ratio * (bottom - top) / 2
    return x - across, y - down, x + across, y + down


@cache
def _lookalikes(name: str) -> tuple[str, ...]:
    sprites = vocabulary().sprites
    return tuple(other for other in sprites if other in sprites[name].resembles or name in sprites[other].resembles)
