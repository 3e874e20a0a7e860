"""The cache of pictures: it saves looks, forgets the oldest, and never takes one picture for another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trace_ves.twin.glance.eyes import PictureCache

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Plain:
    """A picture that is its pixels."""

    pixels: NDArray[np.uint8]
    made: int = 0

    @property
    def width(self) -> int:
        return self.pixels.shape[1]

    @property
    def height(self) -> int:
        return self.pixels.shape[0]

    def jpeg(self, quality: int = 90) -> bytes:
        raise AssertionError("glance never compresses")

    def rgb(self) -> NDArray[np.uint8]:
        self.made += 1
        return self.pixels


class Digested(Plain):
    """A picture that knows what tells it from others."""

    def digest(self) -> bytes:
        return self.pixels.tobytes()


def picture(value: int, shape: tuple[int, int] = (4, 6)) -> Plain:
    return Plain(np.full((*shape, 3), value, np.uint8))


def test_a_picture_is_looked_at_once_until_it_is_forgotten() -> None:
    looks: list[int] = []

    def look(pixels: NDArray[np.uint8]) -> int:
        looks.append(int(pixels[0, 0, 0]))
        return looks[-1]

    cache = PictureCache(look, size=2)
    assert [cache(picture(n)) for n in (1, 2, 1, 3, 1, 2)] == [1, 2, 1, 3, 1, 2]
    assert looks == [1, 2, 3, 2]


def test_a_picture_that_was_looked_at_is_not_even_made_of_its_planes() -> None:
    cache = PictureCache(lambda pixels: int(pixels.sum()))
    first, again = (Digested(np.full((4, 6, 3), 9, np.uint8)) for _ in range(2))
    assert cache(first) == cache(again) == 9 * 72
    assert (first.made, again.made) == (1, 0)


def test_a_smaller_view_is_another_one() -> None:
    cache = PictureCache(lambda pixels: pixels.shape)
    shown = picture(3, (8, 12))
    assert [cache(shown, factor) for factor in (1.0, 2.0, 1.0)] == [(8, 12, 3), (4, 6, 3), (8, 12, 3)]


def test_the_same_bytes_in_another_shape_are_another_picture() -> None:
    cache = PictureCache(lambda pixels: pixels.shape)
    assert cache(picture(7, (4, 6))) == (4, 6, 3)
    assert cache(picture(7, (6, 4))) == (6, 4, 3)


def test_a_view_that_is_not_contiguous_is_the_picture_it_shows() -> None:
    cache = PictureCache(lambda pixels: int(pixels.sum()))
    wide = np.arange(72, dtype=np.uint8).reshape(4, 6, 3)
    assert cache(Plain(wide[:, ::-1])) == int(wide.sum())


def test_threads_get_each_their_own_picture() -> None:
    cache = PictureCache(lambda pixels: int(pixels[0, 0, 0]), size=8)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: cache(picture(n % 50)), range(2000))) == [n % 50 for n in range(2000)]
