"""Find out once for each file which frames it shows and when, and what is odd about it.

A file whose timestamps cannot be trusted is decoded once. A slow survey is stored on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np

from trace_ves.core import VideoError
from trace_ves.records.disk_cache import Facts, identify, load_facts, save_facts
from trace_ves.video.bitstream import CONCEALS_MISSING_REFERENCES, flags_can_be_checked, head_gives_size, start_check
from trace_ves.video.block_table import read_block_table
from trace_ves.video.container import (
    NO_TIME,
    RAW_FORMATS,
    Deadline,
    PacketTable,
    choose_stream,
    needs_no_frame,
    open_container,
    read_packets,
)
from trace_ves.video.index import (
    FrameIndex,
    index_by_output,
    index_by_pts,
    index_by_rate,
    make_index,
    timestamps_can_be_trusted,
)
from trace_ves.video.picture import Orientation, checksum, orientation_of
from trace_ves.video.reader import PacketsMovedError, Reader
from trace_ves.video.sample_table import read_sample_table

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream
    from numpy.typing import NDArray


_MIN_GAP_TO_REPORT_SECONDS: Final = 1.0
_PACKETS_COMPARED: Final = 32  # to demux at each end of a file before the table of its samples or blocks is believed
_PACKETS_TO_SEE_REORDERING: Final = 120  # to decode where timestamps show no reordering but the decoder may reorder
_IN_DECODING_ORDER: Final = "its timestamps are in decoding order; frames follow the decoder's order"
_IN_NO_ORDER: Final = "its timestamps are not in the order of its frames; frames follow the decoder's order"
_HIDES_ALL_DAMAGE: Final = frozenset({"h261", "speedhq", "tiff"})  # decoders that keep old pixels without an error
_USUAL_RATE: Final = Fraction(25)  # frames for each second if the file gives no hint, as in FFmpeg
_VERSION: Final = 9  # goes up whenever a survey would come out differently
_FOLDER: Final = "video-index"
_PLAIN_FIELDS: Final = ("stream_index", "codec", "width", "height")
_PACKET_COLUMNS: Final = tuple(column.name for column in fields(PacketTable) if column.name != "head_bytes")
_FIRST_FRAME_PACKETS: Final = 300  # packets to decode in search of a first frame before a file counts as undecodable


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a file before any frame is asked for."""

    stream_index: int
    codec: str
    width: int  # columns as shown, after rotation
    height: int
    orientation: Orientation
    index: FrameIndex
    rate: Fraction  # frames for each second, as the container declares or else suggests
    warnings: tuple[str, ...]
    checksums: NDArray[np.int64] | None = None  # of each packet's frame, where the whole file was decoded


def survey(path: Path, deadline: Deadline) -> tuple[Survey, Reader]:
    """What the file shows and when, and a reader of it. Decodes its first frame, or more, only where it must."""
    with ExitStack() as on_failure:
        container = on_failure.enter_context(open_container(path, deadline))
        stream, warnings = choose_stream(container, path)
        facts = _Facts.of(container, stream)
        packets, broken, is_upright = _read_table(path, container, stream, deadline)
        if not len(packets):
            raise VideoError(f"{path}: there is a video stream in this file, but not one frame in it.")
        reader = Reader(path, packets, facts.stream_index, threads=1, deadline=deadline, container=container)
        on_failure.callback(reader.close)
        try:
            codec = stream.codec_context
            is_known = is_upright and packets.is_key[0] and (codec.pix_fmt is not None or needs_no_frame(stream))
            size, read_first = (codec.width, codec.height), lambda: reader.first_packet(deadline)
            is_known = is_known and head_gives_size(facts.codec, codec.extradata, size, read_first)
            first = None if is_known else _first_frame(reader, packets, path, deadline)
            index, output = _index(reader, packets, facts, deadline)
        except PacketsMovedError:
            raise VideoError(f"{path}: its packets are not where its own index says; the file is damaged.") from None
        if not len(index):
            raise VideoError(f"{path}: not one frame of this video can be decoded; the file is damaged.")
        on_failure.pop_all()
    if output is not None and output.damaged:
        warnings += (f"{output.damaged} of its packets are damaged",)
    orientation = Orientation() if first is None else orientation_of(first)
    warnings += (*broken, *facts.warnings(index), *((output.reason,) if output and output.reason else ()))
    if orientation is None:
        orientation = Orientation()
        warnings += ("it asks to be shown turned by an angle that is not a multiple of 90 degrees; shown as stored",)
    width, height = orientation.shape((first or codec).width, (first or codec).height)
    checksums = None if output is None else output.checksums
    found = Survey(facts.stream_index, facts.codec, width, height, orientation, index, facts.rate, warnings, checksums)
    return found, reader


