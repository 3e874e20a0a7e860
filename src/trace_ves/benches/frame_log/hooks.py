"""Hooks into decord, PyAV, OpenCV and torchcodec that report the frames a program receives.

`HOOKS` maps the module of each library to the function that patches it. `ImportWatch` applies a hook when the program
imports the library.
"""

from __future__ import annotations

import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trace_ves.benches.frame_log.frames import ReceivedFrame

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from trace_ves.benches.frame_log.recorder import Recorder


def library_version(distribution: str) -> str:
    """The name and version of a library, without importing it."""
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return f"{distribution} (unknown version)"


def source_name(source: Any) -> str:
    """The path or address that a program opens; for an open file, its name."""
    return str(source if isinstance(source, str) or hasattr(source, "__fspath__") else getattr(source, "name", ""))


def replace_attribute(patches: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Replace an attribute until the stack is closed."""
    patches.callback(setattr, owner, name, owner.__dict__[name])
    setattr(owner, name, value)


class ImportWatch(MetaPathFinder):
    """Calls `on_import` when one of these modules is imported."""

    def __init__(self, modules: Sequence[str], on_import: Callable[[str, ModuleType], None]) -> None:
        self._modules = set(modules)
        self._on_import = on_import
        self._local = threading.local()

    def start(self, patches: ExitStack) -> None:
        """Watch modules that are already imported, and imports until the stack is closed."""
        sys.meta_path.insert(0, self)
        patches.callback(sys.meta_path.remove, self)
        for name in self._modules & set(sys.modules):
            self._on_import(name, sys.modules[name])

    def find_spec(self, fullname: str, _path: object, _target: object = None) -> ModuleSpec | None:
        """The spec that other finders find, with a loader that calls `on_import`."""
        if fullname not in self._modules or getattr(self._local, "is_searching", False):
            return None
        self._local.is_searching = True
        try:
            spec = find_spec(fullname)
        finally:
            self._local.is_searching = False
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_call(module: ModuleType) -> None:
                load(module)
                self._on_import(fullname, module)

            spec.loader.exec_module = load_and_call  # type: ignore[method-assign]  # a loader belongs to one module
        return spec


class Wrapper:
    """Forwards everything to the object that it wraps, `__wrapped__`."""

    __slots__ = ("__weakref__", "__wrapped__")

    def __init__(self, real: Any, **slots: Any) -> None:
        for name, value in {"__wrapped__": real, **slots}.items():
            object.__setattr__(self, name, value)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the wrapped object, so that `isinstance` works as before."""
        return type(self.__wrapped__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__wrapped__, name, value)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


PIXELS: Final = frozenset({"to_ndarray", "to_nd_array", "to_image", "to_rgb", "reformat", "planes", "save"})
"""Attributes that return the pixels of a frame."""


def patch_av(module: ModuleType, recorder: Recorder, patches: ExitStack) -> None:
    """Let `open` return a watched container."""
    original_open = module.open

    def watched_open(file: Any, *args: Any, **kwargs: Any) -> Any:
        container = original_open(file, *args, **kwargs)
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        if caller.startswith("trace_ves.") or not hasattr(container, "decode"):  # our own decoder, or an output file
            return container
        decoder = f"av {module.__version__}"
        return _WatchedContainer(container, _recorder=recorder, _name=source_name(file), _decoder=decoder)

    replace_attribute(patches, module, "open", watched_open)
    replace_attribute(patches, module.container, "open", watched_open)


class _WatchedContainer(Wrapper):
    __slots__ = ("_decoder", "_name", "_recorder")

    def decode(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        return map(self._watch, self.__wrapped__.decode(*args, **kwargs))

    def demux(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        return (_WatchedPacket(packet, _container=self) for packet in self.__wrapped__.demux(*args, **kwargs))

    def __enter__(self) -> Any:
        self.__wrapped__.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        return self.__wrapped__.__exit__(*error)

    def _watch(self, frame: Any) -> Any:
        if not hasattr(frame, "to_rgb"):  # audio or a subtitle
            return frame
        look = self._recorder.look(self, self._name, self._decoder)
        return _WatchedFrame(frame, _recorder=self._recorder, _look=look)


class _WatchedPacket(Wrapper):
    __slots__ = ("_container",)

    def decode(self) -> list[Any]:
        return [self._container._watch(frame) for frame in self.__wrapped__.decode()]

    def __bytes__(self) -> bytes:
        return bytes(self.__wrapped__)


class _WatchedFrame(Wrapper):
    __slots__ = ("_look", "_recorder")

    def __getattr__(self, name: str) -> Any:
        real = self.__wrapped__
        if name in PIXELS and self._look is not None:
            pts, time_base = real.pts, real.time_base
            if pts is not None and time_base is not None:
                received = ReceivedFrame(lambda table: table.by_pts(pts, time_base), lambda: float(pts * time_base))
                self._recorder.note(self._look, [received])
            object.__setattr__(self, "_look", None)  # count a frame once, even if its pixels are read twice
        return getattr(real, name)


def patch_decord(module: ModuleType, recorder: Recorder, patches: ExitStack) -> None:
    """Watch every reader, including those already open."""
    reader = module.VideoReader
    original_init, original_batch, original_next = reader.__init__, reader.get_batch, reader.next
    original_seek, original_seek_accurate, original_skip = reader.seek, reader.seek_accurate, reader.skip_frames
    decoder = library_version("decord")

    def note(self: Any, indexes: Iterable[int]) -> None:
        look = recorder.look(self, getattr(self, "_trace_ves_uri", ""), decoder)
        recorder.note(look, [_received_at(self, index) for index in indexes])

    def init(self: Any, uri: Any, *args: Any, **kwargs: Any) -> None:
        original_init(self, uri, *args, **kwargs)
        self._trace_ves_uri = source_name(uri)
        self._trace_ves_next = 0

    def get_batch(self: Any, indices: Any) -> Any:
        batch = original_batch(self, indices)
        note(self, self._validate_indices(indices).tolist())
        self._trace_ves_next = None  # the position afterwards is unknown
        return batch

    def next_frame(self: Any) -> Any:
        frame = original_next(self)
        place = getattr(self, "_trace_ves_next", None)
        note(self, [-1 if place is None else place])
        self._trace_ves_next = None if place is None else place + 1
        return frame

    def seek(self: Any, pos: int) -> Any:
        done = original_seek(self, pos)
        keys = [int(key) for key in np.asarray(self.get_key_indices())]
        self._trace_ves_next = keys[max(0, bisect_right(keys, int(pos)) - 1)] if keys else None
        return done

    def seek_accurate(self: Any, pos: int) -> Any:
        done = original_seek_accurate(self, pos)
        self._trace_ves_next = int(pos)
        return done

    def skip_frames(self: Any, num: int = 1) -> Any:
        done = original_skip(self, num)
        if (place := getattr(self, "_trace_ves_next", None)) is not None:
            self._trace_ves_next = place + int(num)
        return done

    for function in (get_batch, seek, seek_accurate, skip_frames):
        replace_attribute(patches, reader, function.__name__, function)
    replace_attribute(patches, reader, "__init__", init)
    replace_attribute(patches, reader, "next", next_frame)


def _received_at(reader: Any, index: int) -> ReceivedFrame:
    """The frame at an index; decord's own timestamps have single precision, and are wrong if a stream has none."""
    count = len(reader)
    return ReceivedFrame(
        lambda table: table.by_index(index, count),
        lambda: float(reader.get_frame_timestamp([index])[0][0]) if index >= 0 else None,
    )


def patch_opencv(module: ModuleType, recorder: Recorder, patches: ExitStack) -> None:
    """Replace `VideoCapture` with a watched wrapper, because OpenCV's class cannot be subclassed safely."""
    original = module.VideoCapture
    if hasattr(original, "watches"):  # already wrapped: the package imported it from its native module
        patches.callback(setattr, module, "VideoCapture", original.watches)
        return
    decoder, position = f"opencv {module.__version__}", module.CAP_PROP_POS_MSEC

    class VideoCapture(Wrapper):
        __slots__ = ("_source",)
        watches = original

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(original(*args, **kwargs), _source=_source(args, kwargs))

        def open(self, *args: Any, **kwargs: Any) -> Any:
            object.__setattr__(self, "_source", _source(args, kwargs))
            return self.__wrapped__.open(*args, **kwargs)

        def read(self, *args: Any, **kwargs: Any) -> Any:
            return self._note(self.__wrapped__.read(*args, **kwargs))

        def retrieve(self, *args: Any, **kwargs: Any) -> Any:
            return self._note(self.__wrapped__.retrieve(*args, **kwargs))

        def _note(self, result: Any) -> Any:
            if result[0]:
                look = recorder.look(self, self._source, decoder)
                seconds = self.__wrapped__.get(position) / 1000
                recorder.note(look, [ReceivedFrame.by_seconds(seconds, from_start_time=True)])
            return result

    replace_attribute(patches, module, "VideoCapture", VideoCapture)


def _source(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return source_name(args[0] if args else kwargs.get("filename", ""))


TORCHCODEC_METHODS: Final = (
    *("get_frame_at", "get_frames_at", "get_frames_in_range", "get_all_frames"),
    *("get_frame_played_at", "get_frames_played_at", "get_frames_played_in_range"),
)


def patch_torchcodec(module: ModuleType, recorder: Recorder, patches: ExitStack) -> None:
    """Watch every decoder; the file of one that is already open is unknown."""
    kind = module.VideoDecoder
    original_init, decoder = kind.__init__, library_version("torchcodec")

    @wraps(original_init)
    def init(self: Any, source: Any, *args: Any, **kwargs: Any) -> None:
        original_init(self, source, *args, **kwargs)
        self._trace_ves_source = source_name(source)

    def note(self: Any, frames: Any) -> Any:
        moments = frames.pts_seconds
        seconds = moments.flatten().tolist() if hasattr(moments, "flatten") else [float(moments)]
        look = recorder.look(self, getattr(self, "_trace_ves_source", ""), decoder)
        recorder.note(look, [ReceivedFrame.by_seconds(each) for each in seconds])
        return frames

    def watch(own: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(own)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(self, "_trace_ves_busy", False):  # called by another method, which reports the frames
                return own(self, *args, **kwargs)
            self._trace_ves_busy = True
            try:
                frames = own(self, *args, **kwargs)
            finally:
                self._trace_ves_busy = False
            return note(self, frames)

        return method

    def getitem(self: Any, key: Any) -> Any:
        """Like the library's own, with methods that also return timestamps."""
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            return self.get_frames_in_range(start, stop, step).data
        return self.get_frame_at(int(key)).data

    replace_attribute(patches, kind, "__init__", init)
    replace_attribute(patches, kind, "__getitem__", getitem)
    for name in TORCHCODEC_METHODS:
        if name in vars(kind):
            replace_attribute(patches, kind, name, watch(vars(kind)[name]))


HOOKS: Final[Mapping[str, Callable[[ModuleType, Recorder, ExitStack], None]]] = {
    "decord.video_reader": patch_decord,
    "av": patch_av,
    "cv2": patch_opencv,
    "torchcodec.decoders._video_decoder": patch_torchcodec,
}
"""The module of each library, and the function that patches it."""
