"""Small films: every frame is one shade, so that a test can tell them apart."""

from collections.abc import Iterable
from pathlib import Path


def write_film(
    path: Path, shades: Iterable[int | tuple[int, int, int]], *, fps: int, size: tuple[int, int] = (64, 48)
) -> Path:
    """Write one frame for each shade of grey, from 0 to 255, or colour of three such numbers."""
    import av
    import numpy as np

    width, height = size
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps, options={"preset": "ultrafast", "g": "25"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for shade in shades:
            picture = np.full((height, width, 3), shade, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return path
