"""Which tool wrote a file, by what is in it, and the files that are written for each tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.construction.interchange import cvat, elan, label_studio
from trace_ves.construction.interchange.spans import MOST_SPANS, read_bytes
from trace_ves.core import InputError
from trace_ves.core.jsonl import DECODER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from trace_ves.construction.interchange.spans import ExportedVideo, LabelledSpan


def read_spans(path: Path) -> list[LabelledSpan]:
    """The labelled spans of a file of Label Studio, CVAT or ELAN."""
    content = read_bytes(path)
    start = content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"<":
        is_elan = elan.ROOT.encode() in content[:4096]
        found = elan.read(path, content) if is_elan else cvat.read(path, content)
    elif start in {b"[", b"{"}:
        found = _read_json(path, content)
    else:
        raise InputError(f"{path}: neither XML nor JSON; give an export of Label Studio (JSON), CVAT or ELAN (.eaf).")
    if len(found) > MOST_SPANS:
        raise InputError(f"{path}: {len(found):,} spans; at most {MOST_SPANS:,} are read.")
    if not found:
        raise InputError(f"{path}: no labelled span in this file.")
    return found


def _read_json(path: Path, content: bytes) -> list[LabelledSpan]:
    try:
        value = DECODER.decode(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"{path}: not valid JSON: {reason}.") from None
    first = value[0] if isinstance(value, list) and value else value
    is_backup = isinstance(first, dict) and ("tracks" in first or "shapes" in first) and "data" not in first
    return cvat.read_backup(path, value) if is_backup else label_studio.read(path, value)


def _label_studio_files(videos: Sequence[ExportedVideo]) -> dict[str, bytes]:
    return {
        "label-studio.json": label_studio.write(videos),
        "label-studio-config.xml": label_studio.write_configuration(videos),
    }


def _cvat_files(videos: Sequence[ExportedVideo]) -> dict[str, bytes]:
    return {f"{_file_name(video)}.xml": cvat.write(video) for video in videos}


def _elan_files(videos: Sequence[ExportedVideo]) -> dict[str, bytes]:
    return {f"{_file_name(video)}.eaf": elan.write(video) for video in videos}


def _file_name(video: ExportedVideo) -> str:
    return video.name.partition("/")[2].replace("/", "__")


WRITERS: Final[dict[str, Callable[[Sequence[ExportedVideo]], dict[str, bytes]]]] = {
    "label-studio": _label_studio_files,
    "cvat": _cvat_files,
    "elan": _elan_files,
}
"""For each tool, the files by name."""
