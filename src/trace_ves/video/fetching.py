"""Fetch a video from an address into a cache, and verify it.

Only addresses from the user are fetched, never one from a bench, a run file or a saved answer.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from trace_ves.core.errors import InputError
from trace_ves.core.files import cache_dir, drop_oldest
from trace_ves.core.jsonl import lock_for_writing
from trace_ves.records.disk_cache import checksum
from trace_ves.video import youtube
from trace_ves.video.download import (
    FetchRules,
    InterruptedTransferError,
    UnknownHostError,
    Version,
    content_length,
    download,
    get,
    parse_address,
    without_query,
)

if TYPE_CHECKING:
    import httpx

PART: Final = "fetching.part"
_NOTE: Final = "video.json"
_LOCK: Final = "lock"
_LONGEST_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class FetchedVideo:
    """A fetched video, possibly from the cache."""

    path: Path
    sha256: str
    bytes: int
    warning: str | None = None  # set if the server could not confirm that the file is unchanged


def fetch_video(
    url: str,
    *,
    rules: FetchRules | None = None,
    on_progress: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> FetchedVideo:
    """Fetch a file, or return it from the cache if it is unchanged; a partial file is continued.

    `#sha256=…` at the end of the address is its checksum. `on_progress` gets the bytes received and the size, if known.
    """
    limits = rules or FetchRules()
    address = parse_address(url)
    stated = _parse_checksum(url)
    film = youtube.find_film(url)
    folder, public_url = cache_folder(film or str(address)), without_query(url)
    with lock_folder(folder):
        stored = _load_stored(folder)
        if stored is not None:
            path, note = stored
            # a YouTube video has no version to check, so the stored file is used
            is_same, warning = (True, None) if film or stated == note.sha256 else _check_version(address, note, limits)
            if is_same:
                if stated not in {None, note.sha256}:
                    raise InputError(f"{public_url}: its checksum is {note.sha256}, not the one in the address.")
                return FetchedVideo(path, note.sha256, note.bytes or 0, warning)
        part = folder / PART
        if film:
            name, version = youtube.download_film(film, part, limits, on_progress)
        else:
            name, version = _file_name(address.path), download(address, part, limits, on_progress)
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if stated not in {None, digest}:
            part.unlink()
            raise InputError(f"{public_url}: its checksum is {digest}, not the one in the address; it was deleted.")
        note = Note(version.etag, version.last_modified, version.bytes, name, digest)
        path = _store(folder, part, note)
        drop_oldest(folder.parent, most_bytes=limits.cache_bytes)
        return FetchedVideo(path, digest, version.bytes or 0)


@dataclass(frozen=True, slots=True)
class Note(Version):
    """The facts about a completely fetched file."""

    name: str = ""  # the name of the file in its folder
    sha256: str = ""


def cache_folder(key: str) -> Path:
    """The cache folder of a video, by its address."""
    return cache_dir() / "videos" / hashlib.sha256(key.encode()).hexdigest()[:32]


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Prevent other processes from fetching the same video at the same time."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written: {error.strerror}; set TRACE_VES_CACHE_DIR to another folder."
        ) from None
    try:
        lock_for_writing(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _load_stored(folder: Path) -> tuple[Path, Note] | None:
    """The video in this folder, if it is complete and unchanged since it was fetched."""
    note = Note.read(folder / _NOTE)
    if note is None or not note.name or "/" in note.name:
        return None
    path = folder / note.name
    with suppress(InputError):
        actual = checksum(path)
        if (actual.bytes, actual.sha256) == (note.bytes, note.sha256):
            os.utime(folder / _NOTE)
            return path, note
    return None


def _check_version(address: httpx.URL, note: Note, rules: FetchRules) -> tuple[bool, str | None]:
    """Whether the server still has this version; if it cannot be asked, the stored file is used with a warning."""
    try:
        with get(address, note.conditions, rules) as response:
            if response.status_code == 304:
                return True, None
            if response.status_code == 200:
                now = Version.of(response, content_length(response))
                return now == Version(note.etag, note.last_modified, note.bytes), None
            reason = f"the server responded with status {response.status_code}"
    except InterruptedTransferError as interruption:
        reason = str(interruption)
    except UnknownHostError:
        reason = "its host name does not resolve"
    return True, f"{without_query(address)}: using the stored copy, because {reason}"


def _store(folder: Path, part: Path, note: Note) -> Path:
    """Rename a complete part to its final name, and write its note."""
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


def _parse_checksum(url: str) -> str | None:
    fragment = urlsplit(url).fragment
    if not fragment.startswith("sha256="):
        return None
    digest = fragment.removeprefix("sha256=").lower()
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise InputError(f"#{fragment[:80]} is not a SHA-256, which has 64 hexadecimal digits.")
    return digest


def _file_name(path: str) -> str:
    """A safe file name that resembles the address."""
    plain = re.sub(r"[^\w.-]+", "_", PurePosixPath(path).name, flags=re.ASCII).lstrip(".")[-_LONGEST_NAME:]
    return plain if plain.strip("_.-") else "video"
