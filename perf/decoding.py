"""How fast sparse exact frames come out of a video as JPEG: this package beside torchcodec, decord, OpenCV and PyAV.

    python perf/decoding.py [--quick] [--repeats 5] [--folder out/benchmark-videos]

The row "limit" is the processor time of a bare loop over packets in memory that decodes only the frames that must be
decoded and makes the JPEGs that were asked for, and how many frames that are.

Videos are made once. Each approach runs in a process of its own, so that its peak memory is its own; what cannot be
imported is left out with the reason. Every picture carries the number of its frame as a bar code, and every JPEG is
read back and checked: an approach that gives a wrong frame is reported beside its time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

FPS = 30
MILLISECOND = Fraction(1, 1000)
BITS = 18
QUALITY = 90
LIMIT = "limit"


@dataclass(frozen=True)
class Film:
    """A video to make and look at."""

    name: str
    codec: str
    width: int
    height: int
    seconds: int
    gop: int
    copies: int = 1
    """The encoded packets follow each other this many times; frame numbers start again with each."""
    variable: bool = False
    """Whether frames stay for different times."""

    @property
    def frames(self) -> int:
        """Frames that are encoded: those of one copy."""
        return self.seconds * FPS

    @property
    def duration(self) -> float:
        """Seconds of the whole film."""
        return self.seconds * self.copies

    def times_ms(self) -> np.ndarray:
        """When each frame of one copy is shown, in whole milliseconds as Matroska has them."""
        numbers = np.arange(self.frames)
        if not self.variable:
            return np.round(numbers * 1000 / FPS).astype(np.int64)
        held = 20 + 27 * (numbers * 7 % 31) // 31
        return (np.cumsum(held) - held) * self.seconds * 1000 // int(held.sum())

    def numbers_at(self, moments: Sequence[float]) -> list[int]:
        """The numbers that the frames on screen at these moments show; none of the moments is near a change."""
        within = np.asarray(moments) % self.seconds
        return [int(number) for number in np.searchsorted(self.times_ms() / 1000, within, side="right") - 1]


def films(*, quick: bool) -> list[Film]:
    """One film for each codec and size, in different containers; two of variable rate, and long ones."""
    short, large, long = (1, 9, 10) if quick else (7, 62, 120)
    return [
        Film("h264-360p.mp4", "libx264", 640, 360, 62, 250, short),
        Film("h264-720p.mp4", "libx264", 1280, 720, 62, 60, short),
        Film("h264-1080p.mkv", "libx264", 1920, 1080, 62, 120, short),
        Film("h264-4k.mp4", "libx264", 3840, 2160, 7, 60, large),
        Film("hevc-360p.mp4", "libx265", 640, 360, 62, 250, short),
        Film("hevc-720p.mkv", "libx265", 1280, 720, 62, 120, short),
        Film("hevc-1080p.mp4", "libx265", 1920, 1080, 62, 120, short),
        Film("hevc-4k.mkv", "libx265", 3840, 2160, 7, 60, large),
        Film("vp9-360p.webm", "libvpx-vp9", 640, 360, 62, 128, short),
        Film("vp9-720p.mkv", "libvpx-vp9", 1280, 720, 62, 128, short),
        Film("vp9-1080p.mp4", "libvpx-vp9", 1920, 1080, 62, 128, short),
        Film("vp9-4k.webm", "libvpx-vp9", 3840, 2160, 7, 64, large),
        Film("av1-360p.mp4", "libsvtav1", 640, 360, 62, 240, short),
        Film("av1-720p.webm", "libsvtav1", 1280, 720, 62, 120, short),
        Film("av1-1080p.mkv", "libsvtav1", 1920, 1080, 62, 120, short),
        Film("av1-4k.mp4", "libsvtav1", 3840, 2160, 7, 60, large),
        Film("h264-360p-variable.mp4", "libx264", 640, 360, 62, 250, short, variable=True),
        Film("vp9-360p-variable.webm", "libvpx-vp9", 640, 360, 62, 128, short, variable=True),
        Film("h264-360p-2h.mp4", "libx264", 640, 360, 60, 250, long),
        Film("hevc-360p-2h.mkv", "libx265", 640, 360, 60, 250, long),
        Film("vp9-360p-2h.webm", "libvpx-vp9", 640, 360, 60, 128, long),
        Film("av1-360p-2h.mkv", "libsvtav1", 640, 360, 60, 240, long),
    ]


WARM_UP = Film("warm-up.mp4", "libx264", 64, 48, 2, 30)
"""Opened before anything is timed, so that imports are not."""

ENCODERS: dict[str, dict[str, str]] = {
    "libx264": {"preset": "veryfast", "crf": "26"},
    "libx265": {"preset": "ultrafast", "crf": "28", "x265-params": "log-level=none:bframes=4"},
    "libvpx-vp9": {"deadline": "good", "cpu-used": "5", "row-mt": "1", "crf": "40", "b": "0"},
    "libsvtav1": {"preset": "12", "crf": "40", "svtav1-params": "lp=2"},
}


def draw(number: int, film: Film, texture: np.ndarray) -> np.ndarray:
    """A moving picture in planes of YUV, with the frame's number as bright and dark cells along the top."""
    height, width = film.height, film.width
    shift = (number * 3) % width
    planes = texture[:, shift : shift + width].copy()
    cell = width // BITS
    for bit in range(BITS):
        planes[: height // 8, bit * cell : (bit + 1) * cell] = 220 if number >> bit & 1 else 30
    side = height // 4
    top = height // 2 + int(side * 0.8 * np.sin(number / 17))
    left = int((width - side) * (0.5 + 0.5 * np.sin(number / 41)))
    planes[top : top + side, left : left + side] = (number * 5) % 200 + 20
    return planes


def read_number(jpeg: bytes) -> int:
    """The frame number that a JPEG shows."""
    import simplejpeg

    picture = simplejpeg.decode_jpeg(jpeg, colorspace="GRAY")[..., 0]
    height, width = picture.shape
    row = picture[height // 24 : height // 12].mean(axis=0)
    cell = width / BITS
    return sum(int(row[int((bit + 0.3) * cell) : int((bit + 0.7) * cell)].mean() > 125) << bit for bit in range(BITS))


def make(film: Film, path: Path) -> None:
    """Encode the film, and repeat its packets where it is longer than its content."""
    import av

    texture = np.random.default_rng(1).integers(0, 255, (film.height // 8, film.width // 4), dtype=np.uint8)
    texture = np.tile(texture.repeat(8, axis=0).repeat(8, axis=1), (1, 2)) // 2 + 50
    part = path.with_suffix(".part" + path.suffix)
    grey = np.full((film.height // 2, film.width), 128, dtype=np.uint8)
    times = film.times_ms().tolist()
    with av.open(str(part), "w") as container:
        stream = container.add_stream(film.codec, rate=FPS, options=ENCODERS[film.codec])
        stream.width, stream.height, stream.pix_fmt = film.width, film.height, "yuv420p"
        stream.codec_context.gop_size = film.gop
        stream.codec_context.thread_type = "AUTO"
        stream.codec_context.time_base = MILLISECOND if film.variable else Fraction(1, FPS)
        packets = []
        for number in range(film.frames):
            planes = np.vstack((draw(number, film, texture), grey))
            frame = av.VideoFrame.from_ndarray(planes, format="yuv420p")
            frame.time_base = stream.codec_context.time_base
            frame.pts = times[number] if film.variable else number
            packets += stream.encode(frame)
        packets += stream.encode(None)
        for copy in range(film.copies):
            for packet in packets:
                container.mux(_copied(packet, copy * film.seconds, stream))
    part.replace(path)


def _copied(packet: Any, shift_seconds: int, stream: Any) -> Any:
    import av

    again = av.Packet(bytes(packet))
    again.stream, again.is_keyframe = stream, packet.is_keyframe
    again.time_base = packet.time_base
    shift = round(shift_seconds / packet.time_base)
    again.pts, again.dts = packet.pts + shift, packet.dts + shift
    return again


@dataclass(frozen=True)
class Job:
    """Moments to look at, and how many rows of pixels to give."""

    name: str
    height: int
    moments: tuple[float, ...]


def jobs(duration: float) -> list[Job]:
    def spread(start: float, length: float, count: int) -> tuple[float, ...]:
        return tuple(start + (index + 0.5) * length / count for index in range(count))

    clusters = tuple(moment for share in (0.13, 0.37, 0.61, 0.83) for moment in spread(duration * share, 4, 4))
    return [
        Job("32 uniform @224", 224, spread(0, duration, 32)),
        Job("16 in 16 s @448", 448, spread(duration * 0.4, 16, 16)),
        Job("4 x 4 in 4 s @448", 448, clusters),
        Job("1 frame @448", 448, (duration * 0.7 + 1.01,)),
    ]


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
    """Decoders by height and slot; torchcodec scales while decoding, so a size is a decoder of its own."""
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
    """Decodes what must be decoded and nothing else, from memory: with this codec nobody can be faster."""

    def __init__(self, path: str) -> None:
        from trace_ves import video

        self._video = video.open(path)
        self.frames_decoded = 0
        self.cpu_seconds = 0.0
        """Of all calls so far; gathering the packets does not count."""

    def __call__(self, moments: Sequence[float], height: int) -> list[bytes]:
        """JPEGs of the frames at these moments."""
        from trace_ves.video.plan import plan

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

        from trace_ves.video.deadline import Deadline

        deadline = Deadline(self._video.path, "reading it", 600)
        reader = self._video._decoder._reader((0, 1), deadline)
        source = reader._stream.codec_context
        codec = av.CodecContext.create(source.name, "r")
        codec.extradata, codec.thread_count = source.extradata, 1
        packets = []
        for number, size, frames in _needed(reader, group, deadline):
            packets.append(av.Packet(size))
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
        needed = references.needed(group.wanted, keep_slots=False)
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


def work(approach: str, path: str, film: Film) -> dict[str, Any]:
    """One run of one approach in this process: seconds for each job, wrong frames, and peak memory."""
    try:
        APPROACHES[approach](str(Path(path).with_name(WARM_UP.name)))((0.0,), 224)  # imports are not what is timed
        clock = _Clock()
        give = APPROACHES[approach](path)
    except (ImportError, RuntimeError, OSError) as error:
        return {"skipped": f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"}
    seconds = {"open": clock.wall()}
    cpu = {"open": clock.cpu()}
    give((0.0,), 224)  # decoders for each size are made here, untimed
    give((0.0, 1.0), 448)
    if isinstance(give, Bare):
        give.cpu_seconds, give.frames_decoded = 0.0, 0
    wrong = {}
    frames = {}
    for job in jobs(film.duration):
        clock = _Clock()
        jpegs = give(job.moments, job.height)
        seconds[job.name], cpu[job.name] = clock.wall(), clock.cpu()
        if isinstance(give, Bare):
            cpu[job.name], frames[job.name] = give.cpu_seconds, give.frames_decoded
            give.cpu_seconds, give.frames_decoded = 0.0, 0
        expected = film.numbers_at(job.moments)
        wrong[job.name] = sum(read_number(jpeg) != number for jpeg, number in zip(jpegs, expected, strict=True))
    peak_mb = _peak_mb()
    clock = _Clock()
    again = APPROACHES[approach](path)
    seconds["open again"], cpu["open again"] = clock.wall(), clock.cpu()
    del again
    return {"wall": seconds, "cpu": cpu, "wrong": wrong, "peak_mb": peak_mb, "frames": frames}


class _Clock:
    """Wall-clock and processor seconds since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def wall(self) -> float:
        return time.perf_counter() - self._wall

    def cpu(self) -> float:
        return time.process_time() - self._cpu


def _peak_mb() -> float:
    """The most memory this process held; getrusage would count the parent's as well."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(film: Film, path: Path, repeats: int, names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Every approach in turn, round after round, so that a busy moment of the machine hits all alike."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            if found[name] and "skipped" in found[name][-1]:
                continue
            with tempfile.TemporaryDirectory() as cache:
                command = [sys.executable, __file__, "--worker", name, str(path), json.dumps(film.__dict__)]
                environment = os.environ | {"TRACE_VES_CACHE_DIR": cache}
                done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            lines = done.stdout.strip().splitlines()
            reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
            found[name].append(json.loads(lines[-1]) if done.returncode == 0 and lines else {"skipped": reason})
    return found


def report(film: Film, found: dict[str, list[dict[str, Any]]]) -> None:
    columns = [*(job.name for job in jobs(film.duration)), "open", "open again"]
    print(f"\n{film.name}: {film.width}x{film.height}, {film.duration} s, keyframe every {film.gop} frames.")
    print("Median wall-clock ms / processor ms (wall-clock as a multiple of ours)\n")
    print("| Approach | " + " | ".join(columns) + " | peak memory | wrong frames |")
    print("|---" * (len(columns) + 3) + "|")
    best = _medians(found["trace-ves"], "wall", columns)
    for name, runs in found.items():
        if "skipped" in runs[-1]:
            print(f"| {name} | left out: {runs[-1]['skipped']}" + " | " * (len(columns) + 1) + "|")
            continue
        if name == LIMIT:
            _report_limit(runs, _medians(found["trace-ves"], "cpu", columns), columns)
            continue
        wall, cpu = _medians(runs, "wall", columns), _medians(runs, "cpu", columns)
        cells = [f"{wall[key] * 1000:.0f} / {cpu[key] * 1000:.0f} ({wall[key] / best[key]:.1f}x)" for key in columns]
        wrong = sum(runs[-1]["wrong"].values())
        total = sum(len(job.moments) for job in jobs(film.duration))
        peak = statistics.median(run["peak_mb"] for run in runs)
        print(f"| {name} | " + " | ".join(cells) + f" | {peak:.0f} MB | {wrong} of {total} |", flush=True)


def _report_limit(runs: list[dict[str, Any]], ours: dict[str, float], columns: Sequence[str]) -> None:
    """How much of our processor time the bare loop takes for the frames that must be decoded."""
    cpu, frames = _medians(runs, "cpu", columns), runs[-1]["frames"]
    cells = [
        f"- / {cpu[key] * 1000:.0f} ({frames[key]} frames; ours is at {cpu[key] / ours[key]:.0%})"
        if key in frames
        else ""
        for key in columns
    ]
    print(f"| {LIMIT} | " + " | ".join(cells) + " | | |", flush=True)


def _medians(runs: list[dict[str, Any]], clock: str, columns: Sequence[str]) -> dict[str, float]:
    return {key: statistics.median(run[clock][key] for run in runs) for key in columns}


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        approach, path, film = sys.argv[2:5]
        print(json.dumps(work(approach, path, Film(**json.loads(film)))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one-minute videos, and ten minutes for the long one")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path("out/benchmark-videos"))
    parser.add_argument("--only-make", action="store_true", help="make the videos and measure nothing")
    parser.add_argument("--films", default="", help="only films whose name contains this")
    parser.add_argument("--approaches", default="", help="only ours and approaches whose name contains this")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if not (warm_up := chosen.folder / WARM_UP.name).exists():
        make(WARM_UP, warm_up)
    names = [name for name in APPROACHES if name in {"trace-ves", LIMIT} or chosen.approaches in name]
    for film in films(quick=chosen.quick):
        if chosen.films not in film.name:
            continue
        path = chosen.folder / f"{film.duration}s-{film.name}"
        if not path.exists():
            print(f"making {path} ...", file=sys.stderr, flush=True)
            make(film, path)
        if chosen.only_make:
            continue
        report(film, measure(film, path, chosen.repeats, names))


if __name__ == "__main__":
    main()
