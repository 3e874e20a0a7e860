"""Tables in the head of an MP4 say what the demuxer says, or nothing; and H.264 packets say where one may start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest
import video_footage
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trace_ves import video
from trace_ves.video import survey
from trace_ves.video.bitstream import h264_start_check, hevc_has_one_layer
from trace_ves.video.container import Deadline, PacketTable, choose_stream, open_container, read_packets
from trace_ves.video.sample_table import read_sample_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MP4 = [name for name in [*video_footage.PLAIN, *video_footage.SPECIAL] if name.endswith((".mp4", ".mov"))]
NOT_PLAIN = {"fragmented.mp4", "edit-list.mp4", "late-start.mp4"}
"""Fragments, an edit that cuts, an empty edit in front: left to the demuxer."""


def both(path: Path) -> tuple[PacketTable | None, PacketTable]:
    deadline = Deadline(path, "reading it", 60)
    with open_container(path, deadline) as container:
        stream, _ = choose_stream(container, path)
        table, beyond = read_sample_table(path, stream.id, None)
        assert beyond == 0
        return table, read_packets(container, stream, None, deadline)[0]


@pytest.mark.parametrize("name", [name for name in MP4 if name not in NOT_PLAIN])
def test_the_table_is_what_the_demuxer_finds(name: str, footage: Callable[[str], Path]) -> None:
    table, demuxed = both(footage(name))
    assert table is not None
    for column in ("pts", "dts", "duration", "position", "size", "is_key", "is_discard"):
        assert np.array_equal(getattr(table, column), getattr(demuxed, column)), column


@pytest.mark.parametrize("name", sorted(NOT_PLAIN))
def test_what_is_not_plain_is_left_to_the_demuxer(name: str, footage: Callable[[str], Path]) -> None:
    assert both(footage(name))[0] is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_head_gives_no_table_or_some_table_but_no_error(
    footage: Callable[[str], Path], tmp_path: Path, data: st.DataObject
) -> None:
    whole = footage("faststart.mp4").read_bytes()
    damaged = bytearray(whole)
    end = whole.index(b"mdat")
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, end))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.mp4"
    path.write_bytes(damaged)
    table, beyond = read_sample_table(path, 1, None)
    assert beyond >= 0
    assert table is None or len(table.pts) == len(table.size) == len(table.position)


def keyframes(path: Path) -> list[bool]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        check = h264_start_check(stream.codec_context.extradata)
        return [check(memoryview(packet)) for packet in container.demux(stream) if packet.size and packet.is_keyframe]


@pytest.mark.parametrize("name", ["b-frames.mp4", "open-gop.mkv", "open-gop.ts", "interlaced-h264.mp4"])
def test_true_keyframes_are_starts_and_slow_recovery_is_none(name: str, footage: Callable[[str], Path]) -> None:
    assert keyframes(footage(name)) == [True] * 4
    assert keyframes(footage("intra-refresh.ts")) == [True, False, False, False]


@given(packet=st.binary(max_size=80), extradata=st.none() | st.binary(max_size=30))
def test_any_bytes_are_a_start_or_not(packet: bytes, extradata: bytes | None) -> None:
    assert h264_start_check(extradata)(memoryview(packet)) in {True, False}
    assert hevc_has_one_layer(extradata) in {True, False}


@pytest.mark.parametrize(
    ("name", "one"), [("hevc.mp4", True), ("hevc-layers.mp4", False), ("hevc-open-gop.ts", True), ("raw.hevc", True)]
)
def test_temporal_layers_are_noticed(name: str, one: bool, footage: Callable[[str], Path]) -> None:
    with av.open(str(footage(name))) as container:
        assert hevc_has_one_layer(container.streams.video[0].codec_context.extradata) is one


@pytest.mark.parametrize(("name", "demuxed"), [("plain.mp4", 32 + 32), ("plain.mkv", 32 + 40)])
def test_a_file_is_opened_by_its_tables_and_not_by_reading_it_all(
    name: str, demuxed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        found = read_packets(*arguments, **options)
        read.append(len(found[0]))
        return found

    path = tmp_path / name
    options = {"preset": "ultrafast", "x264-params": "keyint=10:scenecut=0"}
    video_footage.encode(path, video_footage.Recipe(options=options, frames=400))
    monkeypatch.setattr(survey, "read_packets", counted)
    with video.open(path) as opened:
        assert opened.frame_count == 400
    assert sum(read) == demuxed
