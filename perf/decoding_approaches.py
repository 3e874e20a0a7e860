"""The ways to get frames out of a video that `decoding.py` compares, and the limit: the least that must be decoded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

QUALITY = 90
LIMIT = "limit"

Give = Callable[[Sequence[float], int], list[bytes]]
"""JPEGs of the frames at these moments, at most so many rows high."""


def ours(path: str) -> Give:
    from trace_ves import video

    opened = video.open(path)
    return lambda moments, height: [frame.jpeg(QUALITY) for frame in opened.frames_at(moments, height=height)]


def torchcodec_threads(path: str) -> Give:
    decoders = _torchcodec(path, threads=2)

    def give(moments: Sequence[float], height: int) -> list[bytes]:
        return _jpegs(decoders(height, 0).get_frames_played_at(list(moments)).data.numpy())

    return give


def torchcodec_decoders(path: str) -> Give:
    decoders = _torchcodec(path, threads=1)

    def give(moments: Sequence[float], height: int) -> list[bytes]:
        half = (len(moments) + 1) // 2
        parts = [list(moments[:half]), list(moments[half:])]
        with ThreadPoolExecutor(2) as pool:
            done = pool.map(
                lambda slot: (
                    _jpegs(decoders(height, slot).get_frames_played_at(parts[slot]).data.numpy()) if parts[slot] else []
                ),
                range(2),
            )
            return [jpeg for part in done for jpeg in part]

    return give


def _torchcodec(path: str, *, threads: int) -> Callable[[int, int], Any]:
    """Decoders by height and slot; torchcodec scales while decoding, so each size needs a decoder."""
    from torchcodec.decoders import VideoDecoder
    from torchcodec.transforms import Resize

    known: dict[tuple[int, int], Any] = {}
    first = VideoDecoder(path, seek_mode="exact", num_ffmpeg_threads=threads, dimension_order="NHWC")
    width, rows = first.metadata.width, first.metadata.height

    def decoder(height: int, slot: int) -> Any:
        if height >= rows and slot == 0:
            return first
        if (height, slot) not in known:
            scale = [] if height >= rows else [Resize((height, round(width * height / rows)))]
            known[height, slot] = VideoDecoder(
                path, seek_mode="exact", num_ffmpeg_threads=threads, dimension_order="NHWC", transforms=scale
            )
        return known[height, slot]

    return decoder


def decord_reader(path: str) -> Give:
    import decord

    first = decord.VideoReader(path, num_threads=2)
    rows, width, _ = first[0].shape
    known: dict[int, Any] = {rows: first}
    times = first.get_frame_timestamp(range(len(first)))[:, 0]

    def give(moments: Sequence[float], height: int) -> list[bytes]:
        height = min(height, rows)
        if height not in known:
            known[height] = decord.VideoReader(path, num_threads=2, height=height, width=round(width * height / rows))
        numbers = np.searchsorted(times, moments, side="right") - 1
        return _jpegs(known[height].get_batch(list(numbers)).asnumpy())

    return give


def opencv(path: str) -> Give:
    import cv2

    capture = cv2.VideoCapture(path)

    def give(moments: Sequence[float], height: int) -> list[bytes]:
        found = []
        for moment in moments:
            capture.set(cv2.CAP_PROP_POS_MSEC, 1000 * moment)
            _, picture = capture.read()
            rows, width = picture.shape[:2]
            if height < rows:
                picture = cv2.resize(picture, (round(width * height / rows), height), interpolation=cv2.INTER_LINEAR)
            found.append(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes())
        return found

    return give


def plain_pyav(path: str) -> Give:
    import av

    container = av.open(path)
    stream = container.streams.video[0]
    stream.thread_type = "AUTO"

    def give(moments: Sequence[float], height: int) -> list[bytes]:
        found = []
        for moment in moments:
            container.seek(int(moment / stream.time_base), stream=stream)
            shown = None
            for frame in container.decode(stream):
                if shown is not None and frame.time > moment:
                    break
                shown = frame
            rows = min(height, shown.height)
            found.append(shown.to_ndarray(format="rgb24", width=round(shown.width * rows / shown.height), height=rows))
        return _jpegs(found)

    return give


def _jpegs(pictures: Any) -> list[bytes]:
    import simplejpeg

    return [
        simplejpeg.encode_jpeg(np.ascontiguousarray(picture), quality=QUALITY, colorsubsampling="420")
        for picture in pictures
    ]


class Bare:
    """Decodes what must be decoded and nothing else, from memory: nothing is faster with this codec."""

    def __init__(self, path: str) -> None:
        from trace_ves import video

        self._video = video.open(path)
        self.frames_decoded = 0
        self.cpu_seconds = 0.0
        """Of all calls so far; gathering the packets does not count."""

    def __call__(self, moments: Sequence[float], height: int) -> list[bytes]:
        """JPEGs of the frames at these moments."""
        from trace_ves.video.decoder import plan

        index = self._video._index
        rows = [index.locate(moment) for moment in moments]
        jpegs: dict[int, bytes] = {}
        for group in plan(index, rows):
            codec, packets = self._packets(group)
            started = time.process_time()
            jpegs |= self._decode(codec, packets, frozenset(group.wanted), height)
            self.cpu_seconds += time.process_time() - started
        return [jpegs[int(index.packet[row])] for row in rows]

    @staticmethod
    def _decode(codec: Any, packets: list[Any], wanted: frozenset[int], height: int) -> dict[int, bytes]:
        from trace_ves.video.picture import Orientation, Scaler

        scaler = Scaler(Orientation())
        found = {}
        for packet in [*packets, None]:
            for frame in codec.decode(packet):
                if frame.pts in wanted:
                    found[frame.pts] = scaler.picture(frame, height).jpeg(QUALITY)
        return found

    def _packets(self, group: Any) -> tuple[Any, list[Any]]:
        """A new decoder, and copies of the packets it needs."""
        import av

        from trace_ves.video.container import Deadline

        deadline = Deadline(self._video.path, "reading it", 600)
        reader = self._video._decoder._reader((0, 1), deadline)
        source = reader._stream.codec_context
        codec = av.CodecContext.create(source.name, "r")
        codec.extradata, codec.thread_count = source.extradata, 1
        packets = []
        for number, data, frames in _needed(reader, group, deadline):
            packets.append(av.Packet(data))
            packets[-1].pts = number
            self.frames_decoded += frames
        return codec, packets


def _needed(reader: Any, group: Any, deadline: Any) -> list[tuple[int, bytes, int]]:
    """Number, data and frames of each packet that must be decoded for the wanted ones."""
    from trace_ves.video.av1 import References
    from trace_ves.video.bitstream import units

    codec = reader._stream.codec_context
    data = {number: bytes(packet) for number, packet in reader._packets_from(group.start, group.wanted[-1], deadline)}
    codec.flush_buffers()
    if codec.name == "libdav1d":
        references = References(codec.extradata)
        for number, packet in data.items():
            references.add(number, packet)
        needed = references.needed(group.wanted)
        ends = {number: [frame.end for frame in references._packets[number][1]] for number in needed}
        sizes = {number: len(data[number]) if size is None else size for number, size in needed.items()}
        return [
            (number, data[number][: sizes[number]], sum(end <= sizes[number] for end in ends[number]))
            for number in sorted(needed)
        ]

    def is_referred_to(packet: bytes) -> bool:
        if codec.name == "h264":
            slices = [unit[0] for unit in units(memoryview(packet), 4) if unit[0] & 31 in {1, 5}]
            return any(head >> 5 & 3 for head in slices)
        if codec.name == "hevc":
            kinds = [unit[0] >> 1 & 63 for unit in units(memoryview(packet), 4)]
            return any(kind % 2 or kind > 15 for kind in kinds if kind < 32)
        return True

    return [(n, packet, 1) for n, packet in data.items() if n in group.wanted or is_referred_to(packet)]


APPROACHES: dict[str, Callable[[str], Give]] = {
    "trace-ves": ours,
    "torchcodec, 2 decoders": torchcodec_decoders,
    "torchcodec, 2 threads": torchcodec_threads,
    "decord": decord_reader,
    "OpenCV": opencv,
    "PyAV, seek + decode": plain_pyav,
    LIMIT: Bare,
}