def _read_table(
    path: Path, container: InputContainer, stream: VideoStream, deadline: Deadline
) -> tuple[PacketTable, tuple[str, ...], bool]:
    """The packets, of the head of the file where the demuxer agrees; a warning; and whether this head turns nothing."""
    codec = stream.codec_context
    is_start = start_check(codec.codec.canonical_name, codec.extradata)
    table, missing, is_upright = None, 0, True
    if "mov" in container.format.name:
        table, missing, is_upright = read_sample_table(path, stream.id, is_start)
    elif "matroska" not in container.format.name:
        return *read_packets(container, stream, is_start, deadline), False
    first, broke_off = read_packets(container, stream, None, deadline, limit=_PACKETS_COMPARED)
    if "matroska" in container.format.name and len(first) and not broke_off:
        table = read_block_table(path, int(first.position[0]), is_start, deadline)
    if table is not None and _agrees(table, first, container, stream, deadline):
        return table, (), is_upright
    cut = f"the file is cut short: {missing} of {stream.frames} frames lie beyond its end"
    with open_container(path, deadline) as unread:
        packets, broke_off = read_packets(unread, choose_stream(unread, path)[0], is_start, deadline)
    return packets, ((cut,) if missing else ()) + broke_off, False


def _agrees(
    table: PacketTable, first: PacketTable, container: InputContainer, stream: VideoStream, deadline: Deadline
) -> bool:
    """Whether the first and the last packets of a table are what the demuxer gives."""
    end = max(0, len(table) - _PACKETS_COMPARED)
    try:
        if table.dts[end] != NO_TIME:
            container.seek(int(table.dts[end]), stream=stream, any_frame=True)
        else:
            keys = np.flatnonzero(table.is_key[: end + 1])
            container.seek(int(table.pts[keys[-1] if len(keys) else 0]), stream=stream)
    except av.FFmpegError:
        return False
    last, broke_off = read_packets(container, stream, None, deadline)  # whose keyframes are checked in the table
    row = len(table) - len(last)
    agrees = not broke_off and row <= end and table.contains(first, 0) and table.contains(last, row)
    if agrees and table.dts[end] == NO_TIME:
        table.duration[row:] = last.duration  # blocks need not say it, and the last frame's is needed
    return agrees


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the container says of itself, which need not be true."""

    stream_index: int
    codec: str
    format: str
    time_base: Fraction
    rate: Fraction
    flags_are_sure: bool  # whether a packet that is called a keyframe is one, or decoding from it shows that it is not
    reorders: bool  # whether the decoder may show frames in another order than they are stored in
    has_timestamps: bool
    declared_seconds: float  # 0 where it does not say
    pixel_aspect: Fraction

    @classmethod
    def of(cls, container: InputContainer, stream: VideoStream) -> _Facts:
        time_base = Fraction(stream.time_base or Fraction(1, 90_000))
        seconds = stream.duration * time_base if stream.duration else Fraction(container.duration or 0, 1_000_000)
        return cls(
            stream_index=stream.index,
            codec=stream.codec_context.codec.canonical_name,
            format=container.format.name,
            time_base=time_base,
            rate=_positive(stream.guessed_rate) or _positive(stream.average_rate) or _USUAL_RATE,
            flags_are_sure=flags_can_be_checked(stream.codec_context.codec),
            reorders=bool(stream.codec_context.has_b_frames),
            has_timestamps=container.format.name not in RAW_FORMATS,
            declared_seconds=float(seconds),
            pixel_aspect=_positive(stream.codec_context.sample_aspect_ratio) or Fraction(1),
        )

    def warnings(self, index: FrameIndex) -> Iterator[str]:
        """What the file promises and does not hold, or what may surprise in its pictures."""
        end = index.duration + max(0.0, float(int(index.pts[0]) * index.time_base))
        if not self.has_timestamps:
            yield f"it has no timestamps; frames are placed at {float(self.rate):g} a second"
        elif self.declared_seconds - end > _MIN_GAP_TO_REPORT_SECONDS + 0.02 * self.declared_seconds:
            yield f"it declares {self.declared_seconds:.3f} s, but frames end at {end:.3f} s"
        if self.codec in _HIDES_ALL_DAMAGE:
            yield f"damage cannot be detected in {self.codec} video"
        starts_at_key = index.packets.is_key[index.start]
        if self.codec in CONCEALS_MISSING_REFERENCES and not starts_at_key.all():
            some = "it has no keyframe; all of its frames"
            if starts_at_key.any():
                first_key = index.seconds[int(np.argmax(starts_at_key))]
                some = f"its first {np.count_nonzero(~starts_at_key)} frames, up to {first_key:.3f} s,"
            yield f"{some} are decoded without what they refer to"
        if self.pixel_aspect != 1:
            yield f"its pixels are not square ({self.pixel_aspect}); pictures are given as stored"


@dataclass(frozen=True, slots=True)
class _Output:
    """What a decode of the whole file gave."""

    numbers: NDArray[np.int64]  # packet numbers in the order in which their frames are shown
    checksums: NDArray[np.int64]  # by packet number; -1 for packets that give no frame
    damaged: int  # how many packets the decoder refused
    reason: str | None = None  # what is odd about the file's timestamps, so that this was needed


def _index(
    reader: Reader, packets: PacketTable, facts: _Facts, deadline: Deadline
) -> tuple[FrameIndex, _Output | None]:
    """Which frames are shown when; and what a decode of the whole file gave, where that was needed to know."""
    if not facts.has_timestamps:
        output = _decode_all(reader, packets, deadline)
        return index_by_rate(packets, output.numbers, facts.rate), output
    doubt = _doubt(reader, packets, facts, deadline)
    if doubt is not None:
        output = _decode_all(reader, packets, deadline)
        if doubt != _IN_DECODING_ORDER or np.any(output.numbers[1:] < output.numbers[:-1]):
            output = replace(output, reason=doubt)
        if facts.format == "avi":
            packets = replace(packets, pts=packets.dts)
        return index_by_output(packets, output.numbers, facts.time_base, facts.rate), output
    if not facts.flags_are_sure or reader.may_be_empty(int(packets.size.min())):
        output = _decode_all(reader, packets, deadline)
        shown = packets.pts[output.numbers]
        if np.any(shown[1:] < shown[:-1]):  # as FFmpeg makes them up for a packed bitstream that it copies from an AVI
            output = replace(output, reason=_IN_NO_ORDER)
            return index_by_output(packets, output.numbers, facts.time_base, facts.rate), output
        is_hidden = output.checksums < 0
        if not facts.flags_are_sure and (count := int(np.count_nonzero(is_hidden & ~packets.is_discard))):
            output = replace(output, reason=f"{count} of its packets give no frame; they are left out")
        return index_by_pts(packets.without(is_hidden), facts.time_base, facts.rate), output
    index = index_by_pts(packets, facts.time_base, facts.rate)
    if hidden := _undecodable_head(reader, index, deadline):
        is_hidden = np.isin(np.arange(len(packets)), hidden)
        index = index_by_pts(packets.without(is_hidden), facts.time_base, facts.rate)
    return index, None


def _doubt(reader: Reader, packets: PacketTable, facts: _Facts, deadline: Deadline) -> str | None:
    """Why the timestamps cannot be taken as they are; None where they can."""
    if not timestamps_can_be_trusted(packets):
        return "some of its frames have no timestamp; frames follow the decoder's order"
    reordered = bool(np.any(packets.pts[1:] < packets.pts[:-1]))
    # AVI stores one time for each packet; where frames are reordered, pts is a guess of the demuxer, often wrong
    if facts.format == "avi" and (reordered or bool(np.any(packets.pts != packets.dts))):
        return _IN_DECODING_ORDER
    if facts.reorders and not reordered:
        head = range(min(len(packets), _PACKETS_TO_SEE_REORDERING))
        shown = (number for number, _ in reader.frames(0, head, deadline, skip_unwanted=False))
        if any(later < number for number, later in pairwise(shown)):
            return _IN_DECODING_ORDER
    return None


def _first_frame(reader: Reader, packets: PacketTable, path: Path, deadline: Deadline) -> VideoFrame:
    """Some early frame: enough to know the pictures' size and how they are turned."""
    first_key = int(np.argmax(packets.is_key))
    several = range(min(len(packets), _FIRST_FRAME_PACKETS))
    for start, wanted in ((first_key, (first_key,)), (0, several)):
        with suppress(PacketsMovedError):
            for _, frame in reader.frames(start, wanted, deadline, skip_unwanted=False):
                return frame
    raise VideoError(f"{path}: none of the first {len(several)} frames can be decoded; the file is damaged.")


