"""Sightings: when two of them are one visit, and what two close ones show of an act."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.core import Interval
from trace_ves.twin.glance.judgement import judge
from trace_ves.twin.glance.parsed_question import understand
from trace_ves.twin.glance.prompt_reading import CallContext
from trace_ves.twin.glance.sightings import (
    AWAY_SECONDS,
    CLOSE_SECONDS,
    GROWN,
    MOVED,
    Conduct,
    Moment,
    SeenClip,
    Sighting,
    View,
    Visit,
    find_visits,
    merge_visits,
    observe_conduct,
)

SIZE = 0.1
"""Of the picture's height."""
ASPECT = 16 / 9


def moment(
    seconds: float, across: float = 0, up: float = 0, growth: float = 1, scene: str | None = "park", score: float = 0.9
) -> Moment:
    """A rabbit that has moved by these multiples of its size, or grown by this factor."""
    x, foot, half = 0.5 + across * SIZE / ASPECT, 0.6 - up * SIZE, growth * SIZE / 2 / ASPECT
    box = (x - half, foot - growth * SIZE, x + half, foot)
    return Moment(seconds, View((Sighting("rabbit", score, box),) if score else (), scene), ASPECT)


def gone(seconds: float) -> Moment:
    return moment(seconds, score=0)


def spans(*moments: Moment) -> list[tuple[float, float]]:
    return [(visit.start, visit.end) for visit in find_visits(["rabbit"], moments)["rabbit"]]


def test_how_closely_a_clip_was_watched() -> None:
    clips = [SeenClip(Interval(0, 9), tuple(map(moment, at))) for at in ((), (3,), (3, 5), (3, 5, 6))]
    assert [clip.spacing_seconds for clip in clips] == [9, 9, 2, 1.5]


def test_when_two_sightings_are_one_visit() -> None:
    assert spans(moment(0), gone(2), moment(4)) == [(0, 4)]  # missed for a moment
    assert spans(moment(0), gone(3), gone(6), moment(9)) == [(0, 0), (9, 9)]
    assert spans(moment(0), gone(4), moment(8)) == [(0, 8)]  # one frame missed, and the same size
    assert spans(moment(0), gone(4), moment(8, growth=2.0)) == [(0, 0), (8, 8)]
    assert spans(moment(0), gone(6), moment(12)) == [(0, 0), (12, 12)]
    assert spans(moment(0), moment(14)) == [(0, 14)]  # nothing between them: size and time decide
    assert spans(moment(0), moment(14, growth=1.5)) == [(0, 0), (14, 14)]
    assert spans(moment(0), moment(20)) == [(0, 20)]
    assert spans(moment(0), moment(20.1)) == [(0, 0), (20.1, 20.1)]
    assert spans(moment(0), gone(4), moment(10.1)) == [(0, 0), (10.1, 10.1)]
    assert spans(moment(0), moment(1, scene="beach")) == [(0, 0), (1, 1)]
    assert spans(moment(0), moment(1, scene=None)) == [(0, 1)]  # an unknown scene may be the same
    assert spans(weak := moment(0, score=0.3)) == []  # a glimpse
    assert len(find_visits(["rabbit"], [weak], threshold=0.2)["rabbit"]) == 1


@given(st.lists(st.tuples(st.floats(0, 500), st.booleans()), max_size=40))
def test_visits_cover_exactly_the_sightings(seen: list[tuple[float, bool]]) -> None:
    moments = [moment(seconds, score=0.8 * there) for seconds, there in sorted(dict(seen).items())]
    visits = find_visits(["rabbit"], moments)["rabbit"]
    times = [m.seconds for m in moments if m.view.sightings]
    assert all(sum(v.start <= t <= v.end for v in visits) == 1 for t in times)
    assert all(later.start > earlier.end + AWAY_SECONDS for earlier, later in itertools.pairwise(visits))
    assert round(sum(v.weight for v in visits), 6) == round(0.8 * len(times), 6)


def test_reports_that_touch_are_one_visit() -> None:
    account = merge_visits(
        [Visit("taxi", 10, 12), Visit("taxi", 14, 15, 3.0), Visit("taxi", 40, 41), Visit("bee", 11, 12)]
    )
    assert account["taxi"] == (Visit("taxi", 10, 15, 3.0), Visit("taxi", 40, 41))
    assert account["bee"] == (Visit("bee", 11, 12),)


@pytest.mark.parametrize(
    ("changed", "act"),
    [
        (moment(3, across=1.0), "dash"),
        (moment(3, up=1.0), "jump"),
        (moment(3, across=-0.8, up=0.8), "dance"),
        (moment(3, growth=1.5), "swell"),
    ],
)
def test_two_close_frames_tell_an_act(changed: Moment, act: str) -> None:
    conduct = observe_conduct("rabbit", [moment(0), changed])
    assert conduct == Conduct(bouts=((act, Visit("rabbit", 0, 3, 0.9)),))


