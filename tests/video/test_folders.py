"""Videos are found by name in the folders that were given, and nowhere else."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.core import InputError
from trace_ves.video.folders import VideoFolders


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with videos, links that lead in and out, and what lies outside."""
    place = tmp_path_factory.mktemp("place")
    films = place / "films"
    files = "films/a.mp4 films/deep/b.MKV films/notes.txt films/.hidden/c.mp4 films/.d.mp4 more/a.mp4 secret.mp4"
    for path in files.split():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(path.encode())
    (films / "inner.mp4").symlink_to(films / "deep" / "b.MKV")
    (films / "link.mp4").symlink_to(place / "secret.mp4")
    (films / "broken.mp4").symlink_to(place / "nowhere.mp4")
    (films / "loop.mp4").symlink_to(films / "loop.mp4")
    (films / "up").symlink_to(place)
    return place


def test_videos_are_listed_with_names_that_find_them_again(place: Path) -> None:
    folders = VideoFolders([place / "films", place / "more"])
    assert folders.names(9) == ["a.mp4", "inner.mp4", "deep/b.MKV", "more/a.mp4"]
    assert folders.names(2) == ["a.mp4", "inner.mp4"]
    assert folders.find("more/a.mp4").read_bytes() == b"more/a.mp4"
    assert folders.find(str(place / "more" / "a.mp4")).read_bytes() == b"more/a.mp4"
    assert folders.find("inner.mp4").read_bytes() == b"films/deep/b.MKV"


def test_a_single_file_can_be_given_and_its_neighbours_stay_hidden(place: Path) -> None:
    files = VideoFolders([place / "films" / "a.mp4", place / "secret.mp4"])
    assert files.names(9) == ["a.mp4", "secret.mp4"]
    with pytest.raises(InputError, match=r"there is no video 'inner\.mp4' in these folders"):
        files.find("inner.mp4")
    with pytest.raises(InputError, match="no such file or folder"):
        VideoFolders([place / "elsewhere"])


@given(
    st.lists(st.sampled_from(["..", ".", "up", "deep", "a.mp4", "secret.mp4", "link.mp4", "", "/", "\0"]), max_size=6)
)
def test_whatever_is_found_lies_inside(place: Path, parts: list[str]) -> None:
    folders = VideoFolders([place / "films"])
    try:
        found = folders.find("/".join(parts))
    except InputError:
        found = place / "films" / "nothing"
    assert found.is_relative_to((place / "films").resolve())
