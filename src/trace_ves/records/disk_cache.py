"""Cached facts about large files: checksums, indexes, surveys of videos.

A cache file is a line of JSON and columns of numbers, compressed by zlib, which detects damage. It contains no code,
and it can be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jiter

from trace_ves._version import __version__
from trace_ves.core.errors import wrap_os_errors
from trace_ves.core.files import atomic_path, cache_dir, drop_oldest
from trace_ves.records.base import Count, Name, Record, SparseRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT: Final = 13
MOST_BYTES: Final = 512 * 1024**2  # In each folder of the cache; the oldest files are deleted


@dataclass(frozen=True, slots=True)
class Facts:
    """The content of a cache file."""

    values: dict[str, Any]  # Any JSON
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def identify(path: Path) -> list[object]:
    """Values that change when a file changes: its path, size, modification time, inode and device."""
    status = path.stat()
    return [str(path.resolve()), status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev]


def load_facts(folder: str, key: object) -> Facts | None:
    """The facts saved under this key; None if there are none that can be read."""
    try:
        content = zlib.decompress(_file(folder, key).read_bytes())
        end = content.index(b"\n") + 1
        head = jiter.from_json(content[:end])
        columns = _read_columns(head["columns"], content, end) if head["columns"] else {}
        return Facts(head["values"], columns)
    except (OSError, ValueError, LookupError, TypeError, zlib.error):
        return None


def save_facts(folder: str, key: object, facts: Facts) -> None:
    """Save facts under a key. If the cache folder cannot be written, nothing is saved."""
    columns = [[name, column.dtype.str, len(column)] for name, column in facts.columns.items()]
    head = json.dumps({"values": facts.values, "columns": columns}).encode() + b"\n"
    content = b"".join([head, *(column.tobytes() for column in facts.columns.values())])
    target = _file(folder, key)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target, private=True) as partial:
            partial.write_bytes(zlib.compress(content, 1))
        drop_oldest(target.parent, most_bytes=MOST_BYTES)
    except OSError:
        return


def _read_columns(columns: list[tuple[str, str, int]], content: bytes, at: int) -> dict[str, NDArray[Any]]:
    import numpy as np  # slow to load, and few files have columns

    arrays = {}
    for name, kind, count in columns:
        arrays[name] = np.frombuffer(content, kind, count, at).copy()  # a copy is writable
        at += arrays[name].nbytes
    return arrays


def _file(folder: str, key: object) -> Path:
    text = json.dumps([FORMAT, __version__, key])
    return cache_dir() / folder / hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Checksum(Record):
    """The size and SHA-256 of a file."""

    bytes: Count
    sha256: str


@dataclass(frozen=True, slots=True)
class ReleasedVideo(SparseRecord):
    """A line of a release's `videos.jsonl`: a video of the bench, and its checksum if it is known."""

    video: Name
    bytes: Count | None = None
    sha256: str | None = None


def checksum(path: Path) -> Checksum:
    """The size and SHA-256 of a file, from the cache unless the file has changed."""
    with wrap_os_errors(path, "read"):
        key = identify(path)
        if facts := load_facts("checksums", key):
            return Checksum.from_json(facts.values)
        with path.open("rb") as file:
            result = Checksum(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())
    save_facts("checksums", key, Facts(result.to_json()))
    return result
