"""`glance`: the embedded backbone. Trained eyes see the pixels of a call's frames; stated rules answer every stage.

A simulation of reasoning over true recognition of pixels, never a claim about VLMs. It keeps nothing between calls.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trace_ves.backbone.glance.picture_cache import MOST_PICTURES, PictureCache
from trace_ves.backbone.glance.reading import ScreenReader, can_read, sightings_of
from trace_ves.backbone.glance.rules import RuleBackbone

if TYPE_CHECKING:
    from trace_ves.backbone.glance.lexicon import Lexicon
    from trace_ves.backbone.glance.parsed_question import ParsedQuestion
    from trace_ves.backbone.glance.reading import Line, Reader
    from trace_ves.backbone.glance.sightings import Eyes, View
    from trace_ves.core import Frame


class Glance(RuleBackbone):
    """The embedded backbone: no key, no GPU, no network."""

    def __init__(
        self,
        eyes: Eyes,
        *,
        reader: Reader | None = None,
        words: Lexicon | None = None,
        sharp_frames: int | None = None,
        remembered_pictures: int = 0,
    ) -> None:
        """`remembered_pictures` says for how many pictures it is kept what was found, which only saves time."""
        look = PixelLook(
            PictureCache(eyes, remembered_pictures), PictureCache(reader, remembered_pictures) if reader else None
        )
        super().__init__(_name(sharp_frames), look, reads=reader is not None, words=words, sharp_frames=sharp_frames)

    @classmethod
    def shipped(cls, *, sharp_frames: int | None = None) -> Glance:
        """With the eyes that come with this package, and a reader of words where the extra `ocr` is installed.

        With `sharp_frames`, a call has the pixels of so many frames of 640 x 360: of more frames, each is seen smaller.
        """
        from trace_ves.backbone.glance.eyes import TrainedEyes  # noqa: PLC0415  needs the extra `glance`

        reader = ScreenReader() if can_read() else None
        return cls(TrainedEyes(), reader=reader, sharp_frames=sharp_frames, remembered_pictures=MOST_PICTURES)

    def with_sharp_frames(self, sharp_frames: int | None) -> Glance:
        """The same eyes, with so many frames of a call seen at full size."""
        other = copy(self)
        other.name = _name(sharp_frames)
        other._sharp_frames = sharp_frames
        return other


def _name(sharp_frames: int | None) -> str:
    return "glance" if sharp_frames is None else f"glance:{sharp_frames}"


@dataclass(frozen=True, slots=True)
class PixelLook:
    """Looks at the pixels of a frame. Nothing but the pixels is handed on."""

    eyes: PictureCache[View]
    reader: PictureCache[tuple[Line, ...]] | None = None

    def __call__(self, frame: Frame, asked: ParsedQuestion, smaller: float) -> View:
        """What this frame's pixels show: things and scene, and the words that are asked for."""
        view = self.eyes(frame.picture, smaller)
        if asked.written and self.reader is not None:
            read = sightings_of(asked.written, self.reader(frame.picture, smaller))
            view = replace(view, sightings=view.sightings + read)
        return view
