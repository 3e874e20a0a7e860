"""When two sightings are one visit."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from trace_ves.twin.glance.sightings import AWAY_SECONDS, Moment, Sighting, View, Visit, find_visits, merge_visits


def moment(seconds: float, size: float = 0.2, *, there: bool = True, scene: str | None = "street") -> Moment:
    return Moment(seconds, View((Sighting("taxi", 0.8, (0, 0, size, size)),) if there else (), scene))


def spans(*moments: Moment) -> list[tuple[float, float]]:
    return [(visit.start, visit.end) for visit in find_visits(["taxi"], moments)["taxi"]]


def test_what_is_missed_for_a_moment_has_not_left() -> None:
    assert spans(moment(0), moment(2, there=False), moment(4)) == [(0, 4)]


def test_what_is_gone_for_longer_comes_again() -> None:
    assert spans(moment(0), moment(3, there=False), moment(6, there=False), moment(9)) == [(0, 0), (9, 9)]


def test_with_one_frame_missed_the_same_size_is_the_same_visit() -> None:
    assert spans(moment(0), moment(4, there=False), moment(8)) == [(0, 8)]
    assert spans(moment(0), moment(4, there=False), moment(8, size=0.4)) == [(0, 0), (8, 8)]
    assert spans(moment(0), moment(6, there=False), moment(12)) == [(0, 0), (12, 12)]


def test_between_two_frames_nothing_is_known_so_size_and_time_decide() -> None:
    assert spans(moment(0), moment(14)) == [(0, 14)]
    assert spans(moment(0), moment(14, size=0.3)) == [(0, 0), (14, 14)]
    assert spans(moment(0), moment(27)) == [(0, 0), (27, 27)]


def test_another_scene_is_another_visit_and_an_unknown_one_is_not() -> None:
    assert spans(moment(0), moment(1, scene="beach")) == [(0, 0), (1, 1)]
    assert spans(moment(0), moment(1, scene=None)) == [(0, 1)]


def test_glimpses_do_not_count() -> None:
    weak = Moment(0, View((Sighting("taxi", 0.3),)))
    assert find_visits(["taxi"], [weak]) == {"taxi": ()}
    assert len(find_visits(["taxi"], [weak], threshold=0.2)["taxi"]) == 1


@given(st.lists(st.tuples(st.floats(0, 500), st.booleans()), max_size=40))
def test_visits_cover_exactly_the_sightings(seen: list[tuple[float, bool]]) -> None:
    moments = [moment(seconds, there=there) for seconds, there in sorted(dict(seen).items())]
    visits = find_visits(["taxi"], moments)["taxi"]
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
