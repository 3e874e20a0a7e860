"""PyAV: every frame whose pixels a program takes.

PyAV programs decode a whole stretch and keep some frames of it, so a frame counts when it is turned into pixels, not
when it is decoded. PyAV's own types cannot be changed: `av.open` gives stand-ins for the container, its packets and its
frames that pass everything on, and `__wrapped__` is the real thing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from trace_ves.record.look import SeenPts
from trace_ves.record.patching import Patches
from trace_ves.record.stand_in import StandIn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from trace_ves.record.look import Look
    from trace_ves.record.recorder import Recorder

MODULE = "av"
PIXELS: Final = frozenset({"to_ndarray", "to_nd_array", "to_image", "to_rgb", "reformat", "planes", "save"})
"""What gives a program the pixels of a frame."""


def install(module: ModuleType, recorder: Recorder) -> Patches:
    """Have programs open containers that are watched."""
    own_open, patches = module.open, Patches()

    def watched_open(file: Any, *args: Any, **kwargs: Any) -> Any:
        container = own_open(file, *args, **kwargs)
        if _is_own_decoding() or not hasattr(container, "decode"):  # it is no program's look, or is written to
            return container
        name = str(file if isinstance(file, str) or hasattr(file, "__fspath__") else getattr(file, "name", ""))
        return _Container(container, recorder, name, f"av {module.__version__}")

    patches.set(module, "open", watched_open)
    patches.set(module.container, "open", watched_open)
    return patches


def _is_own_decoding() -> bool:
    """Whether `av.open` was called from this package, whose frames the observer logs."""
    return str(sys._getframe(2).f_globals.get("__name__", "")).startswith("trace_ves.")


class _Container(StandIn):
    __slots__ = ("_decoder", "_name", "_recorder")

    def __init__(self, real: Any, recorder: Recorder, name: str, decoder: str) -> None:
        super().__init__(real)
        for slot, value in (("_recorder", recorder), ("_name", name), ("_decoder", decoder)):
            object.__setattr__(self, slot, value)

    def decode(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        for frame in self.__wrapped__.decode(*args, **kwargs):
            yield self._watched(frame)

    def demux(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        for packet in self.__wrapped__.demux(*args, **kwargs):
            yield _Packet(packet, self)

    def __enter__(self) -> Any:
        self.__wrapped__.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        return self.__wrapped__.__exit__(*error)

    def _watched(self, frame: Any) -> Any:
        if not hasattr(frame, "to_rgb"):  # sound, or a subtitle
            return frame
        return _Frame(frame, self._recorder, self._recorder.look(self, self._name, self._decoder))


class _Packet(StandIn):
    __slots__ = ("_container",)

    def __init__(self, real: Any, container: _Container) -> None:
        super().__init__(real)
        object.__setattr__(self, "_container", container)

    def decode(self) -> list[Any]:
        return [self._container._watched(frame) for frame in self.__wrapped__.decode()]

    def __bytes__(self) -> bytes:
        return bytes(self.__wrapped__)


class _Frame(StandIn):
    __slots__ = ("_look", "_recorder")

    def __init__(self, real: Any, recorder: Recorder, look: Look) -> None:
        super().__init__(real)
        object.__setattr__(self, "_recorder", recorder)
        object.__setattr__(self, "_look", look)

    def __getattr__(self, name: str) -> Any:
        real = self.__wrapped__
        if name in PIXELS and self._look is not None:
            if real.pts is not None and real.time_base is not None:
                self._recorder.note(self._look, [SeenPts(real.pts, real.time_base)])
            object.__setattr__(self, "_look", None)  # the same frame taken twice was handed out once
        return getattr(real, name)
