"""The folder of fetched videos: one folder for each address, the least recently used ones dropped to make room."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import InputError
from trace_ves.core.folders import cache_dir
from trace_ves.core.jsonl import claim
from trace_ves.fetching.notes import Note
from trace_ves.records.checksum import checksum

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PART: Final = "fetching.part"
_NOTE: Final = "video.json"
_LOCK: Final = "lock"


def folder_of(key: str) -> Path:
    """The folder of one video, by whatever identifies it."""
    return cache_dir() / "videos" / hashlib.sha256(key.encode()).hexdigest()[:32]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other processes from fetching the same video meanwhile."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written: {error.strerror}; set TRACE_VES_CACHE_DIR to another folder."
        ) from None
    try:
        claim(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def kept(folder: Path) -> tuple[Path, Note] | None:
    """The video of this folder, where it is whole and as it was fetched."""
    note = Note.read(folder / _NOTE)
    if note is None or not note.name or "/" in note.name:
        return None
    path = folder / note.name
    with suppress(InputError):
        found = checksum(path)
        if (found.bytes, found.sha256) == (note.bytes, note.sha256):
            os.utime(folder / _NOTE)
            return path, note
    return None


def keep(folder: Path, part: Path, note: Note) -> Path:
    """Give a part that is whole its name, and note what it is."""
    path = folder / note.name
    try:
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}.") from None
    note.write(folder / _NOTE)
    part.with_suffix(".json").unlink(missing_ok=True)
    return path


def make_room(folder: Path, most_bytes: int) -> None:
    """Drop the videos that were not used for longest until all fit; that of this folder stays."""
    found = sorted((_last_used(other), _size(other), other) for other in folder.parent.iterdir() if other.is_dir())
    total = sum(size for _, size, _ in found)
    for _, size, other in found:
        if total <= most_bytes:
            return
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
            total -= size


def _last_used(folder: Path) -> float:
    with suppress(OSError):
        return (folder / _NOTE).stat().st_mtime
    with suppress(OSError):
        return (folder / PART).stat().st_mtime
    return 0.0


def _size(folder: Path) -> int:
    with suppress(OSError):
        return sum(path.stat().st_size for path in folder.iterdir())
    return 0