def _decode_all(reader: Reader, packets: PacketTable, deadline: Deadline) -> _Output:
    """The order in which the decoder shows the frames of the whole file, and their checksums."""
    checksums = np.full(len(packets), -1, dtype=np.int64)
    shown: dict[int, int] = {}
    with closing(reader.open_lenient(deadline)) as lenient:
        for number, frame in lenient.frames(0, range(len(packets)), deadline, skip_unwanted=False):
            shown.pop(number, None)  # damaged data may bring two pictures of one packet; the last one counts
            shown[number] = checksum(frame)
    numbers = np.array(list(shown), dtype=np.int64)
    checksums[numbers] = list(shown.values())
    return _Output(numbers, checksums, len(lenient.damaged))


def _undecodable_head(reader: Reader, index: FrameIndex, deadline: Deadline) -> list[int]:
    """Packets at the head of the file that the decoder gives nothing for, because what they refer to was cut off."""
    first_key = int(np.append(np.flatnonzero(index.packets.is_key), -1)[0])
    suspects = index.packet[: int(np.argmax(index.packet == first_key))].tolist()  # shown before the first keyframe
    if not suspects:
        return []
    through = range(max(*suspects, first_key) + 1)
    shown = {number for number, _ in reader.frames(0, through, deadline, skip_unwanted=False)}
    return [number for number in suspects if number not in shown]


