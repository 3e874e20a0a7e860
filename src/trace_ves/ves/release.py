"""A release: bench, runs, checksums and licence notes in one folder, so that anyone can repeat an audit."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from trace_ves._version import __version__
from trace_ves.benches.bench import RELEASE_SUMS, stays_inside
from trace_ves.core import InputError
from trace_ves.core.files import refuse_inputs
from trace_ves.core.jsonl import dump_line, parse_object, read_jsonl
from trace_ves.records.base import FieldError
from trace_ves.records.disk_cache import Checksum, ReleasedVideo, checksum
from trace_ves.records.run_file import read_configuration, write_configuration
from trace_ves.ves import Run, audit, load_runs

if TYPE_CHECKING:
    from trace_ves.benches import Bench

VIDEOS: Final = "videos.jsonl"
REQUIRED: Final = ("questions.jsonl", VIDEOS, "README.md", "LICENSE.md")


def check_release(folder: Path) -> tuple[int, list[str]]:
    """Check a release; returns the number of its files, and a clause for each problem."""
    sums = _read_sums(folder / RELEASE_SUMS)
    named = dict.fromkeys((*sums, *REQUIRED))
    problems = [f"{name}: {reason}" for name in named if (reason := _fault(folder, name, sums.get(name)))]
    trusted = not any(problem.startswith(f"{VIDEOS}: ") for problem in problems)
    videos: dict[str, str | None] = {}
    try:
        for line in read_jsonl(folder / VIDEOS) if trusted else ():
            video = ReleasedVideo.from_json(line.record)
            videos[video.video] = video.sha256
    except FieldError as error:
        raise InputError(f"{folder / VIDEOS}: {error}; this is not a file of trace-ves release.") from None
    extras = sorted({path.relative_to(folder).as_posix() for path in files_in(folder)} - named.keys() - {RELEASE_SUMS})
    for name in extras:
        expected = videos.get(name)  # videos may be added later to a release without videos
        if expected is None or (folder / name).is_symlink() or digest(folder / name) != expected:
            problems.append(f"{name}: is not a file of this release")
    return len(named) + len(extras), problems


def files_in(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder; links count as files."""
    for parent, folders, names in os.walk(folder):
        yield from (Path(parent) / name for name in names)
        yield from (Path(parent) / name for name in folders if (Path(parent) / name).is_symlink())


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_sums(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(f"{path}: cannot be read: {reason}; is this a release?") from None
    sums: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        match = re.fullmatch(r"([0-9a-f]{64})  (.+)", line)
        if match is None or match[2] in sums:
            raise InputError(f"{path}:{number}: expected a SHA-256 and a file name, each file once.")
        sums[match[2]] = match[1]
    return sums


def _fault(folder: Path, name: str, expected: str | None) -> str | None:
    """The problem of one file of a release; None if it has none."""
    if not stays_inside(name):
        return "leads out of the release"
    path = folder / name
    if path.is_symlink() or any((folder / part).is_symlink() for part in PurePosixPath(name).parents):
        return "is a link"
    if not path.is_file():
        return "is missing"
    if expected is None:
        return f"is not named in {RELEASE_SUMS}"
    return None if digest(path) == expected else "differs from what was released"


ELLIPSIS: Final = "…"

_ABSOLUTE: Final = re.compile(
    r"(?<![\w.:/\\~@…])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\:;,'\"<>|()]+[/\\])+(?=[^\s/\\:;,'\"<>|()])"
)
"""The folders of an absolute path of any system in a text; not a plain `/x` and not a URL."""


class Scrubber:
    """Replaces the folders of paths in texts with an ellipsis, and keeps the file names."""

    def __init__(self, folders: Iterable[Path]) -> None:
        own_folders = [
            Path.cwd(),
            Path.home(),
            Path(tempfile.gettempdir()),
            Path(sys.prefix),
            Path(sysconfig.get_path("purelib")),
        ]
        known = {str(each) for folder in (*folders, *own_folders) for each in (folder.absolute(), folder.resolve())}
        longest_first = sorted(known - {"/"}, key=len, reverse=True)
        self._folders = re.compile("|".join(rf"{re.escape(name)}(?![\w.-])" for name in longest_first))

    def text(self, text: str, *, quoted: bool = False) -> str:
        """Scrub this machine's folders from a text; with `quoted`, the folders of every absolute path."""
        scrubbed = self._folders.sub(ELLIPSIS, text)
        return _ABSOLUTE.sub(f"{ELLIPSIS}/", scrubbed) if quoted else scrubbed

    def record(self, record: Mapping[str, object]) -> dict[str, object]:
        """Scrub every text of a JSON object; texts under the keys in `QUOTING` may contain any path."""
        return {name: self._value(value, name) for name, value in record.items()}

    def _value(self, value: object, key: str) -> object:
        if isinstance(value, str):
            return self.text(value, quoted=key in QUOTING)
        if isinstance(value, dict):
            return self.record(value)
        if isinstance(value, list):
            return [self._value(each, key) for each in value]
        return value


QUOTING: Final = frozenset({"error", "fault", "exception", "traceback", "message", "reason"})
"""Keys whose texts quote other programs, with paths of the machine that they ran on."""


def make_release(
    bench: Bench, runs: Sequence[Run], out: Path, *, with_videos: bool, license_note: str
) -> tuple[int, list[str]]:
    """Pack a bench and runs into a new folder, which is created completely or not at all.

    Returns the number of its files, and the videos of the bench that are not on this machine.
    """
    paths = [run.path for run in runs if run.path is not None]
    if bench.path is None or len(paths) < len(runs):
        raise InputError("a release needs a bench and runs that were read from files.")
    if out.exists():
        raise InputError(f"{out} exists already; give another folder.")
    refuse_inputs([out], inputs=[bench.path, *bench.video_files(), *paths])
    for item in bench.items:
        if not stays_inside(item.question.video):
            raise InputError(
                f"question {item.question.id!r}: the video {item.question.video!r} is outside the bench; a release "
                "names videos relative to it."
            )
    scrubber = Scrubber([bench.path.parent, out.parent, *(path.parent for path in paths)])
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
            partial = Path(scratch) / "release"
            (partial / "runs").mkdir(parents=True)
            _copy_lines(bench.path, partial / "questions.jsonl", scrubber)
            for path in paths:
                _copy_run(path, partial / "runs", scrubber)
            if runs:
                packed = [replace(run, path=None, lines=()) for run in load_runs([partial / "runs"])]
                report = audit(bench.items, packed, left_out=bench.left_out)
                (partial / "AUDIT.txt").write_text(scrubber.text(f"{report}\n"), encoding="utf-8")
            missing = _pack_videos(bench, bench.path.parent, runs, partial, with_videos=with_videos)
            _write_readme(partial, bench, runs, license_note, with_videos=with_videos)
            sums = [f"{digest(path)}  {path.relative_to(partial).as_posix()}\n" for path in sorted(files_in(partial))]
            (partial / RELEASE_SUMS).write_text("".join(sums), encoding="utf-8")
            partial.replace(out)
    except OSError as error:
        raise InputError(f"{out}: the release could not be written: {error.strerror or error}.") from None
    return sum(1 for _ in files_in(out)), missing


def _videos(bench: Bench) -> list[str]:
    return list(dict.fromkeys(item.question.video for item in bench.items))


def _copy_run(run: Path, folder: Path, scrubber: Scrubber) -> None:
    target = folder / run.name
    if target.exists():
        raise InputError(f"two runs are called {run.name}; give each a different file name.")
    _copy_lines(run, target, scrubber)
    if configuration := read_configuration(run):
        # The bench's path on this machine is private; in the release, the bench is one folder up.
        backbone = scrubber.text(configuration.backbone or "") or None
        write_configuration(target, replace(configuration, bench="../questions.jsonl", backbone=backbone))


def _copy_lines(source: Path, target: Path, scrubber: Scrubber) -> None:
    """Copy a file of JSON objects without this machine's paths; lines without such paths are copied byte by byte."""
    with source.open("rb") as lines, target.open("wb") as out:
        for raw in lines:
            if not raw.strip():
                continue
            try:
                record = parse_object(raw)
            except ValueError:
                continue  # an incomplete last line; reading the run has warned about it
            scrubbed = scrubber.record(record)
            out.write(raw if scrubbed == record and raw.endswith(b"\n") else dump_line(scrubbed))


def _pack_videos(bench: Bench, folder: Path, runs: Sequence[Run], out: Path, *, with_videos: bool) -> list[str]:
    """List the videos with checksums of the files or of the runs; with `with_videos`, copy the files."""
    recorded = _run_checksums(bench, runs)
    lines, missing = [], []
    for name in _videos(bench):
        source = folder / name
        actual = checksum(source) if source.is_file() else None
        known = recorded.get(name, set()) | ({actual} if actual else set())
        if len(known) > 1:
            raise InputError(f"{source} is not the video that the runs were made on; their checksums differ.")
        if actual is None:
            missing.append(name)
            if with_videos:
                raise InputError(f"{source} is missing; get the video, or release without videos.")
        elif with_videos:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, out / name)
        checked = next(iter(known), None)
        lines.append(ReleasedVideo(name, checked.bytes, checked.sha256) if checked else ReleasedVideo(name))
    (out / VIDEOS).write_bytes(b"".join(dump_line(line.to_json()) for line in lines))
    return missing


def _run_checksums(bench: Bench, runs: Iterable[Run]) -> dict[str, set[Checksum]]:
    videos = {item.question.id: item.question.video for item in bench.items}
    checksums: dict[str, set[Checksum]] = defaultdict(set)
    for prediction in (each for run in runs for each in run.predictions):
        if prediction.video_checksum is not None and prediction.question_id in videos:
            checksums[videos[prediction.question_id]].add(prediction.video_checksum)
    return checksums


def _write_readme(out: Path, bench: Bench, runs: Sequence[Run], license_note: str, *, with_videos: bool) -> None:
    template = files("trace_ves.ves").joinpath("readme.md").read_text(encoding="utf-8")
    run_list = "\n".join(f"- `runs/{run.path.name}`: {run.name}" for run in runs if run.path) or "- none"
    text = template.format(
        version=__version__,
        questions=len(bench.items),
        videos=len(_videos(bench)),
        runs=run_list,
        with_videos="are in this folder" if with_videos else "are not in this folder",
    )
    (out / "README.md").write_text(text, encoding="utf-8")
    (out / "LICENSE.md").write_text(license_note, encoding="utf-8")