@given(
    across=st.floats(-0.9 * MOVED, 0.9 * MOVED),
    up=st.floats(-0.9 * MOVED, 0.9 * MOVED),
    growth=st.floats(1.0, 0.9 * GROWN),
    apart=st.floats(0.1, CLOSE_SECONDS),
)
def test_a_small_change_is_rest(across: float, up: float, growth: float, apart: float) -> None:
    conduct = observe_conduct("rabbit", [moment(0), moment(apart, across, up, growth)])
    assert not conduct.bouts
    assert [(rest.start, rest.end) for rest in conduct.rests] == [(0, apart)]


@given(
    times=st.lists(st.floats(0, 600), min_size=1, max_size=12, unique=True).map(sorted),
    up=st.lists(st.floats(0, 2), min_size=12, max_size=12),
)
def test_frames_far_apart_settle_nothing(times: list[float], up: list[float]) -> None:
    spread = [number * (CLOSE_SECONDS + 0.1) + seconds / 1e6 for number, seconds in enumerate(times)]
    conduct = observe_conduct("rabbit", [moment(seconds, up=up[n]) for n, seconds in enumerate(spread)])
    assert (conduct.bouts, conduct.rests, len(conduct.unsettled)) == ((), (), len(spread))


@pytest.mark.parametrize(
    ("moments", "unsettled"),
    [
        ([gone(0), moment(4, up=2), gone(8)], [4]),
        ([moment(0), moment(2, up=2, scene="farm")], [0, 2]),
        ([moment(0), moment(2, up=2, score=0.3)], [0]),
    ],
    ids=["a single frame", "different scenes", "only glimpsed"],
)
def test_what_is_no_pair_settles_nothing(moments: list[Moment], unsettled: list[float]) -> None:
    conduct = observe_conduct("rabbit", moments)
    assert not conduct.bouts
    assert [visit.start for visit in conduct.unsettled] == unsettled


def test_two_alike_frames_do_not_end_an_act_and_a_long_rest_does() -> None:
    heights = [0, 1.5, 1.5, 0.2, 1.4, 0, 0, 0, 0, 0, 1.5, 0.1]
    conduct = observe_conduct("rabbit", [moment(2.0 * n, up=height) for n, height in enumerate(heights)])
    assert [(act, visit.start, visit.end) for act, visit in conduct.bouts] == [("jump", 0, 10), ("jump", 18, 22)]


def test_bouts_with_nothing_between_them_are_one_when_they_are_near() -> None:
    near = [moment(0), moment(2, up=1.5), moment(9, up=1.5), moment(11)]
    far = [moment(0), moment(2, up=1.5), moment(19, up=1.5), moment(21)]
    assert [(v.start, v.end) for _, v in observe_conduct("rabbit", near).bouts] == [(0, 11)]
    assert len(observe_conduct("rabbit", far).bouts) == 2


def test_size_is_measured_in_the_pictures_own_shape() -> None:
    """A wide thing that moves by a third of its width has not moved by half of its longer side."""
    wide = [
        Moment(t, View((Sighting("rabbit", 0.9, (left, 0.5, left + 0.3, 0.6)),), "park"), ASPECT)
        for t, left in ((0.0, 0.1), (2.0, 0.2))
    ]
    assert not observe_conduct("rabbit", wide).bouts


def context_of(question: str, moments: Sequence[Moment]) -> CallContext:
    clip = SeenClip(Interval(0.0, moments[-1].seconds), tuple(moments))
    return CallContext(understand(question, {"A": "2", "B": "3", "C": "4", "D": "5"}), {}, (clip,))


def test_a_question_about_an_act_counts_acts_and_not_visits() -> None:
    bout = [0, 1.5, 0.1, 1.4]
    moments = [moment(30.0 * block + 2 * n, up=up) for block in range(3) for n, up in enumerate(bout)]
    moments += [moment(100.0 + 2 * n) for n in range(4)]
    acts = context_of("How many separate times does a rabbit jump up and down in the video?", moments)
    assert acts.asked.acts == {"rabbit": "jump"}
    assert judge(acts.asked, acts.visits).answer == "B"
    visits = context_of("How many times does a rabbit appear in the video?", moments)
    assert not visits.asked.acts
    assert judge(visits.asked, visits.visits).answer == "C"
    other = context_of("On how many separate occasions does a rabbit dash to and fro?", moments)
    assert judge(other.asked, other.visits).count == 0
