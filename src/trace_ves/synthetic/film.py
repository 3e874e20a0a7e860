"""Turns a world into a video file: H.264 in MP4, no sound, long groups of pictures with B-frames, one thread.

Knows nothing of questions: no name, answer or interval reaches the file.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from trace_ves.core import MissingExtraError
from trace_ves.core.atomic import atomic_path
from trace_ves.synthetic.canvas import HEIGHT, WIDTH
from trace_ves.synthetic.frames import draw, planes_of, track_stamp
from trace_ves.synthetic.layout import FPS
from trace_ves.synthetic.scenery import paint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from trace_ves.synthetic.frames import Planes
    from trace_ves.synthetic.world import VideoWorld

ENCODING: Final = {
    "preset": "ultrafast",
    "crf": "23",
    "x264-params": "keyint=250:bframes=7:b-pyramid=none:b-adapt=0:scenecut=0:rc-lookahead=0:cabac=1:weightp=0"
    ":colorprim=smpte170m:transfer=smpte170m:colormatrix=smpte170m",
}
"""x264's fastest preset with what it would leave out and videos in the wild have: B-frames, CABAC. No frame is
predicted from a B-frame, so that whoever wants a few frames decodes an eighth of the others. The cuts are known, so key
frames are asked for there: to search for them would take a sixth of the time.
"""


def frames_of(world: VideoWorld, seed: Sequence[int]) -> Iterator[Planes]:
    """Every frame of the video, in order of time. Where nothing moves, the same object comes again."""
    for number, scene in enumerate(world.scenes):
        backdrop = paint(scene.scene, [*seed, number])
        base = planes_of(backdrop)
        tracks = [v.track for v in world.appearances if v.track.first <= scene.last and v.track.last >= scene.first]
        sprites = [(track, track_stamp(track)) for track in tracks]
        for frame in range(scene.first, scene.last + 1):
            yield draw(base, backdrop, sprites, frame)


def write_film(world: VideoWorld, seed: Sequence[int], path: Path) -> None:
    """Encode the video. The file appears under its name only when it is whole."""
    try:
        import av  # noqa: PLC0415  a decoder is needed for films alone
    except ImportError as error:
        raise MissingExtraError("Writing the twin's videos", "video") from error
    with atomic_path(path) as partial, av.open(str(partial), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=FPS, options=dict(ENCODING))
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.thread_count = 1  # so that the bytes do not depend on the machine's cores
        cuts = {scene.first for scene in world.scenes}
        for number, planes in enumerate(frames_of(world, seed)):
            picture = av.VideoFrame.from_numpy_buffer(planes.packed, "yuv420p")
            picture.pts, picture.time_base = number, Fraction(1, FPS)
            if number in cuts:
                picture.pict_type = av.video.frame.PictureType.I
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
