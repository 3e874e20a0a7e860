"""Whether a release is as it was packed: every file, nothing else, and every video that lies with it."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from trace_ves.core import InputError
from trace_ves.core.jsonl import read_jsonl
from trace_ves.records.checksum import ReleasedVideo
from trace_ves.records.record import FieldError

if TYPE_CHECKING:
    from collections.abc import Iterator

SUMS: Final = "SHA256SUMS"
VIDEOS: Final = "videos.jsonl"
REQUIRED: Final = ("questions.jsonl", VIDEOS, "README.md", "LICENSE.md")


def check_release(folder: Path) -> tuple[int, list[str]]:
    """How many files a release has or should have, and what is wrong with them: one sentence each."""
    sums = _read_sums(folder / SUMS)
    named = dict.fromkeys((*sums, *REQUIRED))
    wrong = [f"{name}: {reason}" for name in named if (reason := _fault(folder, name, sums.get(name)))]
    trusted = not any(sentence.startswith(f"{VIDEOS}: ") for sentence in wrong)
    videos = _noted_videos(folder / VIDEOS) if trusted else {}
    added = sorted({path.relative_to(folder).as_posix() for path in files_in(folder)} - named.keys() - {SUMS})
    for name in added:
        expected = videos.get(name)  # a release without videos takes those that are put beside it
        if expected is None or (folder / name).is_symlink() or digest(folder / name) != expected:
            wrong.append(f"{name}: is not a file of this release")
    return len(named) + len(added), wrong


def files_in(folder: Path) -> Iterator[Path]:
    """Every file below a folder; a link counts as a file, wherever it leads."""
    for parent, folders, names in os.walk(folder):
        yield from (Path(parent) / name for name in names)
        yield from (Path(parent) / name for name in folders if (Path(parent) / name).is_symlink())


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def stays_inside(name: str) -> bool:
    """Whether a name, as it stands in a release or a bench, leads to a file below its folder."""
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts


def _read_sums(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(f"{path}: cannot be read: {reason}; is this a release?") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        match = re.fullmatch(r"([0-9a-f]{64})  (.+)", line)
        if match is None or match[2] in found:
            raise InputError(f"{path}:{number}: expected a SHA-256 and a file name, each file once.")
        found[match[2]] = match[1]
    return found


def _fault(folder: Path, name: str, expected: str | None) -> str | None:
    """What is wrong with one file of a release."""
    if not stays_inside(name):
        return "leads out of the release"
    path = folder / name
    if path.is_symlink() or any((folder / part).is_symlink() for part in PurePosixPath(name).parents):
        return "is a link"
    if not path.is_file():
        return "is missing"
    if expected is None:
        return f"is not named in {SUMS}"
    return None if digest(path) == expected else "differs from what was released"


def _noted_videos(path: Path) -> dict[str, str]:
    """The SHA-256 of each video that the release names."""
    try:
        named = [ReleasedVideo.from_json(line.record) for line in read_jsonl(path)]
    except FieldError as error:
        raise InputError(f"{path}: {error}; it is not what trace-ves release wrote.") from None
    return {each.video: each.sha256 for each in named if each.sha256 is not None}
