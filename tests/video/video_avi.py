"""AVI files of the kinds that encoders of the DivX years left behind, written chunk by chunk.

Covers what a modern muxer refuses to write: packed B-frames, frames that say "as before", fillers of one byte, key
frame flags that lie, a missing index.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import av
from video_footage import drawing

VOP = b"\0\0\1\xb6"
PACKED_BY_DIVX = b"\0\0\1\xb2DivX503b1393p"
FILLER = b"\x7f"
SIZE = (96, 64)


@dataclass(frozen=True)
class Chunk:
    """A video chunk and whether the index calls it a key frame."""

    data: bytes
    is_key: bool


def kind(data: bytes) -> str:
    """The type of the first frame of an MPEG-4 packet: I, P, B or S."""
    return "IPBS"[data[data.index(VOP) + len(VOP)] >> 6]


def as_before(tick: int, tick_bits: int = 5) -> bytes:
    """An N-VOP: a predicted frame that is not coded, at this tick of the second."""
    bits = "01" + "0" + "1" + f"{tick:0{tick_bits}b}" + "1" + "0"
    bits += "0" + "1" * (-(len(bits) + 1) % 8)
    return VOP + int(bits, 2).to_bytes(len(bits) // 8, "big")


def coded(codec: str, frames: Sequence[av.VideoFrame], *, gop: int, b_frames: int = 0) -> list[Chunk]:
    """The packets of an encoder in decode order."""
    context = av.CodecContext.create(codec, "w")
    context.width, context.height, context.pix_fmt = frames[0].width, frames[0].height, "yuv420p"
    context.framerate, context.time_base = 30, Fraction(1, 30)
    context.options = {"sc_threshold": "1000000000"}  # else each frame of noise becomes a keyframe
    context.gop_size, context.max_b_frames, context.thread_count = gop, b_frames, 1
    packets = [packet for frame in frames for packet in context.encode(frame)] + context.encode(None)
    return [Chunk(bytes(packet), packet.is_keyframe) for packet in packets]


def packed(chunks: Sequence[Chunk], *, drained: bool = True) -> list[Chunk]:
    """MPEG-4 with B-frames as a packed bitstream: a reference frame carries the first B-frame that follows it.

    `drained`: an N-VOP after the last B-frame of each run, as DivX writes it, so that nothing is left in the decoder.
    """
    found: list[Chunk] = []
    waiting: list[bytes] = []
    for chunk in chunks:
        if kind(chunk.data) == "B":
            waiting.append(chunk.data)
            continue
        _flush(found, waiting, drained=drained)
        data = chunk.data
        if kind(data) == "I":
            at = data.index(VOP)
            data = data[:at] + PACKED_BY_DIVX + data[at:]
        found.append(Chunk(data, chunk.is_key))
    _flush(found, waiting, drained=drained)
    return found


def _flush(found: list[Chunk], waiting: list[bytes], *, drained: bool) -> None:
    if not waiting:
        return
    found[-1] = Chunk(found[-1].data + waiting[0], found[-1].is_key)
    found += [Chunk(data, False) for data in waiting[1:]]
    if drained:
        found.append(Chunk(as_before(len(found) % 30), False))
    waiting.clear()


def write_avi(path: Path, fourcc: bytes, size: tuple[int, int], chunks: Sequence[Chunk], *, index: bool = True) -> None:
    """An AVI of one video stream at 30 frames a second."""
    width, height = size
    count, largest, has_index = len(chunks), max(len(chunk.data) for chunk in chunks), 0x10 if index else 0
    main = struct.pack("<14I", 33_333, 0, 0, has_index, count, 0, 1, largest, width, height, 0, 0, 0, 0)
    times = struct.pack("<IHHIIIIIIiI", 0, 0, 0, 0, 1, 30, 0, count, largest, -1, 0)
    stream = b"vids" + fourcc + times + struct.pack("<4H", 0, 0, width, height)
    form = struct.pack("<IiiHH4sIiiII", 40, width, height, 1, 24, fourcc, width * height * 3, 0, 0, 0, 0)
    head = _list(b"hdrl", _chunk(b"avih", main) + _list(b"strl", _chunk(b"strh", stream) + _chunk(b"strf", form)))
    entries, movie = b"", b"movi"
    for chunk in chunks:
        entries += b"00dc" + struct.pack("<III", 0x10 if chunk.is_key else 0, len(movie), len(chunk.data))
        movie += _chunk(b"00dc", chunk.data)
    body = head + _chunk(b"LIST", movie) + (_chunk(b"idx1", entries) if index else b"")
    path.write_bytes(_chunk(b"RIFF", b"AVI " + body))


def _chunk(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def _list(name: bytes, data: bytes) -> bytes:
    return _chunk(b"LIST", name + data)


def drawings(count: int = 36, size: tuple[int, int] = SIZE) -> list[av.VideoFrame]:
    """Frames of the moving noise that other footage shows."""
    found = []
    for number in range(count):
        frame = av.VideoFrame.from_ndarray(drawing(number, *size), format="rgb24").reformat(format="yuv420p")
        frame.pts, frame.time_base = number, Fraction(1, 30)
        found.append(frame)
    return found


def flagged(chunks: Sequence[Chunk], is_key: bool) -> list[Chunk]:
    """The chunks, all of which the index calls key frames, or none."""
    return [Chunk(chunk.data, is_key) for chunk in chunks]


def with_fillers(chunks: Sequence[Chunk], after: Sequence[int]) -> list[Chunk]:
    """The chunks with a filler of one byte after some of them, which the index calls a key frame."""
    return [one for number, chunk in enumerate(chunks) for one in [chunk, *[Chunk(FILLER, True)] * (number in after)]]


def with_repeats(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The chunks, every third followed by an N-VOP."""
    repeats = [Chunk(as_before(number % 30), False) for number in range(len(chunks))]
    return [one for number, chunk in enumerate(chunks) for one in [chunk, *[repeats[number]] * (number % 3 == 0)]]


