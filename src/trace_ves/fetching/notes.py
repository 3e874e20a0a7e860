"""What the cache notes beside a file: where it came from, and how to tell whether it is still the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from trace_ves.core.atomic import write_atomic
from trace_ves.core.strict_json import parse_object
from trace_ves.records.record import Count, SparseRecord

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.fetching.connection import Reply


@dataclass(frozen=True, slots=True)
class Version(SparseRecord):
    """Which version of a file a server has: equal versions have equal bytes."""

    etag: str | None = None
    last_modified: str | None = None
    bytes: Count | None = None

    @classmethod
    def of(cls, reply: Reply, size: int | None) -> Self:
        """The version that a reply is of."""
        return cls(reply.header("ETag") or None, reply.header("Last-Modified") or None, size)

    @property
    def validator(self) -> str | None:
        """What makes a range safe to ask for: a strong ETag, or else a date. Without one, nothing can be continued."""
        if self.etag is not None:
            return None if self.etag.startswith("W/") else self.etag
        return self.last_modified

    @property
    def conditions(self) -> dict[str, str]:
        """The headers that ask for the file only if it is another by now."""
        found = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in found.items() if value is not None}

    def write(self, path: Path) -> None:
        """Note it."""
        write_atomic(path, json.dumps(self.to_json()), private=True)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """What was noted; None where there is nothing that can be read."""
        try:
            return cls.from_json(parse_object(path.read_bytes()))
        except (OSError, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class Note(Version):
    """A file that was fetched whole."""

    name: str = ""
    """The name of the file in its folder."""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Freshness:
    """Whether a file that is kept may be used."""

    same: bool = True
    warning: str | None = None
    """Set where nobody could be asked."""
