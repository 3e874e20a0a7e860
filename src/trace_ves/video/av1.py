"""The references between AV1 frames, read from their headers, to skip frames that no wanted frame depends on.

An AV1 frame takes pixels, probabilities, motion and grain only from the references that its header names.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

_SEQUENCE_HEADER: Final = 1
_FRAME_HEADER: Final = 3
_TILE_GROUP: Final = 4
_FRAME: Final = 6
_WITHOUT_FRAMES: Final = frozenset({2, 5, 15})  # temporal delimiter, metadata, padding

_KEY_FRAME: Final = 0
_INTER_FRAME: Final = 1
_SWITCH_FRAME: Final = 3
_SLOTS: Final = 8
_REFERENCES: Final = 7
_ALL_SLOTS: Final = (1 << _SLOTS) - 1
_CHOSEN_BY_FRAME: Final = 2  # of a tool that each frame's header turns on or off
_HEADER_BYTES: Final = 24  # more than the fields of a header that are read
_CONFIG_HEAD_BYTES: Final = 4  # before the headers that MP4 and Matroska store separately

_SLOTS_IN: Final = [1 << (bits >> 6) | 1 << (bits >> 3 & 7) | 1 << (bits & 7) for bits in range(1 << 9)]
"""The slots of three references, as a bit set."""
_SLOTS_OF: Final = [tuple(slot for slot in range(_SLOTS) if bits >> slot & 1) for bits in range(1 << _SLOTS)]


class UnreadableHeaderError(Exception):
    """The header is damaged, or only the decoder can interpret it."""


@dataclass(frozen=True, slots=True)
class _Sequence:
    """The fields of the sequence header that are needed to read frame headers."""

    screen_content: int
    integer_motion: int
    order_hint_bits: int


def _read_sequence(data: bytes) -> _Sequence:
    """Read a sequence header; raise for features that only a decoder can follow, such as layers and frame numbers."""
    value, left = int.from_bytes(data, "big"), 8 * len(data)

    def take(count: int) -> int:
        nonlocal left
        left -= count
        if left < 0:
            raise UnreadableHeaderError
        return value >> left & ((1 << count) - 1)

    take(4)
    if take(1):
        raise UnreadableHeaderError  # a still picture
    if take(1):  # timing
        take(64)
        if take(1):
            zeros = 0
            while not take(1):
                zeros += 1
            take(zeros)  # a number with as many bits as there are zeros before it
        if take(1):
            raise UnreadableHeaderError  # a decoder model
    has_delay = take(1)
    for _ in range(take(5) + 1):
        if take(12):
            raise UnreadableHeaderError  # layers
        if take(5) > 7:
            take(1)
        if has_delay and take(1):
            take(4)
    size_bits = take(4) + 1 + take(4) + 1
    take(size_bits)
    if take(1):
        raise UnreadableHeaderError  # frames with numbers
    take(7)
    has_order_hints = take(1)
    if has_order_hints:
        take(2)
    screen_content = _CHOSEN_BY_FRAME if take(1) else take(1)
    integer_motion = _CHOSEN_BY_FRAME
    if screen_content and not take(1):
        integer_motion = take(1)
    return _Sequence(screen_content, integer_motion, take(3) + 1 if has_order_hints else 0)


def _read_header(header: bytes, sequence: _Sequence) -> tuple[bool, int, int]:
    """Whether a frame is a keyframe, the slots that it fills and the slots that it refers to, as bit sets."""
    missing = 8 * (_HEADER_BYTES - len(header))
    bits = int.from_bytes(header, "big") << missing
    left = 8 * _HEADER_BYTES - 4
    kind, is_shown = bits >> left + 1 & 3, bits >> left & 1
    left -= not is_shown
    resets = kind == _SWITCH_FRAME or (kind == _KEY_FRAME and bool(is_shown))
    left -= not resets
    is_resilient = resets or bits >> left & 1
    left -= 1
    screen_content = sequence.screen_content
    if screen_content == _CHOSEN_BY_FRAME:
        left -= 1
        screen_content = bits >> left & 1
    if screen_content and sequence.integer_motion == _CHOSEN_BY_FRAME:
        left -= 1
    left -= (kind != _SWITCH_FRAME) + sequence.order_hint_bits
    is_inter = kind in {_INTER_FRAME, _SWITCH_FRAME}
    if is_inter and not is_resilient:
        left -= 3
    refreshes, named = _ALL_SLOTS, 0
    if not resets:
        left -= 8
        refreshes = bits >> left & _ALL_SLOTS
    if is_inter:
        left -= _SLOTS * sequence.order_hint_bits if is_resilient else 0
        left -= sequence.order_hint_bits > 0
        if sequence.order_hint_bits and bits >> left & 1:
            raise UnreadableHeaderError  # references are found by the times of all slots
        left -= 3 * _REFERENCES
        named = _SLOTS_IN[bits >> left + 12 & 511] | _SLOTS_IN[bits >> left + 3 & 511] | 1 << (bits >> left & 7)
    if left < missing:
        raise UnreadableHeaderError
    return kind == _KEY_FRAME, refreshes, named


@dataclass(slots=True)
class _Frame:
    """A frame, or a repetition of an earlier one."""

    end: int  # where its data ends in its packet
    refers_to: tuple[int, ...]  # numbers of frames, in decode order


class References:
    """The frames of consecutive packets and their references."""

    def __init__(self, extradata: bytes | None) -> None:
        self._sequence: _Sequence | None = None
        self._count = 0
        self._slots = [-1] * _SLOTS  # the number of the frame that each slot holds; -1 for one before the first packet
        self._keys: set[int] = set()
        self._packets: dict[int, tuple[int, list[_Frame]]] = {}  # by number: its first frame's number, and its frames
        self._resets: set[int] = set()  # packets with a sequence header
        for kind, start, end in _units(config := (extradata or b"")[_CONFIG_HEAD_BYTES:]):
            if kind == _SEQUENCE_HEADER:
                self._sequence = _read_sequence(config[start:end])

    def add(self, number: int, packet: bytes) -> None:
        """Read the headers of the next packet; `UnreadableHeaderError` if they cannot be read with certainty."""
        first, frames = self._count, list[_Frame]()
        for kind, start, end in _units(packet):
            if kind in {_FRAME, _FRAME_HEADER}:
                head = packet[start : end if end - start < _HEADER_BYTES else start + _HEADER_BYTES]
                frames.append(_Frame(end, self._read_frame(head)))
            elif kind == _TILE_GROUP and frames:
                frames[-1].end = end
            elif kind == _SEQUENCE_HEADER:
                self._sequence = _read_sequence(packet[start:end])
                self._resets.add(number)
            elif kind not in _WITHOUT_FRAMES:
                raise UnreadableHeaderError
        self._packets[number] = first, frames

    def _read_frame(self, header: bytes) -> tuple[int, ...]:
        """Return the references of the next frame, and put it into its slots."""
        sequence, slots = self._sequence, self._slots
        if sequence is None or not header:
            raise UnreadableHeaderError
        number, self._count = self._count, self._count + 1
        if header[0] & 0x80:
            shown = slots[header[0] >> 4 & 7]
            if shown in self._keys:  # a keyframe shown later takes effect when it is shown
                self._slots = [number] * _SLOTS
            return (shown,)
        is_key, refreshes, named = _read_header(header, sequence)
        references = tuple([slots[slot] for slot in _SLOTS_OF[named]])
        if is_key:
            self._keys.add(number)
        for slot in _SLOTS_OF[refreshes]:
            slots[slot] = number
        return references

    def needed(self, wanted: Collection[int]) -> dict[int, int | None]:
        """The packets that must be decoded, each with the number of bytes needed; None for all."""
        needs: set[int] = set()
        byte_counts: dict[int, int | None] = {}
        for number in reversed(self._packets):
            first, frames = self._packets[number]
            count = len(frames)
            if number in wanted or number in self._resets:
                byte_counts[number] = None
            else:
                while count and first + count - 1 not in needs:
                    count -= 1
                if count:
                    byte_counts[number] = frames[count - 1].end
            for frame in frames[:count]:
                needs.update(frame.refers_to)
        return byte_counts


def _units(data: bytes) -> list[tuple[int, int, int]]:
    """The units of a packet: type, start and end of the content."""
    found, at, length = [], 0, len(data)
    while at < length:
        head = data[at]
        if head & 0x84:  # damaged, or of a layer
            raise UnreadableHeaderError
        at += 1
        end = length
        if head & 0x02 and at < length:
            size, at = _size(data, at)
            end = at + size
        if end > length:
            raise UnreadableHeaderError
        found.append((head >> 3 & 15, at, end))
        at = end
    return found


def _size(data: bytes, at: int) -> tuple[int, int]:
    """Read a number with seven bits per byte, lowest first; returns it and the next position."""
    value = shift = 0
    while at < len(data) and shift < 56:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise UnreadableHeaderError
