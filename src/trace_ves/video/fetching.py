"""A video by its address: fetched into a cache, checked, and from then on a file like any other.

Only an address that a person gives is ever fetched: nothing in a bench, a run file or a saved answer leads here.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from trace_ves.core.errors import InputError
from trace_ves.core.files import cache_dir
from trace_ves.core.jsonl import claim
from trace_ves.records.disk_cache import checksum
from trace_ves.video import youtube
from trace_ves.video.download import (
    Address,
    FetchRules,
    Freshness,
    InterruptedTransferError,
    Note,
    UnknownHostError,
    Version,
    download,
    get,
    without_query,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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


_LONGEST_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class Fetched:
    """A video that was fetched, now or before."""

    path: Path
    sha256: str
    bytes: int
    warning: str | None = None
    """Set where the server could not be asked whether the file is still the same."""


def fetch_video(
    url: str,
    *,
    rules: FetchRules | None = None,
    on_progress: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> Fetched:
    """The file behind an address, from the cache where it is still the same.

    `#sha256=…` at the end of the address says what its checksum must be. `on_progress` hears bytes that are there and,
    where the server says so, bytes in all. What goes wrong is an `InputError`; a part stays and is continued next time.
    """
    limits = rules or FetchRules()
    address = Address.parse(url)
    wanted = _wanted_checksum(url)
    film = youtube.film_of(url)
    source = _WebFile(address) if film is None else youtube.Film(film)
    folder, shown = folder_of(source.key), without_query(url)
    with held(folder):
        found = kept(folder)
        if found is not None:
            path, note = found
            state = Freshness() if wanted == note.sha256 else source.freshness(note, limits)
            if state.same:
                if wanted not in {None, note.sha256}:
                    raise InputError(f"{shown}: its checksum is {note.sha256}, not the one asked for.")
                return Fetched(path, note.sha256, note.bytes or 0, state.warning)
        part = folder / PART
        name, version = source.download(part, limits, on_progress)
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if wanted not in {None, digest}:
            part.unlink()
            raise InputError(f"{shown}: its checksum is {digest}, not the one asked for; it is not kept.")
        path = keep(folder, part, Note(version.etag, version.last_modified, version.bytes, name, digest))
        make_room(folder, limits.cache_bytes)
        return Fetched(path, digest, version.bytes or 0)


@dataclass(frozen=True, slots=True)
class _WebFile:
    """A file that a web server has."""

    address: Address

    @property
    def key(self) -> str:
        return str(self.address)

    def freshness(self, note: Note, rules: FetchRules) -> Freshness:
        """Ask the server; where it cannot be asked, the kept file is used with a warning."""
        try:
            with get(self.address, note.conditions, rules) as reply:
                if reply.status == 304:
                    return Freshness()
                if reply.status == 200:
                    now = Version.of(reply, reply.length)
                    return Freshness(same=now == Version(note.etag, note.last_modified, note.bytes))
                reason = f"the server answered {reply.status}"
        except InterruptedTransferError as interruption:
            reason = str(interruption)
        except UnknownHostError:
            reason = "its host is not known now"
        return Freshness(warning=f"{self.address.shown}: the copy fetched before is used, since {reason}")

    def download(
        self, part: Path, rules: FetchRules, on_progress: Callable[[int, int | None], None]
    ) -> tuple[str, Version]:
        """Fetch it; its name and version."""
        version = download(self.address, part, rules, on_progress)
        return _file_name(self.address.target), version


def _wanted_checksum(url: str) -> str | None:
    fragment = urlsplit(url).fragment
    if not fragment.startswith("sha256="):
        return None
    found = fragment.removeprefix("sha256=").lower()
    if not re.fullmatch("[0-9a-f]{64}", found):
        raise InputError(f"#{fragment[:80]} is no SHA-256: that has 64 hexadecimal digits.")
    return found


def _file_name(target: str) -> str:
    """A name for the file that tells a person which one it is, and is safe in a folder."""
    last = PurePosixPath(unquote(urlsplit(target).path)).name
    plain = re.sub(r"[^\w.-]+", "_", last, flags=re.ASCII).lstrip(".")[-_LONGEST_NAME:]
    return plain if plain.strip("_.-") else "video"
