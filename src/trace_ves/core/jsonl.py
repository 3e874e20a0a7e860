"""Files of one JSON object per line: hostile ones are read with file:line errors, our own survive a kill at any byte.

Knows nothing about what the objects mean.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import jiter

from trace_ves.core.errors import FormatError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Self


class StrictJsonError(ValueError):
    """JSON that Python would accept and the standard does not; the message follows "the text has"."""


def parse_object(raw: bytes) -> dict[str, object]:
    """One JSON object, strictly: no NaN, no key twice, no lone surrogates. Anything else is a `ValueError`."""
    with suppress(ValueError):  # what jiter refuses, the reader below says in words
        quick = jiter.from_json(raw, allow_inf_nan=False, catch_duplicate_keys=True)
        if isinstance(quick, dict):
            return quick
    try:
        text = raw.decode("utf-8")
        value: object = DECODER.decode(text)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except StrictJsonError as error:
        raise ValueError(f"it has {error}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg} at column {error.colno}") from None
    except UnicodeError:
        raise ValueError("not valid UTF-8 text") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {json_type(value)}")
    return value


def json_type(value: object) -> str:
    """What JSON calls the type of this value, with its article."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise StrictJsonError(f"the key {twice[:80]!r} twice in one object")
    return record


def _refuse_constant(name: str) -> NoReturn:
    raise StrictJsonError(f"{name}, which is not a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise StrictJsonError(f"the number {digits[:40]}, which is too large")
    return value


DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
FINITE_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_constant=_refuse_constant, parse_float=_finite
)
"""Also refuses 1e999; slower, as every number passes through Python."""


MAX_LINE_BYTES: Final = 64 * 1024 * 1024  # A longer line is refused before it is held in memory

PROGRESS_LINES: Final = 100  # How often a reader says how far it has come

_BLOCK_BYTES: Final = 2**20
_CLOSED: Final = -1


class Line(NamedTuple):
    """One object of a file, with its line number."""

    number: int
    record: dict[str, object]


def read_jsonl(
    path: str | os.PathLike[str],
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    on_torn_tail: Callable[[str], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[Line]:
    """The objects of a file; blank lines are passed over, anything else that is no object is a `FormatError`.

    A last line that was cut off before its newline is handed to `on_torn_tail` as a sentence, where given.
    `on_progress` hears of bytes read and bytes in all.
    """
    try:
        with Path(path).open("rb") as file:
            total = os.fstat(file.fileno()).st_size
            number, done = 0, 0
            while raw := file.readline(max_line_bytes + 1):
                number, done = number + 1, done + len(raw)
                if len(raw) > max_line_bytes and not raw.endswith(b"\n"):
                    raise FormatError(
                        f"the line is longer than {max_line_bytes} bytes; one line holds one small JSON object.",
                        path=path,
                        line=number,
                    )
                if number == 1:
                    raw = raw.removeprefix(b"\xef\xbb\xbf")
                if raw and not raw.isspace():
                    try:
                        yield Line(number, parse_object(raw))
                    except ValueError as error:
                        if raw.endswith(b"\n"):
                            raise FormatError(f"{error}.", path=path, line=number) from None
                        if on_torn_tail is None:
                            hint = "the file ends inside this line: it was cut off while being written"
                            raise FormatError(f"{error} ({hint}).", path=path, line=number) from None
                        on_torn_tail(f"{path}:{number}: the last line is cut off ({error}) and was left out")
                if on_progress is not None and (number % PROGRESS_LINES == 0 or done == total):
                    on_progress(done, total)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None


def dump_line(record: Mapping[str, object]) -> bytes:
    """One object as a line of a file, newline included."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"


def heal_torn_tail(path: str | os.PathLike[str]) -> int:
    """Repair a file whose writer was killed inside a line: a whole object gets its newline, a part is cut away.

    Gives the number of bytes cut away. What was finished is never touched.
    """
    try:
        with Path(path).open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            keep = _end_of_last_newline(file.fileno(), size)
            if keep == size:
                return 0
            file.seek(keep)
            tail = file.read(MAX_LINE_BYTES)
            try:
                parse_object(tail)
            except ValueError:
                file.truncate(keep)
                return size - keep
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
            return 0
    except FileNotFoundError:
        return 0


def _end_of_last_newline(descriptor: int, size: int) -> int:
    """Where the last finished line ends; 0 where no line was finished."""
    end = size
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        block = os.pread(descriptor, end - start, start)
        if (at := block.rfind(b"\n")) >= 0:
            return start + at + 1
        end = start
    return 0


class JsonlAppender:
    """An append-only file: each `append` is one whole line on disk, or nothing.

    Opening it heals what a killed writer left behind. Threads may share one; a second process is refused.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, flags, 0o666)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror}.") from None
        try:
            claim(self._descriptor, self.path)
            heal_torn_tail(self.path)
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, record: Mapping[str, object]) -> None:
        """Write one line and hand it to the operating system before returning."""
        line = dump_line(record)
        with self._lock:
            before = os.fstat(self._descriptor).st_size
            try:
                written = 0
                while written < len(line):
                    written += os.write(self._descriptor, line[written:])
            except OSError as error:
                os.ftruncate(self._descriptor, before)
                raise InputError(
                    f"{self.path}: the line could not be written ({error.strerror}); the lines before it are kept."
                ) from None

    def sync(self) -> None:
        """Have everything on the disk itself, so that a power cut loses nothing."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Sync and let go of the file; closing twice is fine."""
        with self._lock:
            if self._descriptor != _CLOSED:
                os.fsync(self._descriptor)
                os.close(self._descriptor)
                self._descriptor = _CLOSED

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def claim(descriptor: int, path: Path) -> None:
    """Refuse a file or folder that another process is writing; where there is no such lock, trust the caller."""
    try:
        import fcntl  # not on every platform
    except ImportError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(f"{path}: another process is writing there; wait for it, or write elsewhere.") from None
