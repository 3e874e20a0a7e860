"""The videos of some folders, by name. Nothing outside the folders is found, wherever links lead."""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from trace_ves.core import InputError

_SUFFIXES: Final = "3gp asf avi flv gif m2ts m4v mkv mov mp4 mpeg mpg mts mxf ogm ogv ts vob webm wmv"
VIDEO_SUFFIXES: Final = frozenset(f".{suffix}" for suffix in _SUFFIXES.split())


def walk_videos(folder: Path) -> Iterator[Path]:
    """The files below a folder that end like a video, in order; hidden ones are left out."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if Path(name).suffix.lower() in VIDEO_SUFFIXES and not name.startswith("."):
                yield Path(place, name)


class VideoFolders:
    """Folders, and single files, whose videos may be opened."""

    def __init__(self, given: Sequence[Path]) -> None:
        for path in given:
            if not path.exists():
                raise InputError(f"{path}: no such file or folder; name a video, or a folder with videos.")
        self.given: Final = tuple(path.resolve() for path in given)
        self.roots: Final = tuple(dict.fromkeys(path if path.is_dir() else path.parent for path in self.given))
        """Where files may lie."""

    def find(self, name: str) -> Path:
        """The file of this name, relative to a folder or absolute; outside and missing are the same error."""
        for given in self.given:
            paths = [given] if name in {given.name, str(given)} else []
            if given.is_dir():
                paths = [given / name, *([given.parent / name] if name.startswith(f"{given.name}/") else [])]
            for path in paths:
                try:
                    real = path.resolve(strict=True)
                except (OSError, RuntimeError, ValueError):  # missing, a loop of links, too long, or with a zero byte
                    continue
                if real.is_file() and any(real.is_relative_to(root) for root in self.roots):
                    return real
        raise InputError(f"there is no video {name[:200]!r} in these folders.")

    def names(self, most: int) -> list[str]:
        """Names of at most `most` videos, each relative to its folder, after the folder's name where names collide."""
        return list(islice(self._names(), most))

    def _names(self) -> Iterator[str]:
        for given in self.given:
            for path in walk_videos(given) if given.is_dir() else [given]:
                name = path.relative_to(given).as_posix() if given.is_dir() else path.name
                for shown in (name, f"{given.name}/{name}"):
                    if self._finds(shown, path):
                        yield shown
                        break

    def _finds(self, name: str, path: Path) -> bool:
        try:
            return self.find(name) == path.resolve()
        except (InputError, OSError, RuntimeError):
            return False
