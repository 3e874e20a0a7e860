"""Files that appear whole or not at all: whoever reads them never sees half of one, and a kill leaves the old one."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def atomic_path(target: Path, *, private: bool = False) -> Iterator[Path]:
    """A path to write to; what stands there takes the target's place at the end, and vanishes on an error.

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
    """Write a whole file, in a folder that is made where it is missing, and have it on disk before returning.

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
