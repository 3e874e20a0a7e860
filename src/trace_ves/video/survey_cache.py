"""Surveys kept on disk, so that a file that was slow to survey is surveyed once. Losing them costs only time."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Final
from zipfile import BadZipFile

import av
import numpy as np

from trace_ves.core.atomic import atomic_path
from trace_ves.core.folders import cache_dir
from trace_ves.video.index import make_index
from trace_ves.video.packets import PacketTable
from trace_ves.video.picture import Orientation
from trace_ves.video.survey import Survey

if TYPE_CHECKING:
    from pathlib import Path

_VERSION: Final = 3
"""Goes up whenever a survey would come out differently."""
_MAX_BYTES: Final = 256 << 20
_PACKET_COLUMNS: Final = tuple(column.name for column in fields(PacketTable))


def load(path: Path) -> Survey | None:
    """The survey of this very file; None where there is none, or none that can be read."""
    try:
        with _file(path).open("rb") as file, np.load(file, allow_pickle=False) as stored:
            facts = json.loads(str(stored["facts"]))
            packets = PacketTable(*(stored[column] for column in _PACKET_COLUMNS))
            checksums = stored.get("checksums")
            rate = Fraction(facts["rate"])
            index = make_index(packets, Fraction(facts["time_base"]), stored["shown_pts"], stored["shown_packet"], rate)
        return Survey(
            stream_index=int(facts["stream_index"]),
            codec=str(facts["codec"]),
            width=int(facts["width"]),
            height=int(facts["height"]),
            orientation=Orientation(**facts["orientation"]),
            index=index,
            rate=rate,
            warnings=tuple(facts["warnings"]),
            checksums=checksums,
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, ZeroDivisionError, BadZipFile):
        return None


def save(path: Path, survey: Survey) -> None:
    """Keep the survey of this file, and drop the oldest ones where all together take too much room."""
    index = survey.index
    facts = {
        "stream_index": survey.stream_index,
        "codec": survey.codec,
        "width": survey.width,
        "height": survey.height,
        "orientation": asdict(survey.orientation),
        "time_base": str(index.time_base),
        "rate": str(survey.rate),
        "warnings": survey.warnings,
    }
    columns = {column: getattr(index.packets, column) for column in _PACKET_COLUMNS}
    if survey.checksums is not None:
        columns["checksums"] = survey.checksums
    try:
        target = _file(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target, private=True) as partial, partial.open("wb") as file:
            np.savez(
                file,
                allow_pickle=False,
                facts=np.array(json.dumps(facts)),
                shown_pts=index.pts,
                shown_packet=index.packet,
                **columns,
            )
        _prune(target.parent)
    except OSError:
        return  # a full or read-only disk must not keep anybody from the video


def _file(path: Path) -> Path:
    """Where the survey of this file is kept; another file, another change or another decoder is another name."""
    status = path.stat()
    identity = (_VERSION, str(path.absolute()), status.st_size, status.st_mtime_ns, sorted(av.library_versions.items()))
    return cache_dir() / "video-index" / f"{hashlib.sha256(repr(identity).encode()).hexdigest()}.npz"


def _prune(folder: Path) -> None:
    kept: list[tuple[float, int, Path]] = []
    for file in folder.iterdir():
        with contextlib.suppress(OSError):  # another process may prune the same folder
            status = file.stat()
            kept.append((status.st_mtime, status.st_size, file))
    total = sum(size for _, size, _ in kept)
    for _, size, file in sorted(kept):
        if total <= _MAX_BYTES:
            break
        with contextlib.suppress(OSError):
            file.unlink()
        total -= size
