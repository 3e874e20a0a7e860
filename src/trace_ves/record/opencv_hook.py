"""OpenCV: every frame that `VideoCapture.read` or `retrieve` returns, by the position that it reports afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trace_ves.record.look import SeenSeconds
from trace_ves.record.patching import Patches
from trace_ves.record.stand_in import StandIn

if TYPE_CHECKING:
    from types import ModuleType

    from trace_ves.record.recorder import Recorder

MODULE = "cv2"


def install(module: ModuleType, recorder: Recorder) -> Patches:
    """Have programs open captures that are watched; OpenCV's own class cannot be derived from safely."""
    patches, plain = Patches(), module.VideoCapture
    if hasattr(plain, "watches"):  # the package took it over from its native module, which was seen first
        patches.keep(module, "VideoCapture", plain.watches)
        return patches
    decoder, position = f"opencv {module.__version__}", module.CAP_PROP_POS_MSEC

    class VideoCapture(StandIn):
        __slots__ = ("_source",)
        watches = plain

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(plain(*args, **kwargs))
            object.__setattr__(self, "_source", _source(args, kwargs))

        def open(self, *args: Any, **kwargs: Any) -> Any:
            object.__setattr__(self, "_source", _source(args, kwargs))
            return self.__wrapped__.open(*args, **kwargs)

        def read(self, *args: Any, **kwargs: Any) -> Any:
            return self._noted(self.__wrapped__.read(*args, **kwargs))

        def retrieve(self, *args: Any, **kwargs: Any) -> Any:
            return self._noted(self.__wrapped__.retrieve(*args, **kwargs))

        def _noted(self, result: Any) -> Any:
            if result[0]:
                look = recorder.look(self, self._source, decoder)
                recorder.note(look, [SeenSeconds(self.__wrapped__.get(position) / 1000, from_start_time=True)])
            return result

    patches.set(module, "VideoCapture", VideoCapture)
    return patches


def _source(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    given = args[0] if args else kwargs.get("filename", "")
    return given if isinstance(given, str) else ""
