"""What was found in large files, kept in the cache folder for its next start.

A kept file holds numbers and JSON, no code. It counts only for the very files it was made from, and whatever is wrong
with it, it is made again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trace_ves._version import __version__
from trace_ves.core.files import atomic_path, cache_dir, drop_oldest
from trace_ves.records.item_table import Texts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

FORMAT: Final = 1
WORTH_KEEPING: Final = 16 * 1024 * 1024
"""Bytes of a run file from which on reading it again takes longer than a person likes to wait."""
MOST_BYTES: Final = 2 * 1024**3
"""Of all kept files together; the oldest are dropped."""
_FACTS: Final = "facts"


@dataclass(frozen=True, slots=True)
class Kept:
    """The content of a kept file."""

    facts: dict[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    def column(self, name: str, kind: Any) -> NDArray[Any]:
        """A column of numbers; a `ValueError` where there is none of this type."""
        found = self.arrays.get(name)
        if found is None or found.ndim != 1 or found.dtype != kind:
            raise ValueError(f"no column {name} of {kind}")
        return found

    def texts(self, name: str) -> list[str]:
        """A column of strings, from the arrays of a `Texts`."""
        block, ends = self.column(f"{name}.block", np.uint8), self.column(f"{name}.ends", np.int64)
        if len(ends) and (ends[0] < 0 or ends[-1] > len(block) or np.any(np.diff(ends) < 0)):
            raise ValueError(f"no texts {name}")
        return list(_texts(block.tobytes(), ends.tobytes()))


@lru_cache(maxsize=2)
def _texts(block: bytes, ends: bytes) -> tuple[str, ...]:
    """The runs of a folder have the same questions, mostly: they share the strings."""
    return tuple(Texts(np.frombuffer(block, np.uint8), np.frombuffer(ends, np.int64)))


def identity(path: Path) -> list[object]:
    """What tells one state of a file from another: where it lies, its size, its last change and its inode."""
    status = path.stat()
    return [str(path.resolve()), status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev]


def load_kept(name: str, key: object) -> Kept | None:
    """What was kept under this name for this state of its files; None where there is nothing that can be used."""
    try:
        with _file(name).open("rb") as file, np.load(file, allow_pickle=False) as stored:
            facts = json.loads(stored[_FACTS].tobytes())
            if not isinstance(facts, dict) or facts.pop("key") != json.loads(_key(key)):
                return None
            return Kept(facts, {name: stored[name] for name in stored.files if name != _FACTS})
    except Exception:  # noqa: BLE001  nothing that a damaged file may raise keeps anybody from the page
        return None


def keep(name: str, key: object, kept: Kept) -> None:
    """Keep this; where the cache folder cannot be written, the next start reads the files again."""
    facts = json.dumps({**kept.facts, "key": json.loads(_key(key))}).encode()
    target = _file(name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target, private=True) as partial, partial.open("wb") as file:
            arrays: dict[str, Any] = {**kept.arrays, _FACTS: np.frombuffer(facts, np.uint8)}
            np.savez(file, **arrays)
        drop_oldest(target.parent, most_bytes=MOST_BYTES)
    except OSError:
        return


def _key(key: object) -> str:
    return json.dumps([FORMAT, __version__, key])


def _file(name: str) -> Path:
    return cache_dir() / "pages" / f"{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.npz"
