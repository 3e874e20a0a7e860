"""A release: bench, runs, checksums and licence notes in one folder, and the videos if asked.

Made so that anyone can replay an audit: the same files give the same numbers, and every logged timestamp names a frame.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from trace_ves._version import __version__
from trace_ves.core import InputError
from trace_ves.core.jsonl import dump_line
from trace_ves.core.strict_json import parse_object
from trace_ves.records.checksum import Checksum, ReleasedVideo, checksum
from trace_ves.records.run_configuration import read_configuration, write_configuration
from trace_ves.release.check import SUMS, VIDEOS, digest, files_in, stays_inside
from trace_ves.release.sbom import bill_of_materials
from trace_ves.release.scrub import Scrubber
from trace_ves.ves import audit, load_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trace_ves.benchmarks import Bench
    from trace_ves.ves import Run


BILL: Final = "sbom.cdx.json"
"""The software that made the release."""


@dataclass(frozen=True, slots=True)
class Release:
    """What was packed."""

    folder: Path
    files: int
    videos: int
    missing_videos: tuple[str, ...]
    """Videos of the bench that are not on this machine: named, without a checksum of our own."""


def make_release(bench: Bench, runs: Sequence[Run], out: Path, *, with_videos: bool, license_note: str) -> Release:
    """Pack a bench and runs into a new folder; the folder appears whole or not at all."""
    if bench.path is None or any(run.path is None for run in runs):
        raise InputError("a release needs a bench and runs that were read from files.")
    if out.exists():
        raise InputError(f"{out} exists already; give another folder.")
    for item in bench.items:
        if not stays_inside(item.question.video):
            raise InputError(
                f"question {item.question.id!r}: the video {item.question.video!r} lies outside the bench; a release "
                "names videos by their place below it."
            )
    scrubber = Scrubber([bench.path.parent, out.parent, *(run.path.parent for run in runs if run.path)])
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
            partial = Path(scratch) / "release"
            missing = _fill(partial, bench, runs, scrubber, with_videos=with_videos, license_note=license_note)
            partial.replace(out)
    except OSError as error:
        raise InputError(f"{out}: the release could not be written: {error.strerror or error}.") from None
    return Release(out, sum(1 for _ in files_in(out)), len(_videos(bench)), missing)


def _fill(
    partial: Path, bench: Bench, runs: Sequence[Run], scrubber: Scrubber, *, with_videos: bool, license_note: str
) -> tuple[str, ...]:
    """Write every file of a release; gives the videos that are missing here."""
    assert bench.path is not None  # noqa: S101  checked by the caller
    (partial / "runs").mkdir(parents=True)
    _copy_lines(bench.path, partial / "questions.jsonl", scrubber)
    for run in runs:
        _copy_run(run, partial / "runs", scrubber)
    if runs:
        packed = [replace(run, path=None, lines=()) for run in load_runs([partial / "runs"])]
        report = audit(bench.items, packed, left_out=bench.left_out)
        (partial / "AUDIT.txt").write_text(scrubber.text(f"{report}\n"), encoding="utf-8")
    missing = _pack_videos(bench, runs, partial, with_videos=with_videos)
    _write_words(partial, bench, runs, license_note, with_videos=with_videos)
    (partial / BILL).write_bytes(bill_of_materials())
    _write_sums(partial)
    return missing


def _videos(bench: Bench) -> list[str]:
    return list(dict.fromkeys(item.question.video for item in bench.items))


def _copy_run(run: Run, folder: Path, scrubber: Scrubber) -> None:
    assert run.path is not None  # noqa: S101  checked by the caller
    target = folder / run.path.name
    if target.exists():
        raise InputError(f"two runs are called {run.path.name}; give each a file name of its own.")
    _copy_lines(run.path, target, scrubber)
    if configuration := read_configuration(run.path):
        # Where the bench lay on this machine is nobody's business; in the release it lies one folder up.
        backbone = scrubber.text(configuration.backbone or "") or None
        write_configuration(target, replace(configuration, bench="../questions.jsonl", backbone=backbone))


def _copy_lines(source: Path, target: Path, scrubber: Scrubber) -> None:
    """Copy a file of JSON objects without this machine's paths; a line that has none keeps its bytes."""
    with source.open("rb") as lines, target.open("wb") as out:
        for raw in lines:
            if not raw.strip():
                continue
            try:
                record = parse_object(raw)
            except ValueError:
                continue  # a last line that was cut off; whoever read the file has said so
            released = scrubber.record(record)
            out.write(raw if released == record and raw.endswith(b"\n") else dump_line(released))


def _pack_videos(bench: Bench, runs: Sequence[Run], out: Path, *, with_videos: bool) -> tuple[str, ...]:
    """Note the checksum of every video, ours or else the one that a run noted; copy the files if asked."""
    assert bench.path is not None  # noqa: S101  checked by the caller
    noted = _noted_checksums(bench, runs)
    lines, missing = [], []
    for name in _videos(bench):
        source = bench.path.parent / name
        found = checksum(source) if source.is_file() else None
        known = noted.get(name, set()) | ({found} if found else set())
        if len(known) > 1:
            raise InputError(f"{source} is not the video that the runs were made on; their checksums differ.")
        if found is None:
            missing.append(name)
            if with_videos:
                raise InputError(f"{source} is missing; get the video, or release without videos.")
        elif with_videos:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, out / name)
        sure = next(iter(known), None)
        lines.append(ReleasedVideo(name, sure.bytes, sure.sha256) if sure else ReleasedVideo(name))
    (out / VIDEOS).write_bytes(b"".join(dump_line(line.to_json()) for line in lines))
    return tuple(missing)


def _noted_checksums(bench: Bench, runs: Iterable[Run]) -> dict[str, set[Checksum]]:
    video_of = {item.question.id: item.question.video for item in bench.items}
    found: dict[str, set[Checksum]] = {}
    for run in runs:
        for prediction in run.predictions:
            known = prediction.video_checksum
            if known is not None and prediction.question_id in video_of:
                found.setdefault(video_of[prediction.question_id], set()).add(known)
    return found


def _write_words(out: Path, bench: Bench, runs: Sequence[Run], license_note: str, *, with_videos: bool) -> None:
    words = files("trace_ves.release").joinpath("readme.md").read_text(encoding="utf-8")
    listed = "\n".join(f"- `runs/{run.path.name}`: {run.name}" for run in runs if run.path) or "- none"
    text = words.format(
        version=__version__,
        questions=len(bench.items),
        videos=len(_videos(bench)),
        runs=listed,
        with_videos="are in this folder" if with_videos else "are not in this folder",
    )
    (out / "README.md").write_text(text, encoding="utf-8")
    (out / "LICENSE.md").write_text(license_note, encoding="utf-8")


def _write_sums(out: Path) -> None:
    lines = [f"{digest(path)}  {path.relative_to(out).as_posix()}\n" for path in sorted(files_in(out))]
    (out / SUMS).write_text("".join(lines), encoding="utf-8")
