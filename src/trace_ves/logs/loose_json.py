"""JSON of other tools, which write NaN and long lines; what does not parse is a sentence, and depth has a limit."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import FormatError, InputError
from trace_ves.core.jsonl import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_DECODER: Final = json.JSONDecoder(parse_constant=lambda _: None)


def loose_object(raw: bytes, *, path: Path, line: int | None = None) -> dict[str, object]:
    """One JSON object; NaN and infinities in it are null."""
    try:
        value: object = _DECODER.decode(raw.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise FormatError(f"not valid JSON: {error.msg} at column {error.colno}.", path=path, line=line) from None
    except (UnicodeDecodeError, ValueError):
        raise FormatError("not JSON in UTF-8.", path=path, line=line) from None
    except RecursionError:
        raise FormatError("nested too deeply.", path=path, line=line) from None
    if not isinstance(value, dict):
        raise FormatError("expected a JSON object.", path=path, line=line)
    return value


def loose_lines(
    path: Path, on_progress: Callable[[int, int], None] | None = None
) -> Iterator[tuple[int, dict[str, object]]]:
    """The objects of a file with one on each line, with their line numbers."""
    try:
        with path.open("rb") as file:
            total, done, number = os.fstat(file.fileno()).st_size, 0, 0
            while raw := file.readline(MAX_LINE_BYTES + 1):
                number, done = number + 1, done + len(raw)
                if len(raw) > MAX_LINE_BYTES:
                    raise FormatError(f"the line is longer than {MAX_LINE_BYTES} bytes.", path=path, line=number)
                if raw.strip():
                    yield number, loose_object(raw, path=path, line=number)
                if on_progress is not None:
                    on_progress(done, total)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
