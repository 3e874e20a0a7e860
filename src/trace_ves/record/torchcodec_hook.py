"""torchcodec: every frame that a `VideoDecoder` returns, by the timestamp that comes with it."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from trace_ves.record.look import SeenSeconds
from trace_ves.record.patching import Patches, installed_version

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from trace_ves.record.recorder import Recorder

MODULE = "torchcodec.decoders._video_decoder"
METHODS = (
    "get_frame_at",
    "get_frames_at",
    "get_frames_in_range",
    "get_frame_played_at",
    "get_frames_played_at",
    "get_frames_played_in_range",
    "get_all_frames",
)


def install(module: ModuleType, recorder: Recorder) -> Patches:
    """Watch every decoder; one that was open before has no name."""
    kind, patches = module.VideoDecoder, Patches()
    own_init, version = kind.__init__, installed_version("torchcodec")

    @wraps(own_init)
    def init(self: Any, source: Any, *args: Any, **kwargs: Any) -> None:
        own_init(self, source, *args, **kwargs)
        is_path = isinstance(source, str) or hasattr(source, "__fspath__")
        self._trace_ves_source = str(source) if is_path else str(getattr(source, "name", ""))

    def noted(self: Any, frames: Any) -> Any:
        moments = frames.pts_seconds
        seconds = moments.flatten().tolist() if hasattr(moments, "flatten") else [float(moments)]
        look = recorder.look(self, getattr(self, "_trace_ves_source", ""), f"torchcodec {version}")
        recorder.note(look, [SeenSeconds(each) for each in seconds])
        return frames

    def watched(own: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(own)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(self, "_trace_ves_busy", False):  # one method that calls another hands frames out once
                return own(self, *args, **kwargs)
            self._trace_ves_busy = True
            try:
                frames = own(self, *args, **kwargs)
            finally:
                self._trace_ves_busy = False
            return noted(self, frames)

        return method

    def getitem(self: Any, key: Any) -> Any:
        """As the library's own, by the methods that also give timestamps."""
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            return self.get_frames_in_range(start, stop, step).data
        return self.get_frame_at(int(key)).data

    patches.set(kind, "__init__", init)
    patches.set(kind, "__getitem__", getitem)
    inside = [name for name in METHODS if name in vars(kind)]
    for name in inside:
        patches.set(kind, name, watched(vars(kind)[name]))
    return patches
