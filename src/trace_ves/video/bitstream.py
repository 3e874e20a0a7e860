"""What the bits of H.264 and HEVC say that containers do not: where decoding may start, and what may be skipped.

Reads unit headers and two fixed fields; decodes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SLICE: Final = 1
_IDR_SLICE: Final = 5
_SEI: Final = 6
_RECOVERY_POINT: Final = 6
"""The type of the SEI message that says after how many frames a decoder that starts here is right again."""
_HEVC_VPS: Final = 32
_HVCC_HEAD_BYTES: Final = 23


def h264_start_check(extradata: bytes | None) -> Callable[[memoryview], bool]:
    """Tells for a packet whether decoding from it gives exact frames from the first one on.

    True for an IDR picture and for one that recovers at once, as at the head of an open group; false for the slow
    recovery of periodic intra refresh, and for an intra picture of which the stream promises nothing.
    """
    avcc = extradata is not None and len(extradata) > 6 and extradata[0] == 1
    length_bytes = (extradata[4] & 3) + 1 if avcc and extradata is not None else 0

    def starts(packet: memoryview) -> bool:
        for unit in _with_lengths(packet, length_bytes) if length_bytes else _with_start_codes(packet):
            kind = unit[0] & 31 if len(unit) else 0
            if kind == _SEI and _recovers_at_once(unit[1:]):
                return True
            if kind in {_SLICE, _IDR_SLICE}:
                return kind == _IDR_SLICE
        return False

    return starts


def hevc_has_one_layer(extradata: bytes | None) -> bool:
    """Whether the stream surely has a single temporal layer.

    Only then are the pictures that HEVC marks as not referred to within their layer not referred to at all.
    """
    if extradata is None:
        return False
    data = memoryview(extradata)
    hvcc = len(data) >= _HVCC_HEAD_BYTES and data[0] == 1
    if hvcc and (data[21] >> 3) & 7 != 1:
        return False
    units = _in_hvcc(data) if hvcc else _with_start_codes(data)
    layers = [(unit[3] >> 1) & 7 for unit in units if len(unit) > 3 and unit[0] >> 1 == _HEVC_VPS]
    return bool(layers) and not any(layers)


def _in_hvcc(data: memoryview) -> Iterator[memoryview]:
    """The parameter sets in the head that MP4 and Matroska keep: arrays of units, each after two bytes of length."""
    at = _HVCC_HEAD_BYTES
    while at + 3 <= len(data):
        count, at = int.from_bytes(data[at + 1 : at + 3], "big"), at + 3
        for _ in range(count):
            length = int.from_bytes(data[at : at + 2], "big")
            yield data[at + 2 : at + 2 + length]
            at += 2 + length


def _with_lengths(packet: memoryview, length_bytes: int) -> Iterator[memoryview]:
    """The units of a packet as MP4 and Matroska store them: each after its length."""
    at = 0
    while at + length_bytes < len(packet):
        length = int.from_bytes(packet[at : at + length_bytes], "big")
        yield packet[at + length_bytes : at + length_bytes + length]
        at += length_bytes + length


def _with_start_codes(packet: memoryview) -> Iterator[memoryview]:
    """The units of a packet as streams carry them: each after the bytes 0, 0, 1."""
    data = bytes(packet)
    at = data.find(b"\0\0\1")
    while at >= 0:
        end = data.find(b"\0\0\1", at + 3)
        yield packet[at + 3 : end if end >= 0 else len(data)]
        at = end


def _recovers_at_once(messages: memoryview) -> bool:
    """Whether one of these SEI messages is a recovery point after no further frame: its first bit is then set."""
    at = 0
    while at + 2 < len(messages):
        kind, at = _sum_of_bytes(messages, at)
        size, at = _sum_of_bytes(messages, at)
        if kind == _RECOVERY_POINT:
            return at < len(messages) and bool(messages[at] & 0x80)
        at += size
    return False


def _sum_of_bytes(data: memoryview, at: int) -> tuple[int, int]:
    """A number written as bytes of 255 and a last one below, and where the next thing starts."""
    total = 0
    while at < len(data):
        total += data[at]
        at += 1
        if data[at - 1] != 255:
            break
    return total, at
