"""The timeline of an answer: where bars, ticks and marks are, computed by hand."""

import pytest

from tests.web.test_search_view import results, searches, view
from trace_ves.core import Interval, Question
from trace_ves.records import Call, Item, Prediction
from trace_ves.web.listing import QuestionInfo
from trace_ves.web.search_view import view_search
from trace_ves.web.timeline import Bar, Evidence, Lane, Timeline, axis, pack, timeline

INFO = QuestionInfo(Question("q", "", ""))


@pytest.mark.parametrize(
    ("duration", "marks", "last"),
    [
        (0.5, 1, (0, "0:00")),
        (10, 11, (10, "0:10")),
        (10.5, 6, (10, "0:10")),
        (20.5, 5, (20, "0:20")),
        (50.5, 6, (50, "0:50")),
        (100.5, 7, (90, "1:30")),
        (150.5, 6, (150, "2:30")),
        (300.5, 6, (300, "5:00")),
        (600.5, 6, (600, "10:00")),
        (1200.5, 5, (1200, "20:00")),
        (3000.5, 6, (3000, "50:00")),
        (6000.5, 7, (5400, "1:30:00")),
        (9000.5, 6, (9000, "2:30:00")),
        (18000.5, 6, (18000, "5:00:00")),
        (36000.5, 6, (36000, "10:00:00")),
        (72000, 11, (72000, "20:00:00")),
        (72001, 11, (72000, "20:00:00")),
        (144000, 11, (144000, "40:00:00")),
    ],
)
def test_the_axis_has_round_marks(duration: float, marks: int, last: tuple[int, str]) -> None:
    found = axis(duration)
    assert (len(found), found[0], found[-1]) == (marks, (0, "0:00"), last)


def test_bars_that_touch_get_separate_rows_up_to_six() -> None:
    bars = [Bar(start, start + 5.0, "", "kept", "") for start in range(8)]
    assert [bar.row for bar in pack(bars[::-1], 1.0)] == [0, 1, 2, 3, 4, 5, 0, 1]
    assert [bar.row for bar in pack(bars[:2] + [Bar(n, 20.0, "", "kept", "") for n in range(2, 9)], 1.0)] == [
        *range(6),
        0,
        1,
        5,
    ]
    assert [bar.row for bar in pack([Bar(0, 4, "", "", ""), Bar(4.99, 5, "", "", ""), Bar(5, 6, "", "", "")], 1.0)] == [
        0,
        1,
        0,
    ]
    by_end = pack([Bar(0, 9, "long", "", ""), Bar(0, 1, "short", "", "")], 1.0)
    assert [bar.label for bar in by_end] == ["short", "long"]
    # in the full last row the latest end counts
    full = pack([*(Bar(0, 9 + n, "", "", "") for n in range(6)), Bar(1, 2, "", "", ""), Bar(4, 5, "", "", "")], 0.0)
    assert [bar.row for bar in full] == [0, 1, 2, 3, 4, 5, 5, 5]


def test_heights_ticks_and_percentages() -> None:
    assert Lane("t").height == 18
    assert Lane("b", (Bar(0, 1, "", "", "", 0), Bar(0, 1, "", "", "", 2))).height == 45
    assert Lane("t", ticks=(1.0004, 0.5, 1.0, 0.0)).path == "M0 0V1M500 0V1M1000 0V1"
    states = [Evidence(0, 1, frames).state for frames in (0, 1, 2, 3)]
    assert states == ["missed", "thin", "covered", "covered"]
    line = Timeline(80.0, (), (Lane("a"), Lane("b", top=25)), ())
    assert (line.height, line.milliseconds) == (43, 80_000)
    assert (Timeline(0.0001, (), (), ()).height, Timeline(0.0001, (), (), ()).milliseconds) == (0, 1)
    assert [line.percent(at) for at in (-1, 0, 20, 80, 90)] == ["0.0000%", "0.0000%", "25.0000%", *["100.0000%"] * 2]
    widths = [line.width(*span) for span in ((20, 40), (-5, 20), (60, 100), (90, 95), (50, 40))]
    assert widths == ["25.0000%", "25.0000%", "25.0000%", "0.0000%", "0.0000%"]


def test_an_answer_with_calls_has_a_lane_for_each_stage() -> None:
    calls = [("direct-answer", (1.0, 2.0)), ("mine", ()), ("other", (2.0, 3.0)), ("direct-answer", (2.0,))]
    prediction = Prediction(
        "q", "A", timestamps=(1.0, 2.0, 3.0), observations=tuple(Call(stage, at) for stage, at in calls)
    )
    info = QuestionInfo.of_item(Item(INFO.question, "A", (Interval(1, 2), Interval(9, 12)), 8.0))
    found = timeline(info, prediction, None)
    assert found.duration == 12.0
    assert found.evidence == (Evidence(1, 2, 2), Evidence(9, 12, 0))
    assert [(lane.ticks, lane.count, lane.top) for lane in found.lanes] == [((1, 2), 3, 0), ((2, 3), 2, 25)]
    assert len({lane.colour for lane in found.lanes}) == 2
    [lane] = timeline(INFO, Prediction("q", "A", timestamps=(4.0, 5.0)), None).lanes
    assert (lane.title, lane.ticks, lane.count) == ("frames", (4, 5), 2)
    assert timeline(INFO, None, None).duration == 1.0
    assert timeline(QuestionInfo(INFO.question, duration=30.0), prediction, None).duration == 30.0


def test_bars_say_what_they_are() -> None:
    plain = results("trace")["plain"].prediction
    candidates, anchors = timeline(INFO, None, view_search(plain)).lanes
    assert (candidates.title, anchors.title) == ("candidates", "anchors")
    assert [(bar.start, bar.end, bar.label, bar.kind, bar.row) for bar in candidates.bars] == [
        (15.0, 31.0, "", "candidate", 0),
        (58.0, 74.0, "", "candidate", 0),
        (92.0, 108.0, "", "candidate", 0),
    ]
    assert candidates.bars[0].title == "round 1: 0:15.0-0:31.0, 0.5 fps, 360 px"
    last = anchors.bars[-1]
    assert (last.label, last.kind, len(anchors.bars)) == ("a3", "answer", 3)
    assert last.title == "a3, round 1: 1:37.0-1:43.0, 0.5 fps, 360 px, supports the answer"
    regions, found = timeline(INFO, None, view(searches("avp")[0])).lanes
    assert (regions.title, found.title) == ("regions", "key evidence")
    assert [(lane.bars[0].label, lane.bars[0].kind, lane.bars[0].title) for lane in (regions, found)] == [
        ("1", "candidate", "round 1: 0:00.0-8:03.8"),
        ("", "kept", "0:33.0-0:34.0: cruise ship is seen, strength 0.9"),
    ]
    [explored] = timeline(INFO, None, view(searches("vca")[0])).lanes
    assert [(bar.label, bar.kind, bar.title) for bar in explored.bars[:2]] == [
        ("2", "candidate", "step 2: segment 1, 0:00.0-1:00.4"),
        ("1", "candidate", "step 1: segment 0, 0:00.0-8:03.8"),
    ]
    # names need 3 % of the last bar's end between them, bars without names 0.4 %
    assert [bar.row for bar in explored.bars] == [0, 1, 2, 0, 2, 0]
