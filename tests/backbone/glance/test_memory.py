"""The memory of pictures: it saves looks, forgets the oldest, and never takes one picture for another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from trace_ves.backbone.glance.memory import Remembering

if TYPE_CHECKING:
    from numpy.typing import NDArray


def picture(value: int, shape: tuple[int, int] = (4, 6)) -> NDArray[np.uint8]:
    return np.full((*shape, 3), value, np.uint8)


def test_a_picture_is_looked_at_once_until_it_is_forgotten() -> None:
    looks: list[int] = []

    def look(pixels: NDArray[np.uint8]) -> int:
        looks.append(int(pixels[0, 0, 0]))
        return looks[-1]

    memory = Remembering(look, size=2)
    assert [memory(picture(n)) for n in (1, 2, 1, 3, 1, 2)] == [1, 2, 1, 3, 1, 2]
    assert looks == [1, 2, 3, 2]


def test_the_same_bytes_in_another_shape_are_another_picture() -> None:
    memory = Remembering(lambda pixels: pixels.shape)
    assert memory(picture(7, (4, 6))) == (4, 6, 3)
    assert memory(picture(7, (6, 4))) == (6, 4, 3)


def test_a_view_that_is_not_contiguous_is_the_picture_it_shows() -> None:
    memory = Remembering(lambda pixels: int(pixels.sum()))
    wide = np.arange(72, dtype=np.uint8).reshape(4, 6, 3)
    assert memory(wide[:, ::-1]) == int(wide.sum())


def test_threads_get_each_their_own_picture() -> None:
    memory = Remembering(lambda pixels: int(pixels[0, 0, 0]), size=8)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: memory(picture(n % 50)), range(2000))) == [n % 50 for n in range(2000)]
