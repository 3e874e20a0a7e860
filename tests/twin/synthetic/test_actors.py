"""A world of actors: no single frame and no presence tells an answer, all acts together tell every one."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING
from trace_ves.core.question import LETTERS
from trace_ves.records import Item
from trace_ves.twin.synthetic.bench import TwinVideo, make_twin
from trace_ves.twin.synthetic.drawing import track_stamp
from trace_ves.twin.synthetic.layout import FPS, HEIGHT, WIDTH
from trace_ves.twin.synthetic.questions import fair_order_sets
from trace_ves.twin.synthetic.scenery import paint
from trace_ves.twin.synthetic.tracks import ACROSS, ACTS, LARGEST, REST, SMALLEST, UP, Act, Track, pose
from trace_ves.twin.synthetic.vocabulary import vocabulary
from trace_ves.twin.synthetic.world import Hints

BANDS = paint("park", [7]).bands
SEEDS: Final = (500, 501, 502)
"""Three worlds, so that chance is at most a point and a half of standard deviation in each family."""
CHANCE, NEAR = 25.0, 4.0

Span = tuple[int, int]


def acts_of(video: TwinVideo) -> list[tuple[str, Act]]:
    """Everything that happens in a video, and who does it."""
    return [(track.sprite, act) for track in video.world.tracks for act in track.acts]


def presences(video: TwinVideo, number: int) -> dict[str, list[Span]]:
    """When each actor of a question is there, whatever it does."""
    return {
        event.sprite: sorted((each.first, each.last) for each in video.world.tracks if each.sprite == event.sprite)
        for event in video.world.asked[number]
    }


def offered_orders(item: Item, sprites: Sequence[str]) -> list[list[str]]:
    """The sprites of each option, in its order."""
    nouns = {noun: name for name in sprites for noun in vocabulary().events[name].nouns}
    doing = "|".join(act.doing for act in vocabulary().acts.values())
    return [
        [nouns[re.sub(rf"^the ({doing}) ", "", part)] for part in re.split(" → |, then ", option)]
        for option in item.question.options
    ]


@pytest.fixture(scope="module")
def worlds() -> list[TwinVideo]:
    return [video for seed in SEEDS for video in make_twin(600, seed)]


def length(span: Span) -> int:
    return span[1] - span[0]


COUNTS: dict[str, Callable[[list[Span]], float]] = {
    "as many as presences": len,
    "one less": lambda spans: len(spans) - 1,
    "half of them": lambda spans: len(spans) / 2,
    "the long ones": lambda spans: sum(length(span) >= fmean(map(length, spans)) for span in spans),
    "by the time in view": lambda spans: sum(map(length, spans)) / (25 * FPS),
}
TIMES: dict[str, Callable[[list[Span]], float]] = {
    "first seen": lambda spans: spans[0][0],
    "last seen": lambda spans: spans[-1][1],
    "longest seen": lambda spans: max(spans, key=length)[0],
    "shortest seen": lambda spans: min(spans, key=length)[0],
}


def scores(oracle: str, item: Item, there: dict[str, list[Span]]) -> list[float]:
    """How well each option fits for an oracle that knows every presence, but no act."""
    if oracle in COUNTS:
        (spans,) = there.values()
        return [-abs(int(option) - COUNTS[oracle](spans)) for option in item.question.options]
    orders = offered_orders(item, list(there))
    if oracle in TIMES:
        times = {name: TIMES[oracle](spans) for name, spans in there.items()}
        pairs = [itertools.combinations(order, 2) for order in orders]
        return [-sum(times[one] > times[other] for one, other in each) for each in pairs]
    # The likeliest: for how many choices of one presence for each actor an option has the order.
    chosen = [sorted(zip(spans, there, strict=True)) for spans in itertools.product(*there.values())]
    votes = Counter(tuple(name for _, name in each) for each in chosen)
    return [votes[tuple(order)] for order in orders]


@pytest.mark.parametrize("oracle", [*COUNTS, *TIMES, "likeliest"])
def test_who_knows_every_presence_but_no_act_is_at_chance(worlds: list[TwinVideo], oracle: str) -> None:
    family = EVENT_COUNTING if oracle in COUNTS else TEMPORAL_ORDERING
    right = []
    for place, video in enumerate(worlds):
        for number, item in enumerate(video.items):
            if item.question.family == family:
                fit = scores(oracle, item, presences(video, number))
                best = [letter for letter, each in zip(LETTERS, fit, strict=False) if each == max(fit)]
                right.append(np.random.default_rng((place, number)).choice(best) == item.answer)
    assert len(right) == 300 * len(SEEDS)
    assert abs(100 * fmean(right) - CHANCE) <= NEAR


def test_who_knows_all_acts_answers_all_and_they_are_the_evidence(worlds: list[TwinVideo]) -> None:
    for video in worlds:
        for item, events in zip(video.items, video.world.asked, strict=True):
            acts = acts_of(video)
            done = {
                event.sprite: sorted(act.first for name, act in acts if (name, act.act) == (event.sprite, event.act))
                for event in events
            }
            if item.question.family == EVENT_COUNTING:
                (times,) = done.values()
                assert item.question.option(item.answer) == str(len(times))
            else:
                assert all(len(times) == 1 for times in done.values())
                orders = offered_orders(item, list(done))
                assert orders[LETTERS.index(item.answer)] == sorted(done, key=lambda name: done[name])
            evidence = sorted((act.first / FPS, act.last / FPS) for _, act in acts if act.question == item.question.id)
            assert evidence == [(interval.start, interval.end) for interval in item.evidence]


def test_an_actor_is_in_one_place_at_a_time_and_no_cut_falls_into_its_stay(worlds: list[TwinVideo]) -> None:
    for video in worlds:
        scenes = video.world.scenes
        assert (scenes[0].first, scenes[-1].last) == (0, video.world.frames - 1)
        assert all(a.last + 1 == b.first for a, b in itertools.pairwise(scenes))
        asked = {event.sprite for events in video.world.asked for event in events}
        for name in asked:
            stays = sorted((each.first, each.last) for each in video.world.tracks if each.sprite == name)
            assert all(earlier[1] < later[0] for earlier, later in itertools.pairwise(stays))
            for first, last in stays:
                assert any(scene.first <= first and last <= scene.last for scene in scenes)
        for each in video.world.tracks:
            acts = each.acts
            assert all(a.last < b.first for a, b in itertools.pairwise(acts))
            assert all(each.first <= act.first < act.last <= each.last for act in acts)


def test_rest_is_there_as_often_as_the_two_numbers_say() -> None:
    for hints in (Hints(0.8, 2.0), Hints(0.3, 1.0), Hints(1.0, 3.5)):
        rested, elsewhere, actors = [], 0, 0
        for video in make_twin(100, 12, hints):
            asked = {(event.sprite, event.act) for events in video.world.asked for event in events}
            actors += len(asked)
            for each in video.world.tracks:
                if each.sprite not in {name for name, _ in asked}:
                    continue
                evidence = [act for act in each.acts if act.question is not None]
                elsewhere += not evidence
                rested += [each.first < act.first or act.last < each.last for act in evidence]
        assert abs(fmean(rested) - hints.around) < 0.05, hints
        # A rest that touches an act's own stay is one with it, and a full video has no room for more.
        assert 0.8 * hints.elsewhere < elsewhere / actors <= 1.12 * hints.elsewhere, hints


def test_most_acts_are_where_one_expects_them_and_look_alikes_are_near(worlds: list[TwinVideo]) -> None:
    at_home, with_double, sizes = [], [], []
    for video in worlds:
        actors = {event.sprite for events in video.world.asked for event in events}
        others = {track.sprite for track in video.world.tracks} - actors
        with_double.append(any(set(vocabulary().events[name].resembles) & others for name in actors))
        sizes += [track.size_px for track in video.world.tracks if track.sprite in actors]
        for name, act in acts_of(video):
            if act.question is not None:
                scene = next(each.scene for each in video.world.scenes if each.last >= act.first)
                at_home.append(scene in vocabulary().events[name].homes)
    assert 0.8 < fmean(at_home) < 0.97
    assert fmean(with_double) > 0.6
    assert (min(sizes), max(sizes)) == (14, 100)
    assert 0.05 < fmean(size < 20 for size in sizes) < 0.3


def test_options_do_not_give_the_answer_away(worlds: list[TwinVideo]) -> None:
    items = [item for video in worlds for item in video.items]
    letters = Counter((item.question.family, item.answer) for item in items)
    assert len(letters) == 8
    assert all(150 <= count <= 300 for count in letters.values()), letters
    assert all(len(set(item.question.options)) == 4 for item in items)
    counts = [item for item in items if item.question.family == EVENT_COUNTING]
    remaining = [sum(int(option) >= len(item.evidence) - 1 for option in item.question.options) for item in counts]
    assert min(remaining) >= 2  # with one occurrence unseen, two counts remain possible


@pytest.mark.parametrize("events", [3, 4])
def test_fair_sets_are_closed_for_every_option(events: int) -> None:
    sets = fair_order_sets(events)
    assert sets
    for orders in sets:
        assert len(set(orders)) == 4
        assert set(orders) <= set(itertools.permutations(range(events)))
        for order in orders:
            for unseen in order:
                rest = [event for event in order if event != unseen]
                alike = [o for o in orders if [event for event in o if event != unseen] == rest]
                assert len(alike) >= 2, (orders, order, unseen)


@settings(max_examples=6, deadline=None)
@given(questions=st.integers(2, 20), seed=st.integers(0, 2**40))
def test_any_twin_can_be_made(questions: int, seed: int) -> None:
    twin = make_twin(questions, seed)
    ids = [item.question.id for video in twin for item in video.items]
    assert ids == [f"q{number:04}" for number in range(1, questions + 1)]
    assert twin == make_twin(questions, seed) != make_twin(questions, seed + 1)


tracks = st.builds(
    lambda act, before, length, after, **rest: Track(
        motion=REST,
        first=100,
        last=100 + before + length + after,
        acts=(Act(act, 100 + before, 100 + before + length),),
        **rest,
    ),
    sprite=st.sampled_from(sorted(vocabulary().sprites)),
    act=st.sampled_from(sorted(ACTS)),
    before=st.integers(0, 140),
    length=st.integers(35, 600),
    after=st.integers(0, 140),
    size_px=st.integers(14, 100),
    place=st.floats(0, 1),
    depth=st.floats(0, 1),
)


@settings(max_examples=80, deadline=None)
@given(track=tracks, part=st.floats(0, 1))
def test_an_act_ends_where_it_began_and_stays_in_the_frame(track: Track, part: float) -> None:
    size = track_stamp(track).size
    (act,) = track.acts
    before, after = (pose(track, frame, BANDS, size) for frame in (act.first, act.last))
    assert (after.x, after.foot_y, after.scale) == pytest.approx((before.x, before.foot_y, before.scale), abs=1e-6)
    at = pose(track, round(track.first + part * (track.last - track.first)), BANDS, size)
    width, height = track_stamp(track, at.scale).size
    assert -2 <= at.x - width / 2 <= at.x + width / 2 <= WIDTH + 2
    assert -2 <= at.foot_y - height <= at.foot_y <= HEIGHT


@settings(max_examples=60, deadline=None)
@given(track=tracks, first=st.integers(0, 500), apart=st.integers(1, 50))
def test_rest_is_slow(track: Track, first: int, apart: int) -> None:
    resting = Track(track.sprite, REST, 0, 600, track.size_px, track.place, track.depth)
    size = track_stamp(track).size
    one, other = (pose(resting, frame, BANDS, size) for frame in (first, first + apart))
    assert abs(one.x - other.x) < 0.3 * max(size)
    assert abs(one.foot_y - other.foot_y) < 0.3 * max(size)
    assert 1 / 1.12 < one.scale / other.scale < 1.12


@pytest.mark.parametrize("act", sorted(ACTS))
def test_an_act_is_quick(act: str) -> None:
    track = Track("taxi", REST, 0, 400, 50, 0.4, 0.5, acts=(Act(act, 100, 200),))
    size = track_stamp(track).size
    acting = [pose(track, frame, BANDS, size) for frame in range(100, 201)]
    ranges = {
        "across": np.ptp([each.x for each in acting]) / (ACROSS * max(size)),
        "up": np.ptp([each.foot_y for each in acting]) / (UP * max(size)),
        "growth": np.ptp([each.scale for each in acting]) / (LARGEST - SMALLEST),
    }
    assert {way for way, gone in ranges.items() if gone > 0.95} == set(ACTS[act])
    assert {way for way, gone in ranges.items() if gone > 0.05} == set(ACTS[act])


# --- single frames ----------------------------------------------------------------------------------

STUDIED: Final = 490
"""A world from whose frames the oracle learns what acts and rest look like; it is tried on others."""
FRAMES: Final = 8
"""Frames of each presence that it studies."""

Look = tuple[int, int, int, bool]
"""All that a single frame shows of an actor, in steps: column, row, how large it is for its kind, whether it fades."""


def look(track: Track, frame: int) -> Look:
    at = pose(track, frame, BANDS, (track.size_px, track.size_px))
    parts = at.x / WIDTH, at.foot_y / HEIGHT, (at.scale - SMALLEST) / (LARGEST - SMALLEST)
    column, row, size = (min(4, int(5 * part)) for part in parts)
    return column, row, size, at.opacity < 1


def asked_tracks(video: TwinVideo) -> Iterator[tuple[Track, str]]:
    """Every presence of the actors that are asked about: the track, and the act."""
    for event in itertools.chain(*video.world.asked):
        yield from ((track, event.act) for track in video.world.tracks if track.sprite == event.sprite)


def acts_at(track: Track, act: str, frame: int) -> bool:
    return any(each.act == act and each.first <= frame <= each.last for each in track.acts)


@pytest.fixture(scope="module")
def odds() -> dict[Look, float]:
    """How much likelier each look is in an act than at rest, as the logarithm of the ratio."""
    rng = np.random.default_rng(0)
    seen: dict[bool, Counter[Look]] = {True: Counter(), False: Counter()}
    for video in make_twin(300, STUDIED):
        for track, act in asked_tracks(video):
            for frame in rng.integers(track.first, track.last + 1, FRAMES).tolist():
                seen[acts_at(track, act, frame)][look(track, frame)] += 1
    totals = {acting: looks.total() + 100 for acting, looks in seen.items()}
    return {
        each: float(np.log((seen[True][each] + 1) / totals[True]) - np.log((seen[False][each] + 1) / totals[False]))
        for each in seen[True] | seen[False]
    }


def test_a_single_frame_does_not_show_whether_its_actor_acts(worlds: list[TwinVideo], odds: dict[Look, float]) -> None:
    """Of a frame in an act and one at rest, the frame that looks more like an act is the right one half of the time."""
    rng = np.random.default_rng(1)
    told: dict[bool, list[float]] = {True: [], False: []}
    for video in worlds:
        for track, act in asked_tracks(video):
            frame = int(rng.integers(track.first, track.last + 1))
            told[acts_at(track, act, frame)].append(odds.get(look(track, frame), 0.0))
    acting, resting = (rng.permutation(told[kind])[:2000] for kind in (True, False))
    assert len(acting) == len(resting) == 2000
    right = 100 * float(np.mean((acting > resting) + 0.5 * (acting == resting)))
    assert abs(right - 50) <= NEAR
