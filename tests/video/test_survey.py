"""What a survey does with readers that meet damage: found by the campaign of perf/fire.py on mutated files."""

import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
from video_oracle import Footage

from trace_ves import video
from trace_ves.core import VideoError
from trace_ves.video import survey
from trace_ves.video.container import PacketTable, table_of
from trace_ves.video.reader import PacketsMovedError

UNUSED: Any = None  # a deadline


def picture(shade: int) -> av.VideoFrame:
    return av.VideoFrame.from_ndarray(np.full((16, 16), shade, dtype=np.uint8), format="gray").reformat(
        format="yuv420p"
    )


def reader_of(frames: dict[int, list[tuple[int, av.VideoFrame]] | None]) -> Any:
    """A reader that gives these frames from a start of the file; None says that the packets there are others."""

    def give(start: int, *_: Any, **__: Any) -> Iterator[tuple[int, av.VideoFrame]]:
        found = frames[start]
        if found is None:
            raise PacketsMovedError
        yield from found

    reader = SimpleNamespace(frames=give, damaged=set(), close=lambda: None)
    reader.open_lenient = lambda _: reader
    return reader


def packets(count: int, first_key: int = 0) -> PacketTable:
    return table_of([(number, number, 1, number, 1, number == first_key, False) for number in range(count)])


def test_of_two_pictures_of_one_packet_the_last_counts() -> None:
    one, other = picture(10), picture(200)
    reader = reader_of({0: [(0, one), (2, one), (1, one), (2, other), (3, one)]})
    found = survey._decode_all(reader, packets(5), UNUSED)
    assert found.numbers.tolist() == [0, 1, 2, 3]
    assert found.checksums[2] == survey.checksum(other) != survey.checksum(one)
    assert found.checksums[4] == -1
    facts: Any = SimpleNamespace(has_timestamps=True, flags_are_sure=False, format="mov", reorders=False)
    facts.time_base, facts.rate = Fraction(1, 30), Fraction(30)
    index, output = survey._index(reader, packets(5), facts, UNUSED)
    assert index.pts.tolist() == [0, 1, 2, 3]
    assert output is not None
    assert output.reason == "1 of its packets give no frame; they are left out"


def test_where_packets_moved_the_first_frame_is_found_from_the_start() -> None:
    reader = reader_of({3: None, 0: [(0, picture(7))]})
    assert survey._first_frame(reader, packets(5, first_key=3), Path("a.mpg"), UNUSED).width == 16
    with pytest.raises(VideoError, match=r"^a\.mpg: none of the first 5 frames can be decoded"):
        survey._first_frame(reader_of({3: None, 0: None}), packets(5, first_key=3), Path("a.mpg"), UNUSED)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (None, "its packets are not where its own index says; the file is damaged."),
        ([], "not one frame of this video can be decoded; the file is damaged."),
    ],
)
def test_what_comes_of_no_frame_at_all_is_a_sentence(
    footage: Footage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: list[int] | None, sentence: str
) -> None:
    def index(*_: object) -> tuple[list[int], None]:
        if found is None:
            raise PacketsMovedError
        return found, None

    monkeypatch.setattr(survey, "_index", index)
    film = shutil.copy(footage("one-frame.mp4"), tmp_path / "film.mp4")  # of which no survey is stored
    with pytest.raises(VideoError) as caught:
        video.open(film)
    assert str(caught.value) == f"{film}: {sentence}"
