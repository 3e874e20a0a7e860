"""A memory of what was found in the latest pictures, by their pixels. It only saves time: no answer depends on it."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

MOST_PICTURES: Final = 4096
"""The same picture is looked at in several calls of one question, and in runs of several methods."""

Found = TypeVar("Found")


class Remembering(Generic[Found]):
    """Whatever looks at pictures, and what it found in the latest of them. Threads may share it."""

    def __init__(self, look: Callable[[NDArray[np.uint8]], Found], size: int = MOST_PICTURES) -> None:
        self._look = look
        self._size = size
        self._found: OrderedDict[bytes, Found] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, picture: NDArray[np.uint8]) -> Found:
        """What is in this picture, found now or remembered."""
        key = _identity(picture)
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        found = self._look(picture)
        with self._lock:
            self._found[key] = found
            while len(self._found) > self._size:
                self._found.popitem(last=False)
        return found


def _identity(picture: NDArray[np.uint8]) -> bytes:
    pixels = np.ascontiguousarray(picture)
    digest = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
    digest.update(pixels.data)
    return digest.digest()
