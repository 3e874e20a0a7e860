"""Footage is made once for a session, and only what the selected tests ask for."""

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("av")
pytest.importorskip("simplejpeg")
sys.path.insert(0, str(Path(__file__).parent))  # tests are not a package; these helpers are theirs alone

import video_footage
import video_oracle


@pytest.fixture(scope="session")
def footage(tmp_path_factory: pytest.TempPathFactory) -> video_oracle.Footage:
    """The path of the footage of this name; made once for all workers of a session."""
    own = tmp_path_factory.mktemp("footage")
    shared = tmp_path_factory.getbasetemp().parent / "footage" if "PYTEST_XDIST_WORKER" in os.environ else own / "all"
    shared.mkdir(exist_ok=True)

    def path_of(name: str) -> Path:
        if not (shared / name).exists():
            video_footage.make(name, own / name)
            with suppress(FileExistsError):  # another worker was faster
                os.link(own / name, shared / name)
        return shared / name

    return path_of


@pytest.fixture(scope="session")
def truth() -> video_oracle.Truths:
    """All frames of a file at some height by sequential decoding, remembered."""
    return cache(video_oracle.every_frame)
