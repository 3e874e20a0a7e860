"""Reads and writes the one kind of PNG file that this package ships: 8-bit RGBA, not interlaced, rows filtered "Up".

So the renderer needs no imaging library. Any other kind is refused.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_RGBA8: Final = (8, 6, 0, 0, 0)
_UP: Final = 2


def read_png(data: bytes) -> tuple[NDArray[np.uint8], dict[str, str]]:
    """The pixels (height x width x 4) and the texts of a PNG file."""
    if not data.startswith(_SIGNATURE):
        raise ValueError("not a PNG file")
    texts: dict[str, str] = {}
    pixels = b""
    width = height = 0
    for kind, body in _chunks(data):
        if kind == b"IHDR":
            width, height, *form = struct.unpack(">IIBBBBB", body)
            if tuple(form) != _RGBA8:
                raise ValueError(f"only 8-bit RGBA without interlace can be read, got {form}")
        elif kind == b"IDAT":
            pixels += body
        elif kind == b"tEXt":
            key, _, text = body.partition(b"\0")
            texts[key.decode("latin-1")] = text.decode("latin-1")
    rows = np.frombuffer(zlib.decompress(pixels), np.uint8).reshape(height, 1 + 4 * width)
    if not (rows[:, 0] == _UP).all():
        raise ValueError("only rows with the filter Up can be read")
    # Each row holds its difference from the row above, modulo 256.
    return np.add.accumulate(rows[:, 1:], axis=0, dtype=np.uint8).reshape(height, width, 4), texts


def write_png(pixels: NDArray[np.uint8], texts: Mapping[str, str]) -> bytes:
    """A PNG file of these pixels (height x width x 4) with these Latin-1 texts."""
    height, width, _ = pixels.shape
    rows = pixels.reshape(height, 4 * width)
    differences = np.diff(rows, axis=0, prepend=np.zeros((1, 4 * width), np.uint8))
    filtered = np.concatenate([np.full((height, 1), _UP, np.uint8), differences], axis=1)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, *_RGBA8))]
    chunks += [(b"tEXt", f"{key}\0{text}".encode("latin-1")) for key, text in texts.items()]
    chunks += [(b"IDAT", zlib.compress(filtered.tobytes(), 9)), (b"IEND", b"")]
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = len(_SIGNATURE)
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        yield data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        position += 12 + length
