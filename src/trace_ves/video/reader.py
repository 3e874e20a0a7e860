"""One open file with one decoder: seeks to a packet, decodes forward from there and yields the frames.

For one thread at a time. A packet's timestamp is replaced by its number in decode order, so that no timestamp misleads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import cached_property
from io import BufferedReader
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np
from av.codec.context import ThreadType
from av.video.frame import PictureType, VideoFrame

from trace_ves.core import VideoError
from trace_ves.video.av1 import References, UnreadableHeaderError
from trace_ves.video.bitstream import CONCEALS_MISSING_REFERENCES, FrameNumbers, hevc_has_one_layer, start_check
from trace_ves.video.container import (
    MAX_PIXELS,
    NO_TIME,
    RAW_FORMATS,
    READ_ERRORS,
    Deadline,
    PacketTable,
    choose_stream,
    open_container,
)

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet as AnyPacket
    from av.video.codeccontext import VideoCodecContext
    from av.video.stream import VideoStream

    Packet = AnyPacket[VideoStream]

_CAN_SKIP: Final = frozenset({"h264", "mpeg1video", "mpeg2video"})
"""Decoders that can skip unreferenced frames. Not MPEG-4 part 2: a packet may hold a frame of the next one as well."""
_INTER: Final = frozenset({int(PictureType.P), int(PictureType.B), int(PictureType.S)})  # pictures that refer to others

_HIDES_DAMAGE: Final = CONCEALS_MISSING_REFERENCES - {"mpeg1video", "mpeg2video", "mpeg4"} | {
    *("dvvideo", "ffv1", "h261", "magicyuv", "speedhq", "vp8")
}
"""Codecs whose decoders do not report all damage and keep what damaged headers said when they are flushed: the picture
then depends on what was decoded before. Each run gets a new decoder."""

_START_OF_SCAN: Final = b"\xff\xda"  # of a JPEG; without it the decoder gives an old picture, without an error

_MAX_EMPTY_BYTES: Final = 19  # of a packet of MPEG-4 part 2 in AVI that has no picture, as FFmpeg expects it

_MAX_HELD_BYTES: Final = 64 << 20  # packets to hold while it is found out which are needed; of more, all are decoded

_X264: Final = re.compile(rb"x264 - core\s*(\d{1,9})")  # what it writes before the first picture
_X264_WITHOUT_FAULTS: Final = 151  # FFmpeg's decoder treats all builds from this one on as if it did not know the build

_BYTES_AHEAD: Final = 1 << 18  # to read from the file at once

_CHECK_EVERY: Final = 8  # packets between two looks at the clock

_SEEK_BACK_TRIES: Final = 3
_UNKNOWN_PACKETS_READ: Final = 64  # packets to read after a seek, in search of one that the table knows


class PacketsMovedError(Exception):
    """What is read after a seek is not what the packet table says; reading from the start of the file may help."""


class Reader:
    """A demuxer and a decoder of one file."""

    def __init__(
        self,
        path: Path,
        packets: PacketTable,
        stream_index: int,
        *,
        threads: int,
        deadline: Deadline,
        strict: bool = True,
        container: InputContainer | None = None,
    ) -> None:
        """Read this file; takes over a `container` that is already open. A `strict` decoder conceals no damage."""
        self._path = path
        self._packets = packets
        self._stream_index = stream_index
        self._threads = threads
        self._strict = strict
        self._is_fresh = container is None
        self._file: BufferedReader | None = None  # for packets whose data is in the file as it is
        self.damaged: set[int] = set()  # packets of the last run that were refused, that miss a picture or gave a part
        self.started_badly = False  # whether the last run started at a frame that refers to others, whatever its flags
        self._use(container or open_container(path, deadline))

    def _use(self, container: InputContainer) -> None:
        self._container = container
        self._stream, _ = choose_stream(container, self._path)
        if self._stream.index != self._stream_index:
            container.close()
            raise VideoError(f"{self._path}: the file changed while it was being read; open it again.")
        codec = self._stream.codec_context
        self._set_up(codec)
        kind = codec.codec.canonical_name  # a decoder may have another name
        one_layer = codec.name == "hevc" and hevc_has_one_layer(codec.extradata)
        self._skips_by_decoder = codec.name in _CAN_SKIP or one_layer
        self._names_references = codec.name == "libdav1d"
        self.skips = self._skips_by_decoder or self._names_references  # frames neither wanted nor referred to
        self._knows_encoder = kind != "h264"
        self._doubts_flags = start_check(kind, codec.extradata) is None
        self.hides_damage = kind in _HIDES_DAMAGE  # only a second run can show that a picture is damaged
        self._is_jpeg = kind == "mjpeg"
        self._conceals = kind in CONCEALS_MISSING_REFERENCES
        self._is_raw = container.format.name in RAW_FORMATS
        self._seeks_by_pts = "matroska" in container.format.name

    def _set_up(self, codec: VideoCodecContext) -> None:
        """Decode with this decoder from now on."""
        is_strict = self._strict and codec.codec.canonical_name not in {"h264", "tiff"}  # marks damage; unknown tags
        codec.options = {"max_pixels": str(MAX_PIXELS)} | ({"err_detect": "explode"} if is_strict else {})
        codec.thread_count = self._threads
        codec.thread_type = ThreadType.FRAME if self._threads > 1 else ThreadType.SLICE
        self._codec = codec

    def close(self) -> None:
        """Close the file and the decoder."""
        self._container.close()
        if self._file is not None:
            self._file.close()

    @cached_property
    def _number_of(self) -> Callable[[Packet], int | None]:
        return _numbers_by_identity(self._packets)

    def open_lenient(self, deadline: Deadline) -> Reader:
        """Another reader of the file, which conceals damage as a player does."""
        return Reader(self._path, self._packets, self._stream_index, threads=1, deadline=deadline, strict=False)

    def may_be_empty(self, packet_bytes: int) -> bool:
        """Whether a packet of this size may hold no picture without being damaged."""
        return self._stream.codec_context.name == "mpeg4" and packet_bytes <= _MAX_EMPTY_BYTES

    def first_packet(self, deadline: Deadline) -> memoryview:
        """The data of the first packet, if it can be read."""
        return memoryview(next((bytes(packet) for _, packet in self._packets_from(0, 0, deadline)), b""))

    def frames(
        self, start: int, wanted: Collection[int], deadline: Deadline, *, skip_unwanted: bool = True
    ) -> Iterator[tuple[int, VideoFrame]]:
        """Decode from packet `start` to the last wanted one; each frame that comes, with its packet's number."""
        if (self.hides_damage or not self._strict or self.damaged) and not self._is_fresh:
            self._reopen(deadline)  # a decoder keeps what damage left in it
        elif self._codec.name == "hevc" and not self._is_fresh:  # the decoder keeps what damaged headers said
            fresh: Any = av.CodecContext.create(self._codec.codec, "r")
            fresh.extradata = self._codec.extradata
            self._set_up(fresh)
        if start > 0 and not self._knows_encoder:
            self._learn_encoder(deadline)
        self._knows_encoder = True  # or learns it now, from the first packet
        self.damaged = set()
        self.started_badly = False
        last = max(wanted)
        packets = self._packets_from(start, last, deadline)
        if skip_unwanted and self._names_references:
            packets = self._needed_by(wanted, packets)
        numbers = FrameNumbers(self._codec.extradata) if self._codec.name == "h264" else None
        skipping = False
        for number, packet in packets:
            codec = self._codec  # only now: to go back to the start may mean to open the file again
            if skip_unwanted and self._skips_by_decoder and (number in wanted) == skipping:
                skipping = not skipping
                codec.skip_frame = "NONREF" if skipping else "DEFAULT"
            if (numbers is not None and numbers.has_gap(memoryview(packet), skips=skipping)) or (
                self._is_jpeg and _START_OF_SCAN not in bytes(packet)
            ):
                self.damaged.add(number)
            packet.pts = number
            for shown, frame in self._decode(codec, packet, number):
                self.started_badly |= self._doubts_flags and shown == start > 0 and frame.pict_type in _INTER
                yield shown, frame
        yield from self._decode(self._codec, None, last)

    def _learn_encoder(self, deadline: Deadline) -> None:
        """Show a new decoder of H.264 the first packet if it names an old x264, whose faults FFmpeg makes up for."""
        for _, packet in self._packets_from(0, 0, deadline):
            named = _X264.search(bytes(packet))
            if named and int(named[1]) < _X264_WITHOUT_FAULTS:
                with suppress(av.FFmpegError):
                    self._codec.decode(packet)

    def _packets_from(self, start: int, last: int, deadline: Deadline) -> Iterator[tuple[int, Packet]]:
        """The packets from one to another, each with its number; fewer where the file ends or cannot be read on."""
        if self._packets.head_bytes is not None:
            yield from self._stored_packets(self._packets, self._packets.head_bytes, range(start, last + 1), deadline)
            return
        number, packet, source = self._seek(start, deadline)
        self._codec.skip_frame = "DEFAULT"
        sizes = self._packets.size
        while packet is not None and number <= last:
            if number % _CHECK_EVERY == 0:
                deadline.check()
            if number >= len(sizes) or packet.size != sizes[number]:
                raise PacketsMovedError
            if number >= start:
                yield number, packet
            number += 1
            packet = _next_packet(source) if number <= last else None

    def _stored_packets(
        self, table: PacketTable, head_bytes: int, numbers: range, deadline: Deadline
    ) -> Iterator[tuple[int, Packet]]:
        """The same where the file has the data of packets as it is, which is faster than demuxing."""
        self._is_fresh = False
        self._codec.flush_buffers()
        self._codec.skip_frame = "DEFAULT"
        columns = (one[numbers.start : numbers.stop].tolist() for one in (table.position, table.size, table.is_key))
        for number, (position, size, is_key) in enumerate(zip(*columns, strict=True), numbers.start):
            if number % _CHECK_EVERY == 0:
                deadline.check()
            packet: Any = av.Packet(size)  # zeros follow; a packet made of bytes has none, and decoders read on
            try:
                file = self._file = self._file or BufferedReader(self._path.open("rb", buffering=0), _BYTES_AHEAD)
                file.seek(position + head_bytes)
                if file.readinto(packet) < size:
                    return
            except OSError:
                return
            packet.is_keyframe = is_key
            yield number, packet

    def _needed_by(
        self, wanted: Collection[int], packets: Iterator[tuple[int, Packet]]
    ) -> Iterator[tuple[int, Packet]]:
        """Of these packets those, and of each that part, which wanted ones depend on; all where that is not certain."""
        held: dict[int, Packet] = {}
        held_bytes = 0
        try:
            references = References(self._stream.codec_context.extradata)
            for number, packet in packets:
                held[number] = packet
                held_bytes += packet.size
                if held_bytes > _MAX_HELD_BYTES:
                    raise UnreadableHeaderError
                references.add(number, bytes(packet))
        except UnreadableHeaderError:
            yield from held.items()
            yield from packets
            return
        for number, size in sorted(references.needed(wanted).items()):
            part: Any = held[number] if size is None else av.Packet(memoryview(held[number])[:size].tobytes())
            yield number, part

    def _decode(self, codec: VideoCodecContext, packet: Packet | None, number: int) -> Iterator[tuple[int, VideoFrame]]:
        """The frames that this packet sets free, None for all that are left; a damaged packet gives none."""
        try:
            frames = codec.decode(packet)
        except av.FFmpegError:
            if packet is None or not self.may_be_empty(packet.size):
                self.damaged.add(number)
            return
        for frame in frames:
            if frame.pict_type == PictureType.NONE and self._conceals:
                continue  # the grey picture that the decoder made up for a reference which is not there
            shown = frame.pts
            if frame.is_corrupt:
                self.damaged.add(number if shown is None else shown)
            if shown is not None:
                yield shown, frame

    def _seek(self, start: int, deadline: Deadline) -> tuple[int, Packet | None, Iterator[Packet]]:
        """Place the demuxer at or before a packet; the number of the packet read first, that packet, and the rest."""
        if self._container.format.name in {"av1", "obu"} or (start == 0 and (self._is_fresh or self._is_raw)):
            return self._rewind(deadline)
        if self._is_raw:
            self._is_fresh = False
            self._container.seek(int(self._packets.position[start]), stream=self._stream, unsupported_byte_offset=True)
            source = iter(self._container.demux(self._stream))
            return start, _next_packet(source), source
        for target in self._seek_targets(start):
            self._is_fresh = False
            try:
                self._container.seek(target, stream=self._stream, backward=True)
            except av.FFmpegError:
                continue
            source = iter(self._container.demux(self._stream))
            for _ in range(_UNKNOWN_PACKETS_READ):
                packet = _next_packet(source)
                if packet is None:
                    break
                number = self._number_of(packet)
                if number is not None:
                    if number <= start:
                        return number, packet, source
                    break
        return self._rewind(deadline)

    def _seek_targets(self, start: int) -> Iterator[int]:
        """Timestamps to seek to, the most promising first, then ever earlier keyframes."""
        packets = self._packets
        keys = packets.is_key[: start + 1].nonzero()[0][::-1][:_SEEK_BACK_TRIES]
        columns = (packets.pts, packets.dts) if self._seeks_by_pts else (packets.dts, packets.pts)
        for key in keys:
            for column in columns:
                if column[key] != NO_TIME:
                    yield int(column[key])

    def _reopen(self, deadline: Deadline) -> None:
        self._container.close()
        self._use(open_container(self._path, deadline))
        self._is_fresh = True

    def _rewind(self, deadline: Deadline) -> tuple[int, Packet | None, Iterator[Packet]]:
        """Move to the first packet; the one place that needs no seeking, so it is always found."""
        if not self._is_fresh:
            self._reopen(deadline)
        self._is_fresh = False
        source = iter(self._container.demux(self._stream))
        return 0, _next_packet(source), source


def _next_packet(source: Iterator[Packet]) -> Packet | None:
    """The next packet with something in it; None at the end of the file or where it cannot be read on."""
    try:
        for packet in source:
            if packet.size:
                return packet
    except READ_ERRORS:
        pass
    return None


def _numbers_by_identity(packets: PacketTable) -> Callable[[Packet], int | None]:
    """How to tell which packet of the table was read: by its place in the file, else by its timestamp."""
    for name, column in (("pos", packets.position), ("pts", packets.pts)):
        identity = attrgetter(name)
        order = np.argsort(column, kind="stable")
        known = column[order]
        if np.all(known[1:] != known[:-1]):
            break
    else:
        return lambda _packet: None

    def find(packet: Packet) -> int | None:
        value = identity(packet)
        if value is None or value == -1:
            return None
        at = int(np.searchsorted(known, value))
        return int(order[at]) if at < len(known) and known[at] == value else None

    return find
