"""Find videos in folders by name. Files outside the folders are not found, even through links."""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from trace_ves.core import InputError

_SUFFIXES: Final = "3gp asf avi flv gif m2ts m4v mkv mov mp4 mpeg mpg mts mxf ogm ogv ts vob webm wmv"
VIDEO_SUFFIXES: Final = frozenset(f".{suffix}" for suffix in _SUFFIXES.split())


def walk_videos(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder with a video suffix, sorted; hidden files are left out."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if Path(name).suffix.lower() in VIDEO_SUFFIXES and not name.startswith("."):
                yield Path(place, name)


class VideoFolders:
    """The folders and files whose videos may be opened."""

    def __init__(self, paths: Sequence[Path]) -> None:
        for path in paths:
            if not path.exists():
                raise InputError(f"{path}: no such file or folder; name a video, or a folder with videos.")
        self.paths: Final = tuple(path.resolve() for path in paths)
        self.roots: Final = tuple(dict.fromkeys(path if path.is_dir() else path.parent for path in self.paths))
        """The folders that files must be in."""

    def find(self, name: str) -> Path:
        """Find a video by its absolute name or its name relative to a folder; an `InputError` if it is not allowed."""
        for root in self.paths:
            candidates = [root] if name in {root.name, str(root)} else []
            if root.is_dir():
                candidates = [root / name, *([root.parent / name] if name.startswith(f"{root.name}/") else [])]
            for path in candidates:
                try:
                    real = path.resolve(strict=True)
                except (OSError, RuntimeError, ValueError):  # missing, a loop of links, too long, or a null byte
                    continue
                if real.is_file() and any(real.is_relative_to(each) for each in self.roots):
                    return real
        raise InputError(f"there is no video {name[:200]!r} in these folders.")

    def names(self, most: int) -> list[str]:
        """Names of at most `most` videos, relative to their folders, with the folder's name if names collide."""
        return list(islice(self._names(), most))

    def _names(self) -> Iterator[str]:
        for root in self.paths:
            for path in walk_videos(root) if root.is_dir() else [root]:
                name = path.relative_to(root).as_posix() if root.is_dir() else path.name
                for candidate in (name, f"{root.name}/{name}"):
                    if self._finds(candidate, path):
                        yield candidate
                        break

    def _finds(self, name: str, path: Path) -> bool:
        try:
            return self.find(name) == path.resolve()
        except (InputError, OSError, RuntimeError):
            return False
