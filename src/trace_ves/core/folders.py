"""Where this package keeps what it can make again: indexes of videos, replies already paid for."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def cache_dir() -> Path:
    """The cache folder: `TRACE_VES_CACHE_DIR` if set, else the platform's own. It may not exist yet."""
    if configured := os.environ.get("TRACE_VES_CACHE_DIR"):
        return Path(configured)
    from platformdirs import user_cache_path  # noqa: PLC0415  only where it is needed

    return user_cache_path("trace-ves", appauthor=False)


def drop_oldest(folder: Path, *, most_bytes: int) -> None:
    """Delete the files of a cache folder that were written first, until the others take no more than this."""
    kept: list[tuple[float, int, Path]] = []
    for file in folder.iterdir():
        with suppress(OSError):  # another process may be at the same
            status = file.stat()
            kept.append((status.st_mtime, status.st_size, file))
    total = sum(size for _, size, _ in kept)
    for _, size, file in sorted(kept):
        if total <= most_bytes:
            break
        with suppress(OSError):
            file.unlink()
        total -= size
