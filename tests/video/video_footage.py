"""Small videos of every kind that decoding must be exact on, made on the spot with PyAV's encoders."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

RATE = 30
FRAMES = 75
X264 = "keyint=24:min-keyint=24:scenecut=0:bframes=3:b-adapt=0:b-pyramid=normal"
X265 = "keyint=24:min-keyint=24:scenecut=0:bframes=4:b-adapt=0:log-level=none"


def drawing(number: int, width: int, height: int) -> np.ndarray:
    """Moving noise with a patch whose brightness counts frames: no two frames look the same."""
    noise = np.random.default_rng(7).integers(0, 255, (height, width, 3), dtype=np.uint8)
    picture = np.roll(noise // 2 + 60, 3 * number, axis=1)
    picture[: height // 3, : width // 3] = (number * 37) % 255
    return picture


@dataclass(frozen=True)
class Recipe:
    """How to encode one video stream."""

    codec: str = "libx264"
    width: int = 96
    height: int = 64
    pix_fmt: str = "yuv420p"
    frames: int = FRAMES
    options: Mapping[str, str] = field(default_factory=dict)
    container: Mapping[str, str] = field(default_factory=dict)
    muxer: str | None = None
    gop: int | None = None
    b_frames: int | None = None
    pts: Callable[[int], int] = lambda number: number
    time_base: Fraction = Fraction(1, RATE)
    full_range: bool = False
    interlaced: bool = False


def encode(path: Path, recipe: Recipe, change_packet: Callable[[int, av.Packet], None] | None = None) -> None:
    """Write the recipe's video; `change_packet` may tamper with each packet before it is muxed."""
    with av.open(str(path), "w", format=recipe.muxer, options=dict(recipe.container)) as container:
        stream = add_stream(container, recipe)
        for number, packet in enumerate(packets(stream, recipe)):
            if change_packet is not None:
                change_packet(number, packet)
            container.mux(packet)


def add_stream(container: av.container.OutputContainer, recipe: Recipe) -> av.VideoStream:
    stream = container.add_stream(recipe.codec, rate=RATE, options=dict(recipe.options))
    stream.width, stream.height, stream.pix_fmt = recipe.width, recipe.height, recipe.pix_fmt
    context = stream.codec_context
    context.time_base = recipe.time_base
    context.thread_count = 1
    if recipe.gop is not None:
        context.gop_size = recipe.gop
    if recipe.b_frames is not None:
        context.max_b_frames = recipe.b_frames
    if recipe.full_range:
        context.color_range = 2
    if recipe.interlaced:
        context.flags |= av.codec.context.Flags.interlaced_dct | av.codec.context.Flags.interlaced_me
    return stream


def packets(stream: av.VideoStream, recipe: Recipe) -> list[av.Packet]:
    found = []
    for number in range(recipe.frames):
        frame = av.VideoFrame.from_ndarray(drawing(number, recipe.width, recipe.height), format="rgb24")
        frame = frame.reformat(format=recipe.pix_fmt, dst_color_range=2 if recipe.full_range else 1)
        frame.pts, frame.time_base = recipe.pts(number), recipe.time_base
        found += stream.encode(frame)
    return found + stream.encode(None)


def remux(
    source: Path, target: Path, change: Callable[[int, av.Packet], object], *, by: str = "", **options: str
) -> None:
    """Copy packets through a filter; `change` may tamper with each, and leaves out those for which it returns False."""
    with av.open(str(source), options=options) as whole, av.open(str(target), "w") as container:
        stream = container.add_stream_from_template(whole.streams.video[0])
        changed = by and av.bitstream.BitStreamFilterContext(by, whole.streams.video[0], stream)
        for number, packet in enumerate(packet for packet in whole.demux(video=0) if packet.size):
            if change(number, packet) is not False:
                [one] = changed.filter(packet) if changed else [packet]
                one.stream = stream
                container.mux(one)


def x264(**changes: str) -> dict[str, str]:
    return {"preset": "veryfast", "x264-params": X264} | changes


def x265(extra: str = "") -> dict[str, str]:
    return {"preset": "ultrafast", "x265-params": X265 + extra}


MILLISECOND = Fraction(1, 1000)
VP9 = {"cpu-used": "8", "deadline": "good", "auto-alt-ref": "1", "lag-in-frames": "12"}
AV1 = {"preset": "12", "svtav1-params": "lp=1"}
OPEN_GOP = x264(**{"x264-params": X264 + ":open-gop=1"})


