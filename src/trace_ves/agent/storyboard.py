"""The storyboard S: a coarse preview of the whole video, built once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trace_ves.agent.settings import TraceSettings
    from trace_ves.core import Clip
    from trace_ves.observer import Observer


def make_storyboard(observer: Observer, settings: TraceSettings) -> Clip:
    """Decode centred-uniform frames of the whole video. They are charged when a proposal uses them."""
    clip = observer.survey(observer.whole, settings.storyboard_frames, height=settings.storyboard_height)
    return replace(clip, title="Storyboard")
