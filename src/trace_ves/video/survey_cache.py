"""Surveys kept on disk, so that a file that was slow to survey is surveyed once. Losing them costs only time.

A checksum, a line of JSON, then the columns one after the other: one value where all are the same, in small types.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np

from trace_ves.core.files import atomic_path, cache_dir, drop_oldest
from trace_ves.video.container import PacketTable
from trace_ves.video.index import make_index
from trace_ves.video.picture import Orientation
from trace_ves.video.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_VERSION: Final = 4
"""Goes up whenever a survey would come out differently."""
_MAX_BYTES: Final = 256 << 20
_PACKET_COLUMNS: Final = tuple(column.name for column in fields(PacketTable))
_OF_PACKETS: Final = {*_PACKET_COLUMNS, "checksums"}
"""Columns with a value for each packet; the others have one for each shown frame, and no two of them are the same."""


def load(path: Path) -> Survey | None:
    """The survey of this very file; None where there is none, or none that can be read."""
    try:
        checksum, _, text = _file(path).read_bytes().partition(b"\n")
        if int(checksum) != zlib.crc32(text):
            return None
        head, _, content = text.partition(b"\n")
        facts = json.loads(head)
        stored = _unpacked(content, facts["columns"], int(facts["packets"]))
        shown_pts, shown_packet = stored["shown_pts"], stored["shown_packet"]
        packets = PacketTable(*(stored[column] for column in _PACKET_COLUMNS))
        rate = Fraction(facts["rate"])
        index = make_index(packets, Fraction(facts["time_base"]), shown_pts, shown_packet, rate)
        return Survey(
            stream_index=int(facts["stream_index"]),
            codec=str(facts["codec"]),
            width=int(facts["width"]),
            height=int(facts["height"]),
            orientation=Orientation(**facts["orientation"]),
            index=index,
            rate=rate,
            warnings=tuple(facts["warnings"]),
            checksums=stored.get("checksums"),
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError, ZeroDivisionError, RecursionError):
        return None


def save(path: Path, survey: Survey) -> None:
    """Keep the survey of this file, and drop the oldest ones where all together take too much room."""
    index = survey.index
    columns: dict[str, NDArray[Any]] = {column: getattr(index.packets, column) for column in _PACKET_COLUMNS}
    columns |= {"shown_pts": index.pts, "shown_packet": index.packet}
    if survey.checksums is not None:
        columns["checksums"] = survey.checksums
    packed = {name: _packed(column) for name, column in columns.items()}
    content = b"".join(column.tobytes() for column in packed.values())
    facts = {
        "stream_index": survey.stream_index,
        "codec": survey.codec,
        "width": survey.width,
        "height": survey.height,
        "orientation": asdict(survey.orientation),
        "time_base": str(index.time_base),
        "rate": str(survey.rate),
        "warnings": survey.warnings,
        "packets": len(index.packets),
        "columns": [[name, column.dtype.str, len(column)] for name, column in packed.items()],
    }
    text = json.dumps(facts).encode() + b"\n" + content
    try:
        target = _file(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target, private=True) as partial, partial.open("wb") as file:
            file.write(b"%d\n" % zlib.crc32(text))
            file.write(text)
        drop_oldest(target.parent, most_bytes=_MAX_BYTES)
    except OSError:
        return  # a full or read-only disk must not keep anybody from the video


def _packed(column: NDArray[Any]) -> NDArray[Any]:
    """The column in few bytes: a single value where all are the same, else the smallest type that holds them."""
    if not len(column):
        return column
    least, most = column.min(), column.max()
    if least == most:
        return column[:1]
    return column.astype(np.promote_types(np.min_scalar_type(least), np.min_scalar_type(most)))


def _unpacked(content: bytes, columns: Sequence[tuple[str, str, int]], packets: int) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    at = 0
    for name, kind, count in columns:
        packed = np.frombuffer(content, kind, count, at)
        at += packed.nbytes
        whole = packed.astype(np.bool_ if packed.dtype == np.bool_ else np.int64)
        found[name] = whole.repeat(packets) if count == 1 and name in _OF_PACKETS else whole
    if any(len(found.get(name, ())) != packets for name in _PACKET_COLUMNS):
        raise ValueError("columns of different lengths")
    return found


def _file(path: Path) -> Path:
    """Where the survey of this file is kept; another file, another change or another decoder is another name."""
    status = path.stat()
    identity = (_VERSION, str(path.absolute()), status.st_size, status.st_mtime_ns, sorted(av.library_versions.items()))
    return cache_dir() / "video-index" / f"{hashlib.sha256(repr(identity).encode()).hexdigest()}.survey"
