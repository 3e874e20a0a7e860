"""Files and folders: atomic writes, checks of outputs, the cache folder, CSV, and SQLite's write-ahead log."""

from __future__ import annotations

import csv
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from trace_ves.core.errors import InputError, wrap_os_errors

if TYPE_CHECKING:
    import sqlite3


@contextmanager
def atomic_path(target: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path that replaces the target at the end, or is deleted on an error.

    If private, only the owner can read the file.
    """
    partial = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}.{os.getpid()}.part")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666))
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def write_atomic(target: Path, content: bytes | str, *, private: bool = False) -> None:
    """Write a whole file and sync it to disk; readers never see half of it. Creates the folder.

    Encodes a string as UTF-8. Raises `InputError` on failure.
    """
    with wrap_os_errors(target, "written"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target, private=private) as partial, partial.open("wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())


def cache_dir() -> Path:
    """The cache folder: `TRACE_VES_CACHE_DIR` if set, else the platform's. It may not exist yet."""
    return _user_dir("cache")


def config_dir() -> Path:
    """The folder of settings: `TRACE_VES_CONFIG_DIR` if set, else the platform's. It may not exist yet."""
    return _user_dir("config")


def _user_dir(kind: Literal["cache", "config"]) -> Path:
    import platformdirs  # most commands do not need it

    find = platformdirs.user_cache_path if kind == "cache" else platformdirs.user_config_path
    configured = os.environ.get(f"TRACE_VES_{kind.upper()}_DIR")
    return Path(configured) if configured else find("trace-ves", appauthor=False)


def drop_oldest(folder: Path, *, most_bytes: int) -> None:
    """Delete the oldest entries of a cache folder until the rest takes at most this many bytes; keep the newest.

    An entry is a file, or a folder, which is as old as its newest file.
    """
    entries: list[tuple[float, int, Path]] = []
    for entry in folder.iterdir():
        with suppress(OSError):  # another process may delete it meanwhile
            files = [file.stat() for file in (entry.iterdir() if entry.is_dir() else [entry])]
            entries.append(
                (max((file.st_mtime for file in files), default=0), sum(file.st_size for file in files), entry)
            )
    total = sum(size for _, size, _ in entries)
    for _, size, entry in sorted(entries)[:-1]:
        if total <= most_bytes:
            break
        with suppress(OSError):
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        total -= size


_COMPANION: Final = re.compile(r"\.run\.toml|\.transcripts|\.failed|(\..+)?\.(srt|vtt)", re.IGNORECASE)
"""What follows the stem of a run or a video in the names of the files that belong to it."""


def refuse_inputs(outputs: Iterable[Path | None], *, inputs: Iterable[Path | None]) -> None:
    """Raise an `InputError` if an output is, contains or belongs to an input, or is another output.

    Follows links. Run configurations, transcripts and subtitles belong to an input, as does the world.jsonl of a twin.
    """
    sources = [(path, path.resolve()) for path in inputs if path is not None]
    sources += [(path, path.parent.resolve() / path.name) for path, _ in sources if path.is_symlink()]
    by_key = {key: path for path, place in sources for key in (place, _identity(path)) if key}
    by_parent = {folder: path for path, place in sources for folder in place.parents}
    by_stem = {place.with_name(place.stem): path for path, place in sources if place.name}

    def find_owner(place: Path) -> Path | None:
        dots = [at for at, letter in enumerate(place.name) if letter == "." and _COMPANION.fullmatch(place.name[at:])]
        owners = [by_stem.get(place.with_name(place.name[:at])) for at in dots if at]
        owners += [by_key.get(place.with_name("questions.jsonl"))] if place.name == "world.jsonl" else []
        return next(filter(None, owners), None)

    beside = chain.from_iterable(map(_entries, {place.parent for _, place in sources}))
    owned = {_identity(each): owner for each in beside if each.exists() and (owner := find_owner(each))}
    earlier_outputs: dict[Path | tuple[int, int], Path] = {}
    for output in [path for path in outputs if path is not None]:
        place, identity = output.resolve(), _identity(output)
        within = ((by_key | owned).get(_identity(each)) for each in _entries(place))
        for relation, path in (
            ("is", by_key.get(place) or (by_key.get(identity) if identity else None)),
            ("contains", by_parent.get(place) or next(filter(None, within), None)),
            ("belongs to", owned.get(identity) or find_owner(place)),
        ):
            if path is not None:
                raise InputError(f"{output} {relation} an input of this command ({path}); write elsewhere.")
        other = earlier_outputs.get(place) or (earlier_outputs.get(identity) if identity else None)
        if other is not None and (output.is_file() or not output.exists()):
            raise InputError(f"{output} is another output of this command ({other}); write each to its own file.")
        earlier_outputs |= dict.fromkeys([place, *([identity] if identity else [])], output)


def _entries(folder: Path) -> list[Path]:
    """What is in a folder; nothing if it is none or cannot be read."""
    with suppress(OSError):
        return list(folder.iterdir())
    return []


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of a file, which all its names share; None if it does not exist."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def write_output(path: Path, content: str) -> None:
    """Write a file completely or not at all. Write to a device directly, and keep a link as a link."""
    if not path.exists() or path.is_file():
        write_atomic(path.resolve(), content)
        return
    with wrap_os_errors(path, "written"):
        path.write_text(content, encoding="utf-8")


MOST_FIELD_CHARACTERS: Final = 16 * 1024 * 1024
SURPLUS: Final = "(more)"  # The key of cells beyond the header


def read_csv(path: Path, delimiter: str) -> list[dict[str, object]]:
    """The rows, keyed by the header. Raises `InputError` for an unreadable file."""
    previous_limit = csv.field_size_limit(MOST_FIELD_CHARACTERS)
    try:
        with wrap_os_errors(path, "read"), path.open(encoding="utf-8-sig", newline="") as file:
            return [dict(row) for row in csv.DictReader(file, delimiter=delimiter, restkey=SURPLUS)]
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a table in UTF-8: {error}.") from None
    finally:
        csv.field_size_limit(previous_limit)  # the limit is global


_PAUSE_SECONDS: Final = 0.01


def use_write_ahead_log(connection: sqlite3.Connection, seconds: float) -> None:
    """Turn on the write-ahead log, waiting for other connections: SQLite's own timeout does not apply here."""
    import sqlite3  # slow to load, and most commands do not need it

    end = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return
