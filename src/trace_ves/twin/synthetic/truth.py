"""What is in a twin's videos, as `world.jsonl` tells it, and what of it stands in one frame.

Knows no pixels. For tests, for measuring eyes, and for the backbone `lab`; no method may see it.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trace_ves.core import InputError
from trace_ves.twin.synthetic.drawing import cutout_size
from trace_ves.twin.synthetic.layout import HEIGHT, WIDTH
from trace_ves.twin.synthetic.tracks import ACTS, MOTIONS, Act, Bands, Track, pose, scaled_px
from trace_ves.twin.synthetic.vocabulary import vocabulary

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from trace_ves.twin.synthetic.world import Appearance, VideoWorld

WORLD_FILE: Final = "world.jsonl"

TYPICAL_BANDS: Final = Bands(ground=(214.0, HEIGHT - 6.0), air=(34.0, 196.0))
"""Where things stand and fly in most scenes. The truth does not tell a scene's own horizon."""

Count = Annotated[int, Field(ge=0)]
Part = Annotated[float, Field(ge=0, le=1)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class SceneRecord(_Record):
    """A stretch of frames that plays in one place."""

    scene: str
    first: Count
    last: Count


class ActRecord(_Record):
    """What a sprite does from a first frame to a last; `question` is the one that it is evidence for."""

    act: str
    first: Count
    last: Count
    question: str | None = None


class TrackRecord(_Record):
    """A sprite that is there from its first frame to its last; `question` is the one that this is evidence for."""

    sprite: str
    motion: str
    first: Count
    last: Count
    size_px: Annotated[int, Field(ge=2, le=HEIGHT)]
    place: Part
    depth: Part
    rightward: bool
    question: str | None = None
    acts: Annotated[tuple[ActRecord, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.sprite not in vocabulary().sprites or self.motion not in MOTIONS:
            raise ValueError(f"the twin's world has no {self.sprite!r} that moves like {self.motion!r}")
        for act in self.acts:
            if act.act not in ACTS or not self.first <= act.first < act.last <= self.last:
                raise ValueError(f"nothing does {act.act!r} from frame {act.first} to {act.last} here")
        return self

    @cached_property
    def track(self) -> Track:
        """The track, without its questions."""
        plain = {name: getattr(self, name) for name in Track.__dataclass_fields__ if name != "acts"}
        return Track(**plain, acts=tuple(Act(each.act, each.first, each.last) for each in self.acts))


class VideoTruth(_Record):
    """Everything that can be seen in one video: a line of `world.jsonl`."""

    video: str
    fps: Annotated[int, Field(ge=1, le=1000)]
    frames: Annotated[int, Field(ge=1)]
    scenes: Annotated[tuple[SceneRecord, ...], Field(strict=False)]
    tracks: Annotated[tuple[TrackRecord, ...], Field(strict=False)]

    @classmethod
    def of(cls, video: str, world: VideoWorld, fps: int, questions: tuple[str, ...]) -> VideoTruth:
        """The truth of a world that was made up here; `questions` are the ids of its questions."""
        return cls(
            video=video,
            fps=fps,
            frames=world.frames,
            scenes=tuple(SceneRecord(**asdict(scene)) for scene in world.scenes),
            tracks=tuple(_record(each, questions) for each in world.appearances),
        )

    @cached_property
    def digest(self) -> str:
        """What tells this world from any other."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def scene_at(self, frame: int) -> SceneRecord | None:
        """The scene that a frame plays in."""
        return next((scene for scene in self.scenes if scene.first <= frame <= scene.last), None)

    def presences(self, frame: int) -> list[Presence]:
        """What stands in a frame."""
        return [
            _presence(number, record.track, frame)
            for number, record in enumerate(self.tracks)
            if record.first <= frame <= record.last
        ]


def _record(appearance: Appearance, questions: tuple[str, ...]) -> TrackRecord:
    def name(number: int | None) -> str | None:
        return None if number is None else questions[number]

    track = appearance.track
    acts = zip(track.acts, appearance.acts, strict=True)
    plain = asdict(track) | {"acts": tuple(ActRecord(**asdict(act), question=name(asked)) for act, asked in acts)}
    return TrackRecord(**plain, question=name(appearance.question))


@dataclass(frozen=True, slots=True)
class Presence:
    """One sprite in one frame."""

    track: int
    """The number of its track."""
    sprite: str
    size_px: int
    """The longer side of its picture, whole, in a frame of 360 lines."""
    box: tuple[float, float, float, float]
    """Left, top, right, bottom of what is inside the frame, as parts of its sides; rows are typical, not exact."""
    part: float
    """How much of it shows, from 0 to 1: the part inside the frame, times its opacity."""


def _presence(number: int, track: Track, frame: int) -> Presence:
    width, height = cutout_size(track.sprite, track.size_px)
    at = pose(track, frame, TYPICAL_BANDS, (width, height))
    size_px = track.size_px if at.scale == 1.0 else scaled_px(track.size_px, at.scale)
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
        raise InputError(f"{path}: cannot be read: {error.strerror or error}.") from None
    found = {}
    for number, line in enumerate(lines, start=1):
        try:
            truth = VideoTruth.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "line"
            raise InputError(f"{path}:{number}: {where}: {first['msg']}; make the twin again.") from None
        found[truth.video] = truth
    return found
