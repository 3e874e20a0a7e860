"""Files and folders: atomic writes, outputs that are no inputs, the cache folder, CSV, and SQLite's write-ahead log."""

from __future__ import annotations

import csv
import os
import re
import secrets
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator


@contextmanager
def atomic_path(target: Path, *, private: bool = False) -> Iterator[Path]:
    """A path to write to; the file there replaces the target at the end, and is deleted on an error.

    A private file can be read and written by its owner alone, from its first byte on.
    """
    partial = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}.{os.getpid()}.part")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666))
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def write_atomic(target: Path, content: bytes | str, *, private: bool = False) -> None:
    """Write a whole file and sync it to disk; readers never see half of it. The folder is created if missing.

    A string is written as UTF-8. What keeps it from being written is an `InputError`.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target, private=private) as partial, partial.open("wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error}.") from None


def cache_dir() -> Path:
    """The cache folder: `TRACE_VES_CACHE_DIR` if set, else the platform's. It may not exist yet."""
    if configured := os.environ.get("TRACE_VES_CACHE_DIR"):
        return Path(configured)
    from platformdirs import user_cache_path  # only where it is needed

    return user_cache_path("trace-ves", appauthor=False)


def config_dir() -> Path:
    """The folder of settings: `TRACE_VES_CONFIG_DIR` if set, else the platform's. It may not exist yet."""
    if configured := os.environ.get("TRACE_VES_CONFIG_DIR"):
        return Path(configured)
    from platformdirs import user_config_path  # only where it is needed

    return user_config_path("trace-ves", appauthor=False)


def drop_oldest(folder: Path, *, most_bytes: int) -> None:
    """Delete the oldest files of a cache folder until the rest takes at most this many bytes."""
    kept: list[tuple[float, int, Path]] = []
    for file in folder.iterdir():
        with suppress(OSError):  # another process may be at the same
            status = file.stat()
            kept.append((status.st_mtime, status.st_size, file))
    total = sum(size for _, size, _ in kept)
    for _, size, file in sorted(kept):
        if total <= most_bytes:
            break
        with suppress(OSError):
            file.unlink()
        total -= size


_COMPANION: Final = re.compile(r"\.run\.toml|\.transcripts|\.failed|(\..+)?\.(srt|vtt)", re.IGNORECASE)
"""What follows the stem of a run or of a video in the names of the files that belong to it."""


def refuse_inputs(outputs: Iterable[Path | None], *, inputs: Iterable[Path | None]) -> None:
    """Raise an `InputError` if an output is, contains or belongs to an input, or is another output.

    A link counts as the file it leads to. Run configurations, transcripts and subtitles belong to an input, as does
    the world.jsonl of a twin.
    """
    read = [(path, path.resolve()) for path in inputs if path is not None]
    same = {key: path for path, place in read for key in (place, _identity(path)) if key}
    around = {folder: path for path, place in read for folder in place.parents}
    stems = {place.with_name(place.stem): path for path, place in read if place.name}
    written: dict[Path | tuple[int, int], Path] = {}
    for output in [path for path in outputs if path is not None]:
        place, identity = output.resolve(), _identity(output)
        dots = [at for at, letter in enumerate(place.name) if letter == "." and _COMPANION.fullmatch(place.name[at:])]
        owners = [stems.get(place.with_name(place.name[:at])) for at in dots if at]
        owners += [same.get(place.with_name("questions.jsonl"))] if place.name == "world.jsonl" else []
        for relation, path in (
            ("is", same.get(place) or (same.get(identity) if identity else None)),
            ("contains", around.get(place)),
            ("belongs to", next(filter(None, owners), None)),
        ):
            if path is not None:
                raise InputError(f"{output} {relation} an input of this command ({path}); write elsewhere.")
        other = written.get(place) or (written.get(identity) if identity else None)
        if other is not None and (output.is_file() or not output.exists()):
            raise InputError(f"{output} is another output of this command ({other}); write each to its own file.")
        written |= dict.fromkeys([place, *([identity] if identity else [])], output)


def _identity(path: Path) -> tuple[int, int] | None:
    """What two names of one file share; None for a file that does not exist."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def write_output(path: Path, content: str) -> None:
    """Write a file that appears whole or not at all. A device is written to directly, and a link stays a link."""
    if not path.exists() or path.is_file():
        write_atomic(path.resolve(), content)
        return
    try:
        with path.open("w", encoding="utf-8") as stream:
            stream.write(content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}.") from None


MOST_FIELD_CHARACTERS: Final = 16 * 1024 * 1024
SURPLUS: Final = "(more)"  # The key of cells beyond those that the first row names


def read_csv(path: Path, delimiter: str) -> list[dict[str, object]]:
    """Each row by the names in the first one. What cannot be read is an `InputError`."""
    before = csv.field_size_limit(MOST_FIELD_CHARACTERS)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [dict(row) for row in csv.DictReader(file, delimiter=delimiter, restkey=SURPLUS)]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a table in UTF-8: {error}.") from None
    finally:
        csv.field_size_limit(before)  # it is the whole process's


_PAUSE_SECONDS: Final = 0.01


def use_write_ahead_log(connection: sqlite3.Connection, seconds: float) -> None:
    """Turn the write-ahead log on; wait for other connections here, as SQLite's own timeout does not apply."""
    import sqlite3  # slow to load, and most commands need no database

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
