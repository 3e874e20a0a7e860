"""The pixels of a frame as planes of full-range BT.601 YUV, as JPEG stores them, without a conversion to RGB."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import simplejpeg  # type: ignore[import-untyped]  # the package ships no types
from av.sidedata.sidedata import SideData
from av.sidedata.sidedata import Type as SideDataType
from av.video.reformatter import ColorRange, VideoReformatter

if TYPE_CHECKING:
    from av.video.frame import VideoFrame
    from numpy.typing import NDArray

_BT601: Final = 5
_MATRICES: Final = {same: same for same in (1, 7, 9)} | {10: 9}  # FFmpeg's -> swscale's; the others are close to BT.601
_BAND_PIXELS: Final = 40_000  # converted to RGB at a time; larger arrays are slower to allocate


@dataclass(frozen=True, slots=True)
class YuvPicture:
    """A picture of 4:2:0 planes; satisfies `core.Picture`."""

    luma: NDArray[np.uint8]
    blue: NDArray[np.uint8]
    red: NDArray[np.uint8]
    _jpeg: dict[int, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)
    _digest: list[bytes] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def width(self) -> int:
        """Columns of pixels."""
        return int(self.luma.shape[1])

    @property
    def height(self) -> int:
        """Rows of pixels."""
        return int(self.luma.shape[0])

    def jpeg(self, quality: int = 90) -> bytes:
        """The picture as a JPEG file, cached by quality."""
        if quality not in self._jpeg:
            if not 1 <= quality <= 100:
                raise ValueError(f"JPEG quality must be 1 to 100, got {quality}")
            luma = _readable_to_even_size(self.luma)
            self._jpeg[quality] = simplejpeg.encode_jpeg_yuv_planes(luma, self.blue, self.red, quality=quality)
        return self._jpeg[quality]

    def digest(self) -> bytes:
        """A digest of size and pixels, cached."""
        if not self._digest:
            digest = hashlib.sha256(repr(self.luma.shape).encode())  # SHA-256 has hardware support
            for plane in (self.luma, self.blue, self.red):
                digest.update(np.ascontiguousarray(plane).data)
            self._digest.append(digest.digest())
        return self._digest[0]

    def rgb(self) -> NDArray[np.uint8]:
        """The picture as an array of height x width x 3."""
        pixels = np.empty((self.height, self.width, 3), np.uint8)
        rows = max(1, _BAND_PIXELS // (2 * self.width))
        for top in range(0, len(self.blue), rows):
            band = slice(2 * top, 2 * (top + rows))
            luma = self.luma[band]
            blue, red = (
                plane[top : top + rows].astype(np.float32) - np.float32(128) for plane in (self.blue, self.red)
            )
            for channel, shift in enumerate((1.402 * red, -0.344136 * blue - 0.714136 * red, 1.772 * blue)):
                # luma is an integer, so only the shift must be rounded, which has a quarter of the pixels
                doubled = np.rint(shift).astype(np.int16).repeat(2, axis=0).repeat(2, axis=1)
                colour = doubled[: luma.shape[0], : luma.shape[1]] + luma
                pixels[band, :, channel] = np.clip(colour, 0, 255, out=colour)
        return pixels


def _readable_to_even_size(luma: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A view of the plane in an array padded to even size, because the JPEG encoder reads pairs of rows and columns."""
    height, width = luma.shape
    if height % 2 == 0 and width % 2 == 0:
        return luma
    return np.pad(luma, ((0, height % 2), (0, width % 2)), mode="edge")[:height, :width]


@dataclass(frozen=True, slots=True)
class Orientation:
    """How stored pictures are oriented for display: first transposed, then mirrored along each axis."""

    transpose: bool = False
    flip_x: bool = False
    flip_y: bool = False

    def apply(self, plane: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Orient a plane for display; returns the plane itself if nothing changes, because copying 4K is slow."""
        if not (self.transpose or self.flip_x or self.flip_y):
            return plane
        transposed = plane.T if self.transpose else plane
        return np.array(transposed[:: -1 if self.flip_y else 1, :: -1 if self.flip_x else 1], order="C")

    def shape(self, width: int, height: int) -> tuple[int, int]:
        """Convert stored to displayed width and height, or the reverse."""
        return (height, width) if self.transpose else (width, height)


def checksum(frame: VideoFrame) -> int:
    """A checksum of the pixels of a decoded frame, without padding."""
    total, layout = 0, frame.format
    for number, plane in enumerate(frame.planes):
        rows = np.frombuffer(memoryview(plane), dtype=np.uint8).reshape(plane.height, -1)
        bits = sum(-(-one.bits // 8) * 8 for one in layout.components if one.plane == number)
        row_bytes = plane.width * (bits if layout.is_planar else layout.padded_bits_per_pixel) // 8
        pixels = rows[:, :row_bytes] if plane.line_size else rows  # a palette has no lines
        total = zlib.crc32(pixels.tobytes(), total)
    return total


def _name_unknown_type(kind: Any, value: object) -> Any:
    member = object.__new__(kind)
    member._name_, member._value_ = f"UNKNOWN_{value}", value
    return member


# PyAV raises for unknown types of side data; without this, EXIF data or a second view would hide the display matrix.
SideDataType._missing_ = classmethod(_name_unknown_type)  # type: ignore[assignment]


def orientation_of(frame: VideoFrame) -> Orientation | None:
    """The orientation from the frame's display matrix; None if it is not a multiple of 90 degrees."""
    side_data: object = frame.side_data.get("DISPLAYMATRIX")
    if not isinstance(side_data, SideData):
        return Orientation()
    a, b, _, c, d = (int(value) for value in np.frombuffer(memoryview(side_data), dtype=np.int32)[:5])
    straight, turned = abs(a) + abs(d), abs(b) + abs(c)
    if straight > 100 * turned and a and d:
        return Orientation(flip_x=a < 0, flip_y=d < 0)
    if turned > 100 * straight and b and c:
        return Orientation(transpose=True, flip_x=c < 0, flip_y=b < 0)
    return None


class Scaler:
    """Converts decoded frames to pictures. It keeps swscale's context, so each thread needs its own."""

    def __init__(self, orientation: Orientation) -> None:
        self._orientation = orientation
        self._reformatter = VideoReformatter()

    def picture(self, frame: VideoFrame, height: int | None) -> YuvPicture:
        """Convert a frame to a picture with this displayed height, or with the frame's height."""
        width, rows = self._orientation.shape(frame.width, frame.height)
        if height is not None and height < rows:  # keeps the aspect ratio, and never enlarges
            width, rows = max(1, round(width * height / rows)), height
        named_full = frame.format.name.startswith("yuvj") or frame.format.is_rgb  # no range at all means limited
        is_full = named_full or frame.color_range == ColorRange.JPEG
        scaled = self._reformatter.reformat(
            frame,
            *self._orientation.shape(width, rows),
            "yuv420p",
            src_colorspace=_MATRICES.get(frame.colorspace, _BT601),
            dst_colorspace=_BT601,
            src_color_range=ColorRange.JPEG if is_full else ColorRange.MPEG,
            dst_color_range=ColorRange.JPEG,
            threads=1,
        )
        planes = (
            np.frombuffer(memoryview(plane), dtype=np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
            for plane in scaled.planes
        )
        return YuvPicture(*(self._orientation.apply(plane) for plane in planes))