def with_dropped(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The chunks with an empty one after each: a frame that the recorder dropped."""
    return [one for chunk in chunks for one in (chunk, Chunk(b"", False))]


@cache
def mpeg4(b_frames: int) -> list[Chunk]:
    return coded("mpeg4", drawings(), gop=12, b_frames=b_frames)


B_FRAMES: dict[str, Callable[[], list[Chunk]]] = {
    "plain": lambda: mpeg4(2),
    "packed": lambda: packed(mpeg4(2)),
    "packed-undrained": lambda: packed(mpeg4(2), drained=False),
    "filler": lambda: with_fillers(packed(mpeg4(2)), [0]),
    "fillers": lambda: with_fillers(packed(mpeg4(2)), [0, 15, 30, 31]),
    "all-flagged": lambda: flagged(mpeg4(2), True),
    "all-flagged-packed": lambda: flagged(packed(mpeg4(2)), True),
    "none-flagged": lambda: flagged(mpeg4(2), False),
    "dropped": lambda: with_dropped(packed(mpeg4(2))),
    "first-is-no-keyframe": lambda: mpeg4(2)[1:],
    "first-is-no-keyframe-packed": lambda: packed(mpeg4(2))[1:],
    "first-is-a-b-frame": lambda: mpeg4(2)[2:],
}
"""MPEG-4 with B-frames in AVI, whose times are those of decoding."""

NO_B_FRAMES: dict[str, Callable[[], list[Chunk]]] = {
    "simple": lambda: mpeg4(0),
    "simple-all-flagged": lambda: flagged(mpeg4(0), True),
    "simple-fillers": lambda: with_fillers(mpeg4(0), [0, 12, 13, 30]),
    "simple-repeats": lambda: with_repeats(mpeg4(0)),
    "simple-dropped": lambda: with_dropped(mpeg4(0)),
    "simple-cut": lambda: mpeg4(0)[5:],
}

OTHER_CODECS: dict[str, bytes] = {
    "flv": b"FLV1",
    "h263p": b"U263",
    "libx264": b"H264",
    "mpeg1video": b"mpg1",
    "mpeg2video": b"mpg2",
    "msmpeg4": b"DIV3",
    "msmpeg4v2": b"MP42",
    "wmv1": b"WMV1",
    "wmv2": b"WMV2",
}
"""Encoders and the four letters that AVI knows their streams by."""
