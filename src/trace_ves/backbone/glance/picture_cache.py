"""What was found in the latest pictures, by their pixels. It only saves time: no answer depends on it."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from trace_ves.backbone.glance.pictures import reduced
from trace_ves.core.observation import DigestedPicture

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from trace_ves.core.observation import Picture

MOST_PICTURES: Final = 4096
"""The same picture is looked at in several calls of one question, and in runs of several methods."""

Found = TypeVar("Found")


class PictureCache(Generic[Found]):
    """Whatever looks at pixels, and what it found in the latest `size` pictures. Threads may share it."""

    def __init__(self, look: Callable[[NDArray[np.uint8]], Found], size: int = MOST_PICTURES) -> None:
        self._look = look
        self._size = size
        self._found: OrderedDict[tuple[bytes, float], Found] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, picture: Picture, smaller: float = 1.0) -> Found:
        """What is in this picture, its sides divided by a factor: found now, or before."""
        if not self._size:
            return self._look(reduced(picture.rgb(), smaller))
        digest = picture.digest() if isinstance(picture, DigestedPicture) else _digest(picture.rgb())
        key = digest, smaller
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        found = self._look(reduced(picture.rgb(), smaller))
        with self._lock:
            self._found[key] = found
            while len(self._found) > self._size:
                self._found.popitem(last=False)
        return found


def _digest(pixels: NDArray[np.uint8]) -> bytes:
    digest = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
    digest.update(pixels.tobytes())
    return digest.digest()