def _positive(value: Fraction | None) -> Fraction | None:
    return Fraction(value) if value is not None and value > 0 else None


def load_survey(path: Path) -> Survey | None:
    """The survey of this very file; None where there is none, or none that can be read."""
    try:
        facts = load_facts(_FOLDER, _cache_key(path))
    except OSError:  # opening the file will say what is wrong with it
        facts = None
    if facts is None:
        return None
    values = facts.values
    columns = {name: each if each.dtype == bool else each.cumsum(dtype="i8") for name, each in facts.columns.items()}
    packets = PacketTable(**{name: columns[name] for name in _PACKET_COLUMNS}, head_bytes=values["head_bytes"])
    rate = Fraction(values["rate"])
    return Survey(
        **{name: values[name] for name in _PLAIN_FIELDS},
        orientation=Orientation(**values["orientation"]),
        index=make_index(packets, Fraction(values["time_base"]), columns["shown_pts"], columns["shown_packet"], rate),
        rate=rate,
        warnings=tuple(values["warnings"]),
        checksums=columns.get("checksums"),
    )


def save_survey(path: Path, survey: Survey) -> None:
    """Keep the survey of this file."""
    index = survey.index
    columns: dict[str, NDArray[Any]] = {column: getattr(index.packets, column) for column in _PACKET_COLUMNS}
    columns |= {"shown_pts": index.pts, "shown_packet": index.packet}
    if survey.checksums is not None:
        columns["checksums"] = survey.checksums
    values = {name: getattr(survey, name) for name in _PLAIN_FIELDS} | {
        "head_bytes": index.packets.head_bytes,
        "orientation": asdict(survey.orientation),
        "time_base": str(index.time_base),
        "rate": str(survey.rate),
        "warnings": survey.warnings,
    }
    for name, column in columns.items():
        if column.dtype != np.bool_:
            steps = np.diff(column, prepend=0)  # these compress faster, and most fit into fewer bytes
            lowest = min(int(steps.min()), -1 - int(steps.max()))  # steps from and to a missing time wrap around
            columns[name] = steps.astype(np.min_scalar_type(lowest))
    save_facts(_FOLDER, _cache_key(path), Facts(values, columns))


def _cache_key(path: Path) -> list[object]:
    """Another file, another change or another decoder is another key."""
    return [_VERSION, identify(path), sorted(av.library_versions.items())]
