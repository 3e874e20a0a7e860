"""F counts a frame once, Fr as often as it was supplied; schedules and strategies of looking."""

from types import SimpleNamespace

import pytest

from trace_ves.core import Frame, Interval, ObservationStrategy, centred_uniform
from trace_ves.records import Call, ObservationLog, Usage


def test_a_log_adds_up_its_calls() -> None:
    calls = (Call("storyboard", (1.0, 2.0, 3.0), usage=Usage(1, 2, 3)), Call("assembly", (2.0, 2.5)), Call("control"))
    log = ObservationLog((*calls, Call("replay", usage=Usage(10, 20, 30))))
    assert log.timestamps == (1.0, 2.0, 2.5, 3.0)
    assert log.frames_supplied == 5
    assert log.usage == Usage(11, 22, 33)


def test_a_frame_is_a_jpeg_of_quality_90_where_nobody_says_otherwise() -> None:
    frame = Frame(0, 0.0, SimpleNamespace(jpeg=lambda quality: bytes([quality])))
    assert (frame.jpeg(), frame.jpeg(50)) == (bytes([90]), bytes([50]))


def test_the_canonical_schedule() -> None:
    assert centred_uniform(Interval(0, 8), 4) == (1, 3, 5, 7)
    assert centred_uniform(Interval(70, 76), 1) == (73,)


def test_a_strategy_looks_once_a_second_at_360_rows_where_nobody_says_otherwise() -> None:
    assert ObservationStrategy() == ObservationStrategy(fps=1.0, height=360)


@pytest.mark.parametrize(("fps", "height"), [(0, 360), (-1, 360), (1, 0), (float("nan"), 360)])
def test_a_strategy_looks_at_something(fps: float, height: int) -> None:
    with pytest.raises(ValueError, match="needs fps > 0 and height > 0"):
        ObservationStrategy(fps=fps, height=height)
