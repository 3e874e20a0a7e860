"""Which videos may be asked about: the files of the folders that a person named, each under a name of its own."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from trace_ves.core import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

VIDEO_SUFFIXES: Final = frozenset(
    {".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".ts", ".m2ts", ".ogv", ".mpg", ".mpeg", ".flv", ".wmv", ".3gp"}
)
MOST_VIDEOS: Final = 2000
LOOK_AGAIN_SECONDS: Final = 2.0
"""A page asks for many frames at once, and each must name a video that is there."""


class VideoFolders:
    """Looks into its folders when it is asked, though not again and again; links that lead out are left alone."""

    def __init__(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            if not folder.exists():
                raise InputError(f"{folder}: no such file or folder; name a video, or a folder with videos.")
        self._given = tuple(folders)
        self.roots: Final = tuple(
            dict.fromkeys((folder if folder.is_dir() else folder.parent).resolve() for folder in folders)
        )
        """Where files may lie."""
        self._looked = -math.inf
        self._found: dict[str, Path] = {}

    def find(self) -> dict[str, Path]:
        """The videos by the names that the page shows, in their order."""
        if time.monotonic() - self._looked > LOOK_AGAIN_SECONDS:
            self._found = self._look()
            self._looked = time.monotonic()
        return self._found

    def _look(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for given in self._given:
            files = sorted(given.rglob("*")) if given.is_dir() else [given]
            for file in files:
                if len(found) == MOST_VIDEOS:
                    return found
                if (given.is_dir() and file.suffix.lower() not in VIDEO_SUFFIXES) or not self._is_inside(file):
                    continue
                name = str(file.relative_to(given)) if given.is_dir() else file.name
                if name in found:
                    name = f"{given.resolve().name}/{name}"
                found.setdefault(name, file.resolve())
        return found

    def _is_inside(self, file: Path) -> bool:
        try:
            real = file.resolve(strict=True)
        except (OSError, RuntimeError):
            return False
        return real.is_file() and any(real.is_relative_to(root) for root in self.roots)
