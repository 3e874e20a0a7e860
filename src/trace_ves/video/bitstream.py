"""Headers in the stream, which show where decoding can start and which pictures are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from av.codec import Codec


StartCheck = Callable[[memoryview], bool]  # whether decoding from a packet gives exact frames from the first one on

SLICE: Final = 1
IDR_SLICE: Final = 5  # these hold a part of a picture; a decoder forgets at the second kind what came before
_SEI: Final = 6
_RECOVERY_POINT: Final = 6  # the SEI message with the number of frames after which a decoder that starts here is exact
_HEVC_VPS: Final = 32
_HEVC_FIRST_IRAP: Final = 16  # from here on: types of HEVC units from which a decoder may start
_HEVC_LAST_IRAP: Final = 23
_HVCC_HEAD_BYTES: Final = 23


CONCEALS_MISSING_REFERENCES: Final = frozenset(  # the decoder replaces missing references by grey, without an error
    {"flv1", "h263", "mpeg1video", "mpeg2video", "mpeg4", "msmpeg4v1", "msmpeg4v2", "msmpeg4v3", "wmv1", "wmv2"}
)


_HONEST_DECODERS: Final = frozenset(  # they mark a picture that refers to others, so the reader notices a wrong flag
    {"av1", "cavs", "h261", "rv10", "rv20", "rv30", "rv40", "svq1", "svq3", "theora", "vc1", "vp3", "vp4", "vp5"}
    | {"vp6", "vp6a", "vp6f", "vvc", "wmv3"}
)
_NOT_INTRA_ONLY: Final = frozenset({"mss1", "mss2"})  # though FFmpeg says so


def start_check(codec: str, extradata: bytes | None) -> StartCheck | None:
    """The check for packets of this codec; None if there is none."""
    make = _START_CHECKS.get(codec)
    return None if make is None else make(extradata)


def flags_can_be_checked(codec: Codec) -> bool:
    """Whether a wrong keyframe flag of the container can be detected without decoding the whole file."""
    name = codec.canonical_name
    intra = name == "png" or (codec.intra_only and name not in _NOT_INTRA_ONLY)
    return intra or name in _START_CHECKS or name in _HONEST_DECODERS


def h264_start_check(extradata: bytes | None) -> StartCheck:
    """Checks packets of H.264: true for an IDR picture and one that recovers at once, false for a slow recovery."""
    length_bytes = avc_length_bytes(extradata)

    def starts(packet: memoryview) -> bool:
        for unit in units(packet, length_bytes):
            kind = unit[0] & 31 if len(unit) else 0
            if kind == _SEI and _recovers_at_once(unit[1:]):
                return True
            if kind in {SLICE, IDR_SLICE}:
                return kind == IDR_SLICE
        return False

    return starts


def _hevc_start_check(extradata: bytes | None) -> StartCheck:
    """Checks packets of HEVC: the first coded unit must be a random access point."""
    hvcc = extradata is not None and len(extradata) >= _HVCC_HEAD_BYTES and extradata[0] == 1
    length_bytes = (extradata[21] & 3) + 1 if hvcc and extradata is not None else 0

    def starts(packet: memoryview) -> bool:
        for unit in units(packet, length_bytes):
            kind = (unit[0] >> 1) & 63 if len(unit) else _HEVC_VPS
            if kind < _HEVC_VPS:
                return _HEVC_FIRST_IRAP <= kind <= _HEVC_LAST_IRAP
        return False

    return starts


def _after_start_code(code: bytes, is_intra: Callable[[bytes], bool]) -> Callable[[bytes | None], StartCheck]:
    """A check of packets whose first picture header follows a start code, by the two bytes after it."""

    def starts(packet: memoryview) -> bool:
        data = bytes(packet)
        at = data.find(code)
        header = data[at + len(code) : at + len(code) + 2]
        return at >= 0 and len(header) == 2 and is_intra(header)

    return lambda _extradata: starts


def _by_first_bytes(size: int, is_intra: Callable[[memoryview], bool]) -> Callable[[bytes | None], StartCheck]:
    """A check of packets that begin with their picture header, of which this many bytes are needed."""
    return lambda _extradata: lambda packet: len(packet) >= size and is_intra(packet)


def _bits(packet: memoryview, at: int, count: int) -> int:
    """Read `count` bits of the first 16 bytes, from bit `first`."""
    return (int.from_bytes(packet[:16].tobytes().ljust(16, b"\0"), "big") >> (128 - at - count)) & ((1 << count) - 1)


def _is_h263_intra(packet: memoryview) -> bool:
    """One bit, or three in the extended header, which is at one of two places."""
    if _bits(packet, 35, 3) != 7:
        return _bits(packet, 38, 1) == 0
    return _bits(packet, 59 if _bits(packet, 38, 3) == 1 else 41, 3) == 0


def _is_flv1_intra(packet: memoryview) -> bool:
    """Two bits after the size of the picture, which may be written out in 16 or 32 bits."""
    return _bits(packet, 33 + {0: 16, 1: 32}.get(_bits(packet, 30, 3), 0), 2) == 0


def _is_vp9_key(packet: memoryview) -> bool:
    """A frame marker of two bits, two bits of profile (3 has a reserved bit after it), not a repeat, frame type 0."""
    bits = packet[0] << 1 if packet[0] & 0x30 == 0x30 else packet[0]
    return packet[0] >> 6 == 2 and not bits & 0x0C


def hevc_has_one_layer(extradata: bytes | None) -> bool:
    """Whether the stream has only one temporal layer, so that pictures marked as unreferenced are unreferenced."""
    data = memoryview(extradata or b"")
    sets = _in_hvcc(data) if len(data) >= _HVCC_HEAD_BYTES and data[0] == 1 else _with_start_codes(data)
    layers = [(unit[3] >> 1) & 7 for unit in sets if len(unit) > 3 and unit[0] >> 1 == _HEVC_VPS]
    return bool(layers) and not any(layers)


def avc_length_bytes(extradata: bytes | None) -> int:
    """Bytes of the length before each unit of H.264 in MP4 and Matroska; 0 if units follow start codes."""
    head = extradata or b""
    return (head[4] & 3) + 1 if len(head) > 6 and head[0] == 1 else 0


def avc_parameter_sets(data: memoryview) -> Iterator[memoryview]:
    """The parameter sets in the configuration of H.264 in MP4 and Matroska, each after two bytes of length."""
    at = 5
    for mask in (31, 255):
        count, at = data[at] & mask if at < len(data) else 0, at + 1
        for _ in range(count):
            length = int.from_bytes(data[at : at + 2], "big")
            yield data[at + 2 : at + 2 + length]
            at += 2 + length


def units(packet: memoryview, length_bytes: int) -> Iterator[memoryview]:
    """The units of a packet of H.264 or HEVC, each after its length, or after a start code if there are no lengths."""
    if not length_bytes:
        yield from _with_start_codes(packet)
        return
    at = 0
    while at + length_bytes < len(packet):
        length = int.from_bytes(packet[at : at + length_bytes], "big")
        yield packet[at + length_bytes : at + length_bytes + length]
        at += length_bytes + length


def _in_hvcc(data: memoryview) -> Iterator[memoryview]:
    """The parameter sets in the configuration in MP4 and Matroska: arrays of units, each after two bytes of length."""
    at = _HVCC_HEAD_BYTES
    while at + 3 <= len(data):
        count, at = int.from_bytes(data[at + 1 : at + 3], "big"), at + 3
        for _ in range(count):
            length = int.from_bytes(data[at : at + 2], "big")
            yield data[at + 2 : at + 2 + length]
            at += 2 + length


def _with_start_codes(packet: memoryview) -> Iterator[memoryview]:
    """The units of a packet with start codes, each after the bytes 0, 0, 1."""
    data = bytes(packet)
    at = data.find(b"\0\0\1")
    while at >= 0:
        end = data.find(b"\0\0\1", at + 3)
        yield packet[at + 3 : end if end >= 0 else len(data)]
        at = end


def _recovers_at_once(messages: memoryview) -> bool:
    """Whether one of these SEI messages is an immediate recovery point, whose first bit is set."""
    at = 0
    while at + 2 < len(messages):
        kind, at = _sum_of_bytes(messages, at)
        size, at = _sum_of_bytes(messages, at)
        if kind == _RECOVERY_POINT:
            return at < len(messages) and bool(messages[at] & 0x80)
        at += size
    return False


def _sum_of_bytes(data: memoryview, at: int) -> tuple[int, int]:
    """Read a number stored as bytes of 255 and a smaller last byte; returns it and the next position."""
    total = 0
    while at < len(data):
        total += data[at]
        at += 1
        if data[at - 1] != 255:
            break
    return total, at


_MPEG12_CHECK: Final = _after_start_code(b"\0\0\1\0", lambda header: (header[1] >> 3) & 7 == 1)
_TWO_BITS_CHECK: Final = _by_first_bytes(1, lambda packet: packet[0] >> 6 == 0)

_START_CHECKS: Final[Mapping[str, Callable[[bytes | None], StartCheck]]] = {
    "ffv1": _by_first_bytes(2, lambda packet: _bits(packet, 0, 16) >= 0x7F80),  # the range coder's first bit is set
    "flv1": _by_first_bytes(9, _is_flv1_intra),
    "h263": _by_first_bytes(8, _is_h263_intra),
    "h264": h264_start_check,
    "hevc": _hevc_start_check,
    "mpeg1video": _MPEG12_CHECK,
    "mpeg2video": _MPEG12_CHECK,
    "mpeg4": _after_start_code(b"\0\0\1\xb6", lambda header: header[0] >> 6 == 0),
    "msmpeg4v1": _by_first_bytes(5, lambda packet: (packet[4] >> 1) & 3 == 0),
    "msmpeg4v2": _TWO_BITS_CHECK,
    "msmpeg4v3": _TWO_BITS_CHECK,
    "wmv1": _TWO_BITS_CHECK,
    "wmv2": _by_first_bytes(1, lambda packet: packet[0] >> 7 == 0),
    "vp8": _by_first_bytes(1, lambda packet: packet[0] & 1 == 0),
    "vp9": _by_first_bytes(1, _is_vp9_key),
}


_SPS: Final = 7
_PPS: Final = 8
_SET_BYTES: Final = 1024  # more than the fields of a parameter set that are read
_SLICE_HEAD_BYTES: Final = 16  # enough for the fields of a slice up to its picture's number
_HIGH_PROFILES: Final = frozenset({44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 144, 244})
"""Profiles whose parameter sets have more fields about colours."""
_PLANES_444: Final = 3


@dataclass(frozen=True, slots=True)
class _Numbering:
    """How a sequence parameter set numbers its pictures."""

    bits: int  # bits of a number, and before it those of a colour plane's where planes are coded apart
    largest: int
    may_have_gaps: bool


class FrameNumbers:
    """Tracks the picture numbers in the first slice of each packet, like a restarted decoder."""

    def __init__(self, extradata: bytes | None) -> None:
        self._length_bytes = avc_length_bytes(extradata)
        self._numberings: dict[int, _Numbering] = {}
        self._sequence_of: dict[int, int] = {}  # the sequence parameter set of each picture parameter set
        self._last: int | None = None
        data = memoryview(extradata or b"")
        self._first_slice(avc_parameter_sets(data) if self._length_bytes else units(data, 0))

    def has_gap(self, packet: memoryview, *, skips: bool) -> bool:
        """Whether pictures are missing before this one; `skips` if the decoder skips unreferenced ones."""
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
        """The first slice of these units; reads the parameter sets before it."""
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
    """Read a sequence parameter set: its number, and how it numbers pictures."""
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
    """Reads bits of a unit; zeros follow its end."""

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
        """Read an Exp-Golomb number: as many zeros as there are bits after its leading one, then the number."""
        return max(0, self.take(2 * (self._left - self._rest.bit_length()) + 1) - 1)

    def pass_golombs(self, count: int) -> None:
        """Skip this many Exp-Golomb numbers."""
        left, rest = self._left, self._rest
        for _ in range(count):
            left = max(0, 2 * rest.bit_length() - left - 1)
            rest &= (1 << left) - 1
        self._left, self._rest = left, rest


_VP9_HEAD_BYTES: Final = 9  # of a keyframe, up to its size
_VP9_SHOWN_KEY: Final = 0x82_49_83_42  # the start of one of profile 0, without the bit for resilience to errors
_DISPLAY_ORIENTATION: Final = 47  # the SEI message that turns pictures
_UNITS: Final = {  # bits behind the type, bytes of the head, type of sequence parameter sets, of SEI, of plain others
    "h264": (0, 1, _SPS, {_SEI}, {SLICE, IDR_SLICE, 9, 12}),
    "hevc": (1, 2, 33, {39, 40}, {*range(10), *range(16, 22), 35, 38}),
}


def head_gives_size(
    codec: str, extradata: bytes | None, size: tuple[int, int], packet: Callable[[], memoryview]
) -> bool:
    """Whether the size that the head of a file gives is that of a packet's picture, which nothing here turns."""
    if codec == "vp9":
        return _vp9_size(packet()) == size
    head = memoryview(extradata or b"")
    if codec not in _UNITS or len(head) < _HVCC_HEAD_BYTES or head[0] != 1:
        return False
    shift, head_bytes, sps, sei, others = _UNITS[codec]
    sets, length_at = (avc_parameter_sets(head), 4) if codec == "h264" else (_in_hvcc(head), 21)
    crops: list[bool] = []
    for found, is_first in ((sets, True), (units(packet(), (head[length_at] & 3) + 1), False)):
        for unit in found:
            kind = unit[0] >> shift & (63 >> 1 - shift) if len(unit) else -1
            if kind in sei:
                message, at = _sum_of_bytes(unit, head_bytes)
                length, at = _sum_of_bytes(unit, at)
                if message == _DISPLAY_ORIENTATION or at + length + 1 < len(unit):
                    return False  # or another message follows
            elif is_first and kind == sps:
                crops.append(_crops_left(codec, _Bits(unit[head_bytes:])))
            elif not is_first and kind not in others:
                return False
    return crops == [False]


