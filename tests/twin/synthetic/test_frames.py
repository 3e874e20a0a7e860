"""Frames: a sprite is on screen from its first frame to its last, a good part of it always, and never outside."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_ves.twin.synthetic.drawing import draw, make_planes, track_stamp
from trace_ves.twin.synthetic.layout import HEIGHT, WIDTH
from trace_ves.twin.synthetic.scenery import paint
from trace_ves.twin.synthetic.tracks import Track, pose
from trace_ves.twin.synthetic.vocabulary import vocabulary

BACKDROP = paint("park", [7])
BASE = make_planes(BACKDROP)

tracks = st.builds(
    lambda name, length, size, place, depth, rightward: Track(
        name, vocabulary().sprites[name].motion, 100, 100 + length, size, place, depth, rightward=rightward
    ),
    name=st.sampled_from(sorted(vocabulary().sprites)),
    length=st.integers(30, 600),
    size=st.integers(14, 100),
    place=st.floats(0, 1),
    depth=st.floats(0, 1),
    rightward=st.booleans(),
)


@settings(max_examples=120, deadline=None)
@given(track=tracks, part=st.floats(0, 1))
def test_a_fifth_is_always_on_screen(track: Track, part: float) -> None:
    stamp = track_stamp(track)
    width, height = stamp.size
    for frame in (track.first, track.first + round(part * (track.last - track.first)), track.last):
        at = pose(track, frame, BACKDROP.bands, stamp.size)
        across = min(at.x + width / 2, WIDTH) - max(at.x - width / 2, 0)
        down = min(at.foot_y, HEIGHT) - max(at.foot_y - height, 0)
        assert across * down / (width * height) >= 0.2 - 1e-12  # some come to a fifth exactly
        assert 0.3 <= at.opacity <= 1.0


@settings(max_examples=60, deadline=None)
@given(track=tracks)
def test_drawn_within_its_visit_and_never_outside(track: Track) -> None:
    for frame in (track.first, track.last):
        assert not np.array_equal(draw(BASE, BACKDROP, [track], frame).packed, BASE.packed)
    for frame in (track.first - 1, track.last + 1):
        assert draw(BASE, BACKDROP, [track], frame) is BASE


def test_planes_stand_for_the_picture_they_were_made_of() -> None:
    difference = np.abs(BASE.rgb().astype(float) - BACKDROP.rgb)
    assert difference.mean() < 2.0
