"""The numbers that H.264 gives its pictures, so that a missing one is noticed.

FFmpeg's decoder fills a gap in the numbers without a word, with motion left over from pictures it decoded long before:
what comes after a gap depends on where decoding started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.video.bitstream import IDR_SLICE, SLICE, avc_length_bytes, avc_parameter_sets, units

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPS: Final = 7
_PPS: Final = 8
_SET_BYTES: Final = 1024
"""More than those fields of a parameter set take that are read here."""
_SLICE_HEAD_BYTES: Final = 16
"""Enough for the fields of a slice up to its picture's number."""
_HIGH_PROFILES: Final = frozenset({44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 144, 244})
"""Profiles whose parameter sets say more about colours."""
_PLANES_444: Final = 3


@dataclass(frozen=True, slots=True)
class _Numbering:
    """What a sequence parameter set says of its pictures' numbers."""

    bits: int
    """Bits of a number, and before it those of a colour plane's where planes are coded apart."""
    largest: int
    may_have_gaps: bool


class FrameNumbers:
    """Follows the numbers as a decoder does that starts anew and is fed the same packets.

    It looks at the first slice of each packet: in a file that is whole there is one picture in a packet.
    """

    def __init__(self, extradata: bytes | None) -> None:
        self._length_bytes = avc_length_bytes(extradata)
        self._numberings: dict[int, _Numbering] = {}
        self._sequence_of: dict[int, int] = {}  # the sequence parameter set of each picture parameter set
        self._last: int | None = None
        data = memoryview(extradata or b"")
        self._first_slice(avc_parameter_sets(data) if self._length_bytes else units(data, 0))

    def has_gap(self, packet: memoryview, *, skips: bool) -> bool:
        """Whether pictures are missing before this one; `skips` where the decoder skips those nobody refers to."""
        at = self._length_bytes
        is_slice = 0 < at < len(packet) and packet[at] & 31 == SLICE  # nearly every packet of MP4 and Matroska
        unit = packet[at:] if is_slice else self._first_slice(units(packet, at))
        if unit is None or (skips and unit[0] < 32):
            return False
        bits = _Bits(unit[1 : 1 + _SLICE_HEAD_BYTES])
        bits.pass_golombs(2)  # the slice's place and type
        numbering = self._numberings.get(self._sequence_of.get(bits.golomb(), -1))
        if numbering is None:
            return False
        number = bits.take(numbering.bits) & numbering.largest
        last, self._last = self._last, number
        if last is None or numbering.may_have_gaps or unit[0] & 31 == IDR_SLICE:
            return False
        return (number - last) & numbering.largest > 1

    def _first_slice(self, found: Iterable[memoryview]) -> memoryview | None:
        """The first slice of these units; parameter sets before it are taken note of."""
        for unit in found:
            kind = unit[0] & 31 if len(unit) else 0
            if kind in {SLICE, IDR_SLICE}:
                return unit
            if kind == _SPS:
                number, numbering = _read_sps(_Bits(unit[1 : 1 + _SET_BYTES]))
                self._numberings[number] = numbering
            elif kind == _PPS:
                bits = _Bits(unit[1 : 1 + _SLICE_HEAD_BYTES])
                number = bits.golomb()
                self._sequence_of[number] = bits.golomb()
        return None


def _read_sps(bits: _Bits) -> tuple[int, _Numbering]:
    """A sequence parameter set: its own number, and what it says of its pictures' numbers."""
    profile = bits.take(8)
    bits.take(16)  # constraints and level
    own_number, colour_plane_bits = bits.golomb(), 0
    if profile in _HIGH_PROFILES:
        colours = bits.golomb()
        if colours == _PLANES_444 and bits.take(1):
            colour_plane_bits = 2
        bits.pass_golombs(2)  # depths of luma and chroma
        bits.take(1)
        if bits.take(1):
            for number in range(12 if colours == _PLANES_444 else 8):
                if bits.take(1):
                    _pass_scaling_list(bits, 16 if number < 6 else 64)
    number_bits = min(16, bits.golomb() + 4)
    order_kind = bits.golomb()
    if order_kind == 0:
        bits.pass_golombs(1)
    elif order_kind == 1:
        bits.take(1)
        bits.pass_golombs(2)
        bits.pass_golombs(min(255, bits.golomb()))
    bits.pass_golombs(1)  # pictures kept for reference
    return own_number, _Numbering(colour_plane_bits + number_bits, (1 << number_bits) - 1, bool(bits.take(1)))


def _pass_scaling_list(bits: _Bits, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            code = bits.golomb()
            following = (last + ((code + 1) // 2 if code % 2 else -(code // 2))) & 255
        last = following or last


class _Bits:
    """Reads a unit bit by bit; zeros follow its end."""

    __slots__ = ("_left", "_rest")

    def __init__(self, unit: memoryview) -> None:
        data = unit.tobytes().replace(b"\0\0\3", b"\0\0")
        self._rest = int.from_bytes(data, "big")
        self._left = 8 * len(data)

    def take(self, count: int) -> int:
        """The next bits as a number."""
        left = self._left - count
        if left < 0:
            self._rest, left = self._rest << -left, 0
        self._left = left
        value = self._rest >> left
        self._rest -= value << left
        return value

    def golomb(self) -> int:
        """The next number of variable length: after as many zeros as there are bits behind its leading one."""
        return max(0, self.take(2 * (self._left - self._rest.bit_length()) + 1) - 1)

    def pass_golombs(self, count: int) -> None:
        """Read over so many numbers of variable length."""
        left, rest = self._left, self._rest
        for _ in range(count):
            left = max(0, 2 * rest.bit_length() - left - 1)
            rest &= (1 << left) - 1
        self._left, self._rest = left, rest
