"""What is drawn: every name has its picture; a sprite is on screen from its first frame to its last, never outside."""

from importlib.resources import as_file, files

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_ves.twin.synthetic.drawing import TILE_PX, Planes, cutout, draw, make_planes, track_stamp
from trace_ves.twin.synthetic.layout import HEIGHT, WIDTH
from trace_ves.twin.synthetic.scenery import paint
from trace_ves.twin.synthetic.tracks import MOTIONS, Track, pose
from trace_ves.twin.synthetic.vocabulary import vocabulary, with_article

PACKAGE = files("trace_ves.twin.synthetic")
BACKDROP = paint("park", [7])
BASE = make_planes(BACKDROP)

tracks = st.builds(
    lambda name, length, **rest: Track(name, vocabulary().sprites[name].motion, 100, 100 + length, **rest),
    name=st.sampled_from(sorted(vocabulary().sprites)),
    length=st.integers(30, 600),
    size_px=st.integers(14, 100),
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
    assert np.abs(BASE.rgb().astype(float) - BACKDROP.rgb).mean() < 2.0
    for values, colour in (
        ((16, 128, 128), (0, 0, 0)),
        ((235, 128, 128), (255, 255, 255)),
        ((81, 90, 240), (254, 0, 0)),
    ):
        planes = Planes(BASE.packed.copy())
        for plane, value in zip(planes.views(), values, strict=True):
            plane[:] = value
        assert (planes.rgb() == colour).all()


def test_names_lead_somewhere_and_scenes_have_enough_to_happen_in_them() -> None:
    words = vocabulary()
    for event in words.events.values():
        assert set(event.homes) <= set(words.scenes)
        assert event.homes
        assert event.nouns
        assert set(event.resembles) <= set(words.sprites) - {event.name}
    for sprite in words.sprites.values():
        assert sprite.motion in MOTIONS
    for scene in words.scenes.values():
        assert set(scene.ground + scene.above) <= set(words.props)
    assert not set(words.events) & set(words.lookalikes)
    assert set(words.lookalikes) <= {name for event in words.events.values() for name in event.resembles}
    for scene in words.scenes:
        assert sum(scene in event.homes for event in words.events.values()) >= 6, scene
    nouns = [noun for event in words.events.values() for noun in event.nouns]
    assert len(nouns) == len(set(nouns))  # no phrase means two things


def test_articles() -> None:
    said = [with_article(noun) for noun in ("owl", "taxi", "one-humped camel")]
    assert said == ["an owl", "a taxi", "a one-humped camel"]


def test_every_name_has_a_picture() -> None:
    words = vocabulary()
    with as_file(PACKAGE / "atlas.npz") as path, np.load(path) as atlas:
        assert atlas["names"].tolist() == [*words.sprites, *words.props]
        assert atlas["tiles"].shape == (len(atlas["names"]), TILE_PX, TILE_PX, 4)
    for name in (*words.sprites, *words.props):
        picture = cutout(name, 40)
        assert max(picture.alpha.shape) == 40
        assert picture.alpha.max() > 0.9
        assert picture.alpha.mean() > 0.05


def test_the_art_has_its_licence_beside_it() -> None:
    assert "SIL OPEN FONT LICENSE" in (PACKAGE / "atlas.LICENSE").read_text()
    assert (PACKAGE / "atlas.npz").stat().st_size < 2_000_000  # type: ignore[attr-defined]  a real folder in tests


def test_cutouts_grow_and_shrink_without_losing_their_colour() -> None:
    for size in (12, 50, 104, 180):
        picture = cutout("basketball", size)
        red, green, blue = (picture.rgb[..., channel][picture.alpha > 0.9].mean() for channel in range(3))
        assert red > green > blue
        mirrored = cutout("basketball", size, mirrored=True)
        assert np.array_equal(mirrored.rgb, picture.rgb[:, ::-1])
