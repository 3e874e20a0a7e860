import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.video.fetching.servers import FilmServer

BODY = b"\0\0\0\x20ftypisom" + random.Random(5).randbytes(3_000_000)


@pytest.fixture
def server() -> Iterator[FilmServer]:
    """A server with 3 MB of bytes that are no page and no playlist."""
    film = FilmServer(BODY)
    yield film
    film.close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "fsync", lambda _: None)  # no test cuts the power
    return tmp_path / "cache" / "videos"
