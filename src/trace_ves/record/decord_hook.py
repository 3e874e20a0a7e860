"""decord: every frame of `get_batch`, indexing and `next`, by its place in the video."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from trace_ves.record.look import SeenIndex
from trace_ves.record.patching import Patches, installed_version

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from trace_ves.record.recorder import Recorder

MODULE = "decord.video_reader"


def install(module: ModuleType, recorder: Recorder) -> Patches:
    """Watch every reader, those included that are open already."""
    reader, patches = module.VideoReader, Patches()
    own_init, own_batch, own_next = reader.__init__, reader.get_batch, reader.next
    own_seek, own_seek_accurate, own_skip = reader.seek, reader.seek_accurate, reader.skip_frames
    version = installed_version("decord")

    def note(self: Any, indexes: Iterable[int]) -> None:
        look = recorder.look(self, getattr(self, "_trace_ves_uri", ""), f"decord {version}")
        recorder.note(look, [SeenIndex(index, len(self), _timestamp(self, index)) for index in indexes])

    def init(self: Any, uri: Any, *args: Any, **kwargs: Any) -> None:
        own_init(self, uri, *args, **kwargs)
        self._trace_ves_uri = uri if isinstance(uri, str) else str(getattr(uri, "name", ""))
        self._trace_ves_next = 0

    def get_batch(self: Any, indices: Any) -> Any:
        batch = own_batch(self, indices)
        note(self, self._validate_indices(indices).tolist())
        self._trace_ves_next = None  # where it stands afterwards is decord's own affair
        return batch

    def next_frame(self: Any) -> Any:
        frame = own_next(self)
        place = getattr(self, "_trace_ves_next", None)
        note(self, [-1 if place is None else place])
        self._trace_ves_next = None if place is None else place + 1
        return frame

    def seek(self: Any, pos: int) -> Any:
        done = own_seek(self, pos)
        keys = [int(key) for key in np.asarray(self.get_key_indices())]
        self._trace_ves_next = keys[max(0, bisect_right(keys, int(pos)) - 1)] if keys else None
        return done

    def seek_accurate(self: Any, pos: int) -> Any:
        done = own_seek_accurate(self, pos)
        self._trace_ves_next = int(pos)
        return done

    def skip_frames(self: Any, num: int = 1) -> Any:
        done = own_skip(self, num)
        if (place := getattr(self, "_trace_ves_next", None)) is not None:
            self._trace_ves_next = place + int(num)
        return done

    made = {"get_batch": get_batch, "next": next_frame, "seek": seek, "seek_accurate": seek_accurate}
    for name, function in (made | {"__init__": init, "skip_frames": skip_frames}).items():
        patches.set(reader, name, function)
    return patches


def _timestamp(reader: Any, index: int) -> Any:
    """What decord says of a place: single precision, and nonsense where the stream has no timestamps."""
    return lambda: float(reader.get_frame_timestamp([index])[0][0]) if index >= 0 else None
