"""Where this package keeps what it can make again: indexes of videos, replies already paid for."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """The cache folder: `TRACE_VES_CACHE_DIR` if set, else the platform's own. It may not exist yet."""
    if configured := os.environ.get("TRACE_VES_CACHE_DIR"):
        return Path(configured)
    from platformdirs import user_cache_path  # noqa: PLC0415  only where it is needed

    return user_cache_path("trace-ves", appauthor=False)