def _vp9_size(packet: memoryview) -> tuple[int, int] | None:
    """The size of a keyframe of profile 0 that is shown, unless it is one of several frames in its packet."""
    if len(packet) < _VP9_HEAD_BYTES or _bits(packet, 0, 32) & ~(1 << 24) != _VP9_SHOWN_KEY:
        return None
    has_index = packet[-1] & 0xE0 == 0xC0  # of the frames in the packet
    return None if has_index else (_bits(packet, 36, 16) + 1, _bits(packet, 52, 16) + 1)


def _crops_left(codec: str, bits: _Bits) -> bool:
    """Whether columns on the left are not shown: FFmpeg shows some of them, so that rows stay aligned in memory."""
    if codec == "h264":
        return _read_h264_size(bits)[1] > 0
    if bits.take(104) >> 97 & 7:  # before nesting, profile and level
        return True  # or not: profiles of further layers come first
    bits.pass_golombs(1)
    bits.take(1 if bits.golomb() == _PLANES_444 else 0)
    bits.pass_golombs(2)  # the size
    return bool(bits.take(1) and bits.golomb())


def _read_h264_size(bits: _Bits) -> tuple[tuple[int, int], int]:
    """Read a sequence parameter set up to its size as columns and rows, and what is cropped on the left."""
    _read_sps(bits)
    columns, rows = 16 * bits.golomb() + 16, 16 * bits.golomb() + 16
    fields = 1 if bits.take(1) else 2
    bits.take(fields)  # how fields and motion are predicted
    left, right, top, bottom = (bits.golomb() for _ in range(4)) if bits.take(1) else (0, 0, 0, 0)
    return (columns - 2 * (left + right), fields * (rows - 2 * (top + bottom))), left


def h264_head_is_complete(extradata: bytes | None, size: tuple[int, int]) -> bool:
    """Whether the head of an MP4 file gives this size, square pixels, and how far pictures are reordered."""
    length_bytes = avc_length_bytes(extradata)
    sets = list(avc_parameter_sets(memoryview(extradata or b""))) if length_bytes else []
    heads = [_Bits(unit[1:]) for unit in sets if len(unit) and unit[0] & 31 == _SPS]
    if len(heads) != 1 or _read_h264_size(bits := heads[0])[0] != size or not bits.take(1):
        return False
    if bits.take(1) and bits.take(8) > 1:  # pixels of a shape other than unknown and square
        return False
    bits.take(1 if bits.take(1) else 0)  # overscan
    if bits.take(1):  # colours
        bits.take(4)
        bits.take(24 if bits.take(1) else 0)
    bits.pass_golombs(2 if bits.take(1) else 0)  # place of chroma samples
    bits.take(65 if bits.take(1) else 0)  # frame rate
    has_buffer_sizes = bits.take(2) > 0
    return not has_buffer_sizes and bits.take(2) & 1 == 1
