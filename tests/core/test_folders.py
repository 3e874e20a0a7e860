"""Where what can be made again is kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trace_ves.core.folders import cache_dir

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