def irregular(number: int) -> int:
    """Milliseconds of a frame in a video whose frames stay for 11 ms to half a second."""
    return 33 * number + (number * number * 7) % 22 + 500 * (number // 20)


PLAIN: dict[str, Recipe] = {
    **dict.fromkeys(("b-frames.mp4", "h264.flv", "h264.nut"), Recipe(options=x264())),
    **dict.fromkeys(("open-gop.mp4", "open-gop.mkv"), Recipe(options=OPEN_GOP)),
    "open-gop.ts": Recipe(options=OPEN_GOP, muxer="mpegts"),
    "intra-refresh.ts": Recipe(options=x264(**{"x264-params": "keyint=24:intra-refresh=1:bframes=0"}), muxer="mpegts"),
    "one-group.mp4": Recipe(options=x264(**{"x264-params": "keyint=infinite:scenecut=0:bframes=3"})),
    "faststart.mp4": Recipe(options=x264(), container={"movflags": "faststart"}),
    "fragmented.mp4": Recipe(options=x264(), container={"movflags": "frag_keyframe+empty_moov+default_base_moof"}),
    "repeated-head.mp4": Recipe(options=x264(**{"x264-params": X264 + ":repeat-headers=1"})),
    "no-edit-list.mp4": Recipe(options=x264(), container={"use_editlist": "0"}),
    "negative-offsets.mp4": Recipe(options=x264(), container={"movflags": "negative_cts_offsets"}),
    **{f"late-start.{kind}": Recipe(options=x264(), pts=lambda number: number + 300) for kind in ("mp4", "mkv")},
    **{
        f"variable-rate.{kind}": Recipe(options=x264(), pts=irregular, time_base=MILLISECOND) for kind in ("mp4", "mkv")
    },
    "one-frame.mp4": Recipe(options=x264(), frames=1),
    "ten-bit.mp4": Recipe(options=x264(), pix_fmt="yuv420p10le"),
    "full-range.mp4": Recipe(options=x264(), full_range=True),
    "four-four-four-odd.mp4": Recipe(options=x264(), width=97, height=63, pix_fmt="yuv444p"),
    "interlaced-h264.mp4": Recipe(options=x264(**{"x264-params": X264 + ":tff=1"}), height=96),
    "hevc.mp4": Recipe(codec="libx265", options=x265()),
    "hevc-open-gop.mp4": Recipe(codec="libx265", options=x265(":open-gop=1")),
    "hevc-open-gop.ts": Recipe(codec="libx265", options=x265(":open-gop=1"), muxer="mpegts"),
    "hevc-layers.mp4": Recipe(codec="libx265", options=x265(":temporal-layers=3")),
    "hevc-ten-bit.mkv": Recipe(codec="libx265", options=x265(), pix_fmt="yuv420p10le"),
    **dict.fromkeys(("vp9.webm", "vp9.ivf"), Recipe(codec="libvpx-vp9", gop=24, options=VP9)),
    "vp9-odd.webm": Recipe(codec="libvpx-vp9", gop=24, options=VP9, width=95, height=67),
    "vp8.webm": Recipe(codec="libvpx", gop=24, options=VP9),
    **dict.fromkeys(("av1.mp4", "av1.mkv"), Recipe(codec="libsvtav1", gop=24, options=AV1)),
    "mpeg2.mpg": Recipe(codec="mpeg2video", gop=12, b_frames=2),
    "mpeg2.ts": Recipe(codec="mpeg2video", gop=12, b_frames=2, muxer="mpegts"),
    "mpeg2-interlaced.ts": Recipe(codec="mpeg2video", gop=12, b_frames=2, muxer="mpegts", height=96, interlaced=True),
    "mpeg4.mp4": Recipe(codec="mpeg4", gop=12, b_frames=2),
    "mjpeg.mov": Recipe(codec="mjpeg", pix_fmt="yuvj420p", width=97, height=63),
    "wmv2.asf": Recipe(codec="wmv2", gop=12),
    "ffv1.mkv": Recipe(codec="ffv1", pix_fmt="yuv422p"),
    "animated.gif": Recipe(codec="gif", pix_fmt="rgb8", frames=20),
}
"""Files that a plain encoder writes, by name; each must have the very timestamps the decoder reports."""

WITHOUT_TIMES: dict[str, Recipe] = {
    "raw.h264": Recipe(options=OPEN_GOP, muxer="h264"),
    "raw.hevc": Recipe(codec="libx265", options=x265(), muxer="hevc"),
    "raw.obu": Recipe(codec="libsvtav1", gop=24, options=AV1, muxer="obu"),
    "raw.m2v": Recipe(codec="mpeg2video", gop=12, b_frames=2, muxer="mpeg2video"),
    "b-frames.avi": Recipe(options=OPEN_GOP),
    "mpeg4-b-frames.avi": Recipe(codec="mpeg4", gop=12, b_frames=2),
}
"""Files without presentation times: frames come at the frame rate, in the order the decoder shows them."""


def shared_times(path: Path) -> None:
    """Every third frame carries the timestamp of the frame before it."""

    def change(number: int, packet: av.Packet) -> None:
        if number % 3 == 2:
            packet.pts = packet.dts = packet.pts - 1

    encode(path, Recipe(options={"preset": "veryfast", "x264-params": "keyint=24:bframes=0"}), change)


def unordered_times(path: Path) -> None:
    """Pairs of frames carry each other's timestamps."""

    def change(number: int, packet: av.Packet) -> None:
        dts = packet.dts
        packet.pts += 1 if number % 2 == 0 else -1
        packet.dts = dts - 2  # a muxer wants dts <= pts

    encode(path, Recipe(options={"preset": "veryfast", "x264-params": "keyint=24:bframes=0"}, frames=74), change)


def cut_at_keyframe(path: Path, recipe: Recipe, *, extra_packets: int = 0) -> None:
    """The packets of a transport stream from the second keyframe on, or from some packets before it."""
    whole = path.with_name("whole-" + path.name)
    encode(whole, recipe)
    with av.open(str(whole)) as container:
        found = [packet for packet in container.demux(video=0) if packet.size]
    start = [number for number, packet in enumerate(found) if packet.is_keyframe][1]
    data = whole.read_bytes()
    head = data[: found[0].pos - found[0].pos % 188]
    cut = found[start - extra_packets].pos
    path.write_bytes(head + data[cut - cut % 188 :])
    whole.unlink()


def with_edit_list(path: Path, first_frame: int = 31) -> None:
    """An MP4 whose edit list starts in the middle of a group, so that its head is decoded but never shown."""
    encode(path, Recipe(options=x264()))
    data = bytearray(path.read_bytes())
    at = data.index(b"elst") + 4
    entries = struct.unpack(">I", data[at + 4 : at + 8])[0]
    assert entries == 1
    length, media_time = struct.unpack(">Ii", data[at + 8 : at + 16])
    ticks = 512 * first_frame
    data[at + 8 : at + 16] = struct.pack(">Ii", length - 1000 * first_frame // RATE, media_time + ticks)
    path.write_bytes(data)


MATRICES: dict[str, tuple[int, int, int, int]] = {
    "rotated-0": (1, 0, 0, 1),
    "rotated-90": (0, 1, -1, 0),
    "rotated-180": (-1, 0, 0, -1),
    "rotated-270": (0, -1, 1, 0),
    "mirrored": (-1, 0, 0, 1),
}
"""The a, b, c, d of a display matrix: a stored point (x, y) is shown at (ax + cy, bx + dy)."""


def with_display_matrix(path: Path, matrix: tuple[int, int, int, int]) -> None:
    """An MP4 of 96x64 that asks to be shown turned."""
    encode(path, Recipe(options=x264(), frames=20))
    turn(path, matrix)


def turn(path: Path, matrix: tuple[int, int, int, int]) -> None:
    """Put another display matrix into an MP4."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 40  # version and flags, two dates, id, reserved, duration, reserved, layer, volume
    a, b, c, d = (value * 65536 for value in matrix)
    data[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(data)


SMALL = Recipe(options=x264(), width=64, height=48)
COVER = Recipe(codec="mjpeg", pix_fmt="yuvj420p", frames=1, width=640, height=480)
"""Cover art larger than the video that it belongs to."""


def with_sound(path: Path, *recipes: Recipe) -> None:
    """Videos, or cover art, and a tone, interleaved; none is marked as default."""
    with av.open(str(path), "w") as container:
        streams = [add_stream(container, recipe) for recipe in recipes]
        for stream, recipe in zip(streams, recipes, strict=True):
            stream.disposition = av.stream.Disposition.attached_pic if recipe is COVER else 0
        sound = container.add_stream("aac", rate=44_100, options={"aac_coder": "fast"})
        found = [packet for stream, recipe in zip(streams, recipes, strict=True) for packet in packets(stream, recipe)]
        found += _tone(sound)
        for packet in sorted(found, key=lambda packet: packet.dts * packet.time_base):
            container.mux(packet)


def _tone(sound: av.AudioStream) -> list[av.Packet]:
    found = []
    for number in range(100):
        wave = np.sin(np.arange(1024) / 20).astype(np.float32)[None]
        frame = av.AudioFrame.from_ndarray(wave, format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 44_100, 1024 * number, Fraction(1, 44_100)
        found += sound.encode(frame)
    return found + sound.encode(None)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "edit-list.mp4": with_edit_list,
    "cut-open-gop.ts": lambda path: cut_at_keyframe(path, PLAIN["open-gop.ts"]),
    "cut-hevc.ts": lambda path: cut_at_keyframe(path, PLAIN["hevc-open-gop.ts"]),
    "cut-before-keyframe.ts": lambda path: cut_at_keyframe(path, PLAIN["open-gop.ts"], extra_packets=7),
    "two-streams.mp4": lambda path: with_sound(path, SMALL, PLAIN["b-frames.mp4"]),
    **{f"with-sound.{kind}": lambda path: with_sound(path, PLAIN["b-frames.mp4"]) for kind in ("mp4", "mkv")},
    "with-cover.mp4": lambda path: with_sound(path, COVER, PLAIN["b-frames.mp4"]),
    **{
        f"{name}.mp4": lambda path, matrix=matrix: with_display_matrix(path, matrix)
        for name, matrix in MATRICES.items()
    },
}
"""Files with a history: cut, edited, turned, with more than one stream."""

ODD_TIMES: dict[str, Callable[[Path], None]] = {
    "shared-times.mkv": shared_times,
    "unordered-times.mkv": unordered_times,
}
"""Files whose timestamps are there but cannot all be right."""


def make(name: str, path: Path) -> None:
    """Write the file of this name."""
    recipes = PLAIN | WITHOUT_TIMES
    if name in recipes:
        encode(path, recipes[name])
    else:
        (SPECIAL | ODD_TIMES)[name](path)
