"""Surveys kept on disk, so that a file that was slow to survey is surveyed once."""

from __future__ import annotations

from dataclasses import asdict, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import av

from trace_ves.records.disk_cache import Facts, identify, load_facts, save_facts
from trace_ves.video.container import PacketTable
from trace_ves.video.index import make_index
from trace_ves.video.picture import Orientation
from trace_ves.video.survey import Survey

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_VERSION: Final = 5  # goes up whenever a survey would come out differently
_FOLDER: Final = "video-index"
_PACKET_COLUMNS: Final = tuple(column.name for column in fields(PacketTable))


def load(path: Path) -> Survey | None:
    """The survey of this very file; None where there is none, or none that can be read."""
    try:
        facts = load_facts(_FOLDER, _key(path))
    except OSError:  # opening the file will say what is wrong with it
        facts = None
    if facts is None:
        return None
    values, columns = facts.values, facts.columns
    packets = PacketTable(*(columns[name] for name in _PACKET_COLUMNS))
    rate = Fraction(values["rate"])
    return Survey(
        stream_index=values["stream_index"],
        codec=values["codec"],
        width=values["width"],
        height=values["height"],
        orientation=Orientation(**values["orientation"]),
        index=make_index(packets, Fraction(values["time_base"]), columns["shown_pts"], columns["shown_packet"], rate),
        rate=rate,
        warnings=tuple(values["warnings"]),
        checksums=columns.get("checksums"),
    )


def save(path: Path, survey: Survey) -> None:
    """Keep the survey of this file."""
    index = survey.index
    columns: dict[str, NDArray[Any]] = {column: getattr(index.packets, column) for column in _PACKET_COLUMNS}
    columns |= {"shown_pts": index.pts, "shown_packet": index.packet}
    if survey.checksums is not None:
        columns["checksums"] = survey.checksums
    values = {
        "stream_index": survey.stream_index,
        "codec": survey.codec,
        "width": survey.width,
        "height": survey.height,
        "orientation": asdict(survey.orientation),
        "time_base": str(index.time_base),
        "rate": str(survey.rate),
        "warnings": survey.warnings,
    }
    save_facts(_FOLDER, _key(path), Facts(values, columns))


def _key(path: Path) -> list[object]:
    """Another file, another change or another decoder is another key."""
    return [_VERSION, identify(path), sorted(av.library_versions.items())]
