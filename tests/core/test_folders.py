"""Where what can be made again is kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from trace_ves.core.files import cache_dir, drop_oldest

if TYPE_CHECKING:
    import pytest


def test_the_cache_lies_where_a_person_says_or_where_the_platform_keeps_such_things(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", "/some/where")
    assert cache_dir() == Path("/some/where")
    monkeypatch.delenv("TRACE_VES_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert cache_dir() == Path("/cache/trace-ves")


def test_the_oldest_files_go_until_the_others_fit(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        (tmp_path / name).write_bytes(b"x" * 10)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    for most_bytes, left in ((30, ["middle", "new", "old"]), (29, ["middle", "new"]), (19, ["new"]), (0, [])):
        drop_oldest(tmp_path, most_bytes=most_bytes)
        assert sorted(path.name for path in tmp_path.iterdir()) == left
