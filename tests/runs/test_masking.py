"""Masks cover what they say, controls never touch evidence, and stand-ins come from nearby."""

from __future__ import annotations

from itertools import islice
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from trace_ves.core import Interval
from trace_ves.runs.counterfactual import Mask, choose, control_spans, evidence_masks, is_evidence, outward

moments = st.lists(st.integers(0, 400).map(lambda n: n / 4), max_size=40, unique=True).map(sorted)
intervals = st.lists(
    st.tuples(st.integers(0, 90), st.integers(1, 10)).map(lambda pair: Interval(pair[0], pair[0] + pair[1])), max_size=4
)


@given(moments, moments, intervals, st.integers(0, 5))
def test_masks_cover_what_they_say(
    clip_frames: list[float], others: list[float], evidence: list[Interval], seed: int
) -> None:
    supplied = sorted({*clip_frames, *others})
    masks = choose(clip_frames, supplied, evidence, Random(seed))
    assert masks == choose(clip_frames, supplied, evidence, Random(seed))
    if masks.evidence is None:
        assert not any(is_evidence(seconds, evidence) for seconds in clip_frames)
        assert masks.control is None
        return
    span = masks.evidence.span
    assert span in evidence
    assert masks.evidence.timestamps == tuple(seconds for seconds in clip_frames if seconds in span)
    if masks.control is not None:
        control = masks.control.span
        assert masks.control.timestamps == tuple(seconds for seconds in clip_frames if seconds in control)
        assert sum(seconds in control for seconds in supplied) == sum(seconds in span for seconds in supplied)
        assert all(control.intersection(interval) is None for interval in evidence)
    else:
        for mask in evidence_masks(clip_frames, evidence):
            assert not control_spans(supplied, evidence, sum(seconds in mask.span for seconds in supplied))


def test_a_frame_between_two_others_that_straddle_evidence_is_no_segment() -> None:
    assert control_spans([1, 9], [Interval(4, 6)], 2) == []
    assert control_spans([1, 2, 5, 9], [Interval(4, 6)], 2) == [Interval(1, 2)]


def test_the_first_and_the_last_frames_can_be_a_control() -> None:
    assert control_spans([1, 2, 8, 9], [Interval(4, 6)], 2) == [Interval(1, 2), Interval(8, 9)]
    assert control_spans([1, 5, 9], [Interval(4, 6)], 1) == [Interval(1, 1), Interval(9, 9)]


def test_an_interval_with_a_control_is_chosen_before_one_without() -> None:
    wide, narrow = Interval(10, 16), Interval(30, 31)
    supplied = [1, 10, 12, 14, 16, 30]  # no four frames lie together outside the evidence; single ones do
    chosen = {choose(supplied, supplied, [wide, narrow], Random(seed)).evidence for seed in range(8)}
    assert chosen == {Mask(narrow, (30,))}
    alone = choose(supplied, supplied, [wide], Random(0))
    assert (alone.evidence, alone.control) == (Mask(wide, (10, 12, 14, 16)), None)


def test_stand_ins_are_looked_for_outward_and_in_turn() -> None:
    mask = Mask(Interval(10, 12), (10.0, 11.0, 12.0))
    assert list(islice(outward(mask, Interval(0, 60)), 4)) == [9, 13, 8, 14]
    assert list(outward(mask, Interval(9.5, 14))) == [13, 14]
    assert list(outward(mask, Interval(8, 12.5))) == [9, 8]
    single = Mask(Interval(10, 10), (10.0,))
    assert abs(next(outward(single, Interval(0, 60))) - 9.96) < 1e-9


@given(st.floats(0, 50), st.floats(0, 50), st.integers(1, 9))
def test_moments_stay_inside_the_video_and_outside_the_mask(start: float, length: float, size: int) -> None:
    mask = Mask(Interval(start, start + length), (start,) * size)
    for moment in islice(outward(mask, Interval(0, 100)), 200):
        assert 0 <= moment <= 100
        assert moment not in mask.span


def test_stand_ins_are_as_far_apart_as_the_masked_frames() -> None:
    whole = Interval(0, 60)
    halves = Mask(Interval(10, 11), (10.0, 10.5, 11.0))
    assert list(islice(outward(halves, whole), 4)) == [9.5, 11.5, 9.0, 12.0]
    pair = Mask(Interval(10, 10.5), (10.0, 10.5))
    assert list(islice(outward(pair, whole), 2)) == [9.5, 11.0]
    wide = Mask(Interval(10, 30), (10.0, 20.0, 30.0))  # ten seconds apart: a second is the most
    assert list(islice(outward(wide, whole), 2)) == [9.0, 31.0]
