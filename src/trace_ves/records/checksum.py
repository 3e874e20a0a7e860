"""The size and SHA-256 of a file, computed once: a run records them, so that its frames can be told from another's."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_ves.core.errors import InputError
from trace_ves.core.files import atomic_path, cache_dir
from trace_ves.core.jsonl import parse_object
from trace_ves.records.record import Count, Name, Record, SparseRecord

if TYPE_CHECKING:
    import os
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Checksum(Record):
    """What tells a file from any other."""

    bytes: Count
    sha256: str


@dataclass(frozen=True, slots=True)
class ReleasedVideo(SparseRecord):
    """A line of a release's `videos.jsonl`: a video of the bench, and its checksum where it is known."""

    video: Name
    bytes: Count | None = None
    sha256: str | None = None


def checksum(path: Path) -> Checksum:
    """The checksum of a file, from the cache where the file has not changed since."""
    try:
        status = path.stat()
        note = cache_dir() / "checksums" / _name(path, status)
        if (known := _read(note)) is not None and known.bytes == status.st_size:
            return known
        with path.open("rb") as file:
            found = Checksum(status.st_size, hashlib.file_digest(file, "sha256").hexdigest())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    _write(note, found)
    return found


def _name(path: Path, status: os.stat_result) -> str:
    identity = f"{path.resolve()}\n{status.st_size}\n{status.st_mtime_ns}\n{status.st_ino}"
    return hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()[:32] + ".json"


def _read(note: Path) -> Checksum | None:
    try:
        return Checksum.from_json(parse_object(note.read_bytes()))
    except (OSError, ValueError):
        return None


def _write(note: Path, found: Checksum) -> None:
    """Keep it; a cache that cannot be written is only slower."""
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(note) as partial:
            partial.write_text(json.dumps(found.to_json()), encoding="utf-8")
