"""Files with one JSON object per line. Errors name file and line; a writer may be killed at any byte."""

import fcntl
import gzip
import json
import math
import mmap
import os
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import jiter

from trace_ves.core.errors import FormatError, InputError, wrap_os_errors


class StrictJsonError(ValueError):
    """JSON that Python accepts but the standard does not; the message continues "the text has"."""


def parse_object(raw: bytes) -> dict[str, object]:
    """Parse one strict JSON object: no NaN, no repeated keys, no lone surrogates. Raises `ValueError`."""
    with suppress(ValueError):  # the decoder below has the better error messages
        value = jiter.from_json(raw, allow_inf_nan=False, catch_duplicate_keys=True)
        if isinstance(value, dict):
            return value
    return _decode_object(raw, DECODER)


def parse_loose_object(raw: bytes) -> dict[str, object]:
    """Parse one JSON object as other tools write it: NaN and infinities become null."""
    return _decode_object(raw.removeprefix(BYTE_ORDER_MARK), _LOOSE_DECODER)


def _decode_object(raw: bytes, decoder: json.JSONDecoder) -> dict[str, object]:
    try:
        text = raw.decode("utf-8")
        value: object = decoder.decode(text)
        if decoder is DECODER and ("\\ud" in text or "\\uD" in text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except StrictJsonError as error:
        raise ValueError(f"it has {error}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg.removesuffix(' at')} at column {error.colno}") from None
    except UnicodeError:
        raise ValueError("not valid UTF-8 text") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {json_type(value)}")
    return value


def json_type(value: object) -> str:
    """The JSON type of a value, with an article: `an object`."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _require_unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        repeated = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise StrictJsonError(f"the key {repeated[:80]!r} twice in one object")
    return record


def _refuse_constant(name: str) -> NoReturn:
    raise StrictJsonError(f"{name}, which is not a JSON number")


def _parse_finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise StrictJsonError(f"the number {digits[:40]}, which is too large")
    return value


DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_require_unique_keys, parse_constant=_refuse_constant, parse_float=_parse_finite
)
_LOOSE_DECODER: Final = json.JSONDecoder(parse_constant=lambda _: None)
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

MAX_LINE_BYTES: Final = 64 * 1024 * 1024  # A longer line is refused before it is read into memory
PROGRESS_LINES: Final = 100  # How often a reader reports its progress
_CLOSED: Final = -1


class Line(NamedTuple):
    """One object of a file, with its line number."""

    number: int
    record: dict[str, object]


def read_jsonl(
    path: str | os.PathLike[str],
    *,
    parse: Callable[[bytes], dict[str, object]] = parse_object,
    on_torn_tail: Callable[[str], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[Line]:
    """The objects of a file, which may be a .gz. Skips blank lines; a line that is not an object is a `FormatError`.

    `on_torn_tail` gets a sentence about an incomplete last line, which is an error without it. `on_progress` gets the
    bytes read and the total.
    """
    try:
        with Path(path).open("rb") as stored, gzip.open(stored) if Path(path).suffix == ".gz" else stored as file:
            total, number = os.fstat(stored.fileno()).st_size, 0
            while raw := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
                    raise FormatError(
                        f"the line is longer than {MAX_LINE_BYTES} bytes; write one JSON object per line.",
                        path=path,
                        line=number,
                    )
                if number == 1:
                    raw = raw.removeprefix(BYTE_ORDER_MARK)
                if raw and not raw.isspace():
                    try:
                        yield Line(number, parse(raw))
                    except ValueError as error:
                        if raw.endswith(b"\n"):
                            raise FormatError(f"{error}.", path=path, line=number) from None
                        if on_torn_tail is None:
                            hint = "the file ends inside this line, so it was not written completely"
                            raise FormatError(f"{error} ({hint}).", path=path, line=number) from None
                        on_torn_tail(f"{path}:{number}: the last line is cut off ({error}) and was left out.")
                if on_progress is not None and (number % PROGRESS_LINES == 0 or stored.tell() == total):
                    on_progress(stored.tell(), total)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def dump_line(record: Mapping[str, object]) -> bytes:
    """One object as a line of a file, including the newline."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"


def repair_torn_tail(path: Path) -> None:
    """Repair a file whose writer was killed inside a line: end a complete object with a newline, else remove it."""
    with path.open("r+b") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return
        with mmap.mmap(file.fileno(), 0) as content:
            keep = content.rfind(b"\n") + 1
        file.seek(keep)
        if not (tail := file.read(MAX_LINE_BYTES)):
            return
        try:
            parse_object(tail)
        except ValueError:
            file.truncate(keep)
        else:
            file.write(b"\n")


class JsonlAppender(AbstractContextManager["JsonlAppender"]):
    """An append-only file; each `append` writes a whole line or nothing.

    Opening it repairs a line that a killed writer left incomplete. Threads may share it; a second process is refused.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        with wrap_os_errors(self.path, "written"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            lock_for_writing(self._descriptor, self.path)
            repair_torn_tail(self.path)
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, record: Mapping[str, object]) -> None:
        """Write one line; it reaches the operating system before this returns."""
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

    def close(self) -> None:
        """Sync the file to disk and close it; closing twice is fine."""
        with self._lock:
            if self._descriptor != _CLOSED:
                os.fsync(self._descriptor)
                os.close(self._descriptor)
                self._descriptor = _CLOSED

    def __exit__(self, *_: object) -> None:
        self.close()


def lock_for_writing(descriptor: int, path: Path) -> None:
    """Lock an open file or folder; raise an `InputError` if another process is writing it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(f"{path}: another process is writing there; wait for it, or write elsewhere.") from None
