"""Files that a command writes for a person: never one of its inputs, whole or not at all, and a sentence on failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.core.atomic import write_atomic
from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def refuse_inputs(outputs: Iterable[Path | None], *, inputs: Iterable[Path | None]) -> None:
    """Raise an `InputError` if an output is an input or another output, by whatever name: a link is the same place."""
    read = [path for path in inputs if path is not None]
    written: list[Path] = []
    for output in [path for path in outputs if path is not None]:
        if (same := _same(output, read)) is not None:
            raise InputError(f"{output} is an input of this command ({same}); write elsewhere.")
        if (same := _same(output, written)) is not None and (output.is_file() or not output.exists()):
            raise InputError(f"{output} is another output of this command ({same}); write each to its own file.")
        written.append(output)


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


def _same(path: Path, others: Iterable[Path]) -> Path | None:
    return next((other for other in others if _is_same(path, other)), None)


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one.resolve() == other.resolve()
