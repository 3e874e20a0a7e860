"""The folders that an assistant may look into. A path is an assistant's word, so it may be anything."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SUFFIXES: Final = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm", ".wmv"})
MOST_LISTED: Final = 200
_MOST_VISITED: Final = 50_000
"""Files that are looked at for a listing: a home folder has millions."""


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders with their symbolic links resolved; nothing outside them is opened, and nothing is said of it."""

    roots: tuple[Path, ...]

    @classmethod
    def of(cls, folders: Sequence[Path]) -> Folders:
        """The folders that a person named; one that is none is an `InputError`."""
        for folder in folders:
            if not folder.is_dir():
                raise InputError(f"{folder}: no such folder; name the folders whose videos may be looked at.")
        return cls(tuple(folder.resolve() for folder in folders))

    def find(self, name: str) -> Path:
        """The file of this name, relative to one of the folders or absolute, wherever links lead within them.

        Outside and missing are the same sentence: an assistant learns nothing of the rest of the disk.
        """
        for root in self.roots:
            found = _resolved(root, name)
            if found is not None and any(found.is_relative_to(each) for each in self.roots) and found.is_file():
                return found
        raise InputError(f"{name[:200]!r} is no video in the folders that may be looked at; `videos` lists them.")

    def shown(self, path: Path) -> str:
        """A file as an assistant names it: relative to its folder where that is enough to find it again."""
        for root in self.roots:
            if path.is_relative_to(root):
                relative = str(path.relative_to(root))
                return relative if self.find(relative) == path else str(path)
        return str(path)

    def videos(self) -> tuple[list[Path], bool]:
        """The videos in the folders, and whether there are more than are listed."""
        found: list[Path] = []
        for visited, path in enumerate(self._files()):
            if visited == _MOST_VISITED or len(found) == MOST_LISTED:
                return found, True
            if path.suffix.lower() in SUFFIXES:
                found.append(path)
        return found, False

    def _files(self) -> Iterator[Path]:
        for root in self.roots:
            for folder, names, files in os.walk(root):
                names[:] = sorted(name for name in names if not name.startswith("."))
                yield from (Path(folder, name) for name in sorted(files) if not Path(folder, name).is_symlink())


def _resolved(root: Path, name: str) -> Path | None:
    try:
        return (root / name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # missing, a loop of links, a name too long or with a zero byte
        return None
