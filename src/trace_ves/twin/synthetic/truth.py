"""What each frame of a twin's videos shows, from `world.jsonl`. For tests and `lab`, never for a method."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from trace_ves.core import InputError
from trace_ves.twin.synthetic.drawing import cutout_size
from trace_ves.twin.synthetic.layout import HEIGHT, WIDTH
from trace_ves.twin.synthetic.tracks import ACTS, MOTIONS, Bands, Track, pose, scaled_px
from trace_ves.twin.synthetic.vocabulary import vocabulary
from trace_ves.twin.synthetic.world import SceneSpan

WORLD_FILE: Final = "world.jsonl"

# the file does not contain those of each scene
TYPICAL_BANDS: Final = Bands(ground=(214.0, HEIGHT - 6.0), air=(34.0, 196.0))


class VideoTruth(BaseModel):
    """Everything that can be seen in one video: a line of `world.jsonl`."""

    model_config = ConfigDict(frozen=True, strict=True)

    video: str
    fps: Annotated[int, Field(ge=1, le=1000)]
    frames: Annotated[int, Field(ge=1)]
    scenes: tuple[SceneSpan, ...]
    tracks: tuple[Track, ...]

    @field_validator("tracks")
    @classmethod
    def _check_tracks(cls, tracks: tuple[Track, ...]) -> tuple[Track, ...]:
        for track in tracks:
            if track.sprite not in vocabulary().sprites or track.motion not in MOTIONS:
                raise ValueError(f"the twin's world has no {track.sprite!r} with the motion {track.motion!r}")
            if not (track.first >= 0 and 2 <= track.size_px <= HEIGHT and 0 <= track.place <= 1 >= track.depth >= 0):
                raise ValueError(f"the {track.sprite} from frame {track.first} on is outside the picture")
            for act in track.acts:
                if act.act not in ACTS or not track.first <= act.first < act.last <= track.last:
                    raise ValueError(
                        f"the act {act.act!r} from frame {act.first} to {act.last} is unknown or outside its track"
                    )
        return tracks

    @cached_property
    def digest(self) -> str:
        """Identifies this world."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def scene_at(self, frame: int) -> SceneSpan | None:
        """The scene of a frame."""
        return next((scene for scene in self.scenes if scene.first <= frame <= scene.last), None)

    def presences(self, frame: int) -> list[Presence]:
        """What is in a frame."""
        return [
            _presence(number, track, frame)
            for number, track in enumerate(self.tracks)
            if track.first <= frame <= track.last
        ]


@dataclass(frozen=True, slots=True)
class Presence:
    """One sprite in one frame."""

    track: int  # the number of its track
    sprite: str
    size_px: int  # the longer side of its picture, whole, in a frame of 360 lines
    box: tuple[float, float, float, float]  # left, top, right, bottom within the frame, as parts of its sides
    part: float  # visible part, from 0 to 1: the part inside the frame times the opacity


def _presence(number: int, track: Track, frame: int) -> Presence:
    width, height = cutout_size(track.sprite, track.size_px)
    at = pose(track, frame, TYPICAL_BANDS, (width, height))
    size_px = scaled_px(track.size_px, at.scale)
    width, height = cutout_size(track.sprite, size_px)
    left, right = max(0.0, at.x - width / 2), min(float(WIDTH), at.x + width / 2)
    top, bottom = max(0.0, at.foot_y - height), min(float(HEIGHT), at.foot_y)
    inside = max(0.0, right - left) * max(0.0, bottom - top) / (width * height)
    box = (left / WIDTH, top / HEIGHT, right / WIDTH, bottom / HEIGHT)
    return Presence(number, track.sprite, size_px, box, inside * at.opacity)


def read_truth(path: Path) -> dict[str, VideoTruth]:
    """The videos of a `world.jsonl`, by their path within the bench."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{path}: {why}; lab only answers questions about twins (trace-ves synth).") from None
    truths = {}
    for number, line in enumerate(lines, start=1):
        try:
            truth = VideoTruth.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where, why = ".".join(map(str, first["loc"])) or "line", first["msg"].removeprefix("Value error, ")
            raise InputError(f"{path}:{number}: {where}: {why}; make the twin again.") from None
        truths[truth.video] = truth
    return truths
