"""The vocabulary is whole: every name leads somewhere, every thing has a picture, no phrase means two things."""

from importlib.resources import as_file, files

import numpy as np

from trace_ves.twin.synthetic import drawing
from trace_ves.twin.synthetic.tracks import MOTIONS
from trace_ves.twin.synthetic.vocabulary import vocabulary, with_article

PACKAGE = files("trace_ves.twin.synthetic")


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
    assert with_article("owl") == "an owl"
    assert with_article("taxi") == "a taxi"
    assert with_article("one-humped camel") == "a one-humped camel"


def test_every_name_has_a_picture() -> None:
    words = vocabulary()
    with as_file(PACKAGE / "atlas.npz") as path, np.load(path) as atlas:
        assert atlas["names"].tolist() == [*words.sprites, *words.props]
        assert atlas["tiles"].shape == (len(atlas["names"]), drawing.TILE_PX, drawing.TILE_PX, 4)
    for name in (*words.sprites, *words.props):
        picture = drawing.cutout(name, 40)
        assert max(picture.alpha.shape) == 40
        assert picture.alpha.max() > 0.9
        assert picture.alpha.mean() > 0.05


def test_the_art_has_its_licence_beside_it() -> None:
    assert "SIL OPEN FONT LICENSE" in (PACKAGE / "atlas.LICENSE").read_text()
    assert (PACKAGE / "atlas.npz").stat().st_size < 2_000_000  # type: ignore[attr-defined]  a real folder in tests


def test_cutouts_grow_and_shrink_without_losing_their_colour() -> None:
    for size in (12, 50, 104, 180):
        picture = drawing.cutout("basketball", size)
        red, green, blue = (picture.rgb[..., channel][picture.alpha > 0.9].mean() for channel in range(3))
        assert red > green > blue
        mirrored = drawing.cutout("basketball", size, mirrored=True)
        assert np.array_equal(mirrored.rgb, picture.rgb[:, ::-1])
