"""The bench format: a folder with `questions.jsonl`, or such a file."""

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from trace_ves.core.display import count_words
from trace_ves.core.errors import FormatError, InputError
from trace_ves.core.files import write_atomic
from trace_ves.core.jsonl import dump_line, read_jsonl
from trace_ves.records.base import Count, FieldError, Flag, Name, Number, SparseRecord
from trace_ves.records.item import END_SLACK_SECONDS, BenchLine, DirtyEvidenceError, Item

QUESTIONS_FILE: Final = "questions.jsonl"
RELEASE_SUMS: Final = "SHA256SUMS"  # marks a folder as a release, which is untrusted


@dataclass(frozen=True, slots=True)
class BenchProblem:
    """A question with a problem, and the reason."""

    id: str
    reason: str
    where: str = ""  # file and line, if known
    kept: bool = False  # whether the question stays in the bench without evidence

    def __str__(self) -> str:
        outcome = "kept without evidence" if self.kept else "left out"
        return f"{self.where + ': ' if self.where else ''}question {self.id!r}: {self.reason} ({outcome})"


@dataclass(frozen=True, slots=True)
class Bench:
    """The questions of a bench, and the problems of others."""

    items: tuple[Item, ...]
    problems: tuple[BenchProblem, ...] = ()
    path: Path | None = None
    slack: tuple[str, ...] = ()
    """Ids of questions whose evidence exceeds the video by no more than a rounding error."""
    guess: str = ""  # an assumption about an unpublished format, as a sentence

    @property
    def left_out(self) -> frozenset[str]:
        """Ids of questions that are in the file but not in `items`."""
        return frozenset(problem.id for problem in self.problems if not problem.kept)

    @property
    def outside(self) -> list[str]:
        """Videos outside the folder of the bench."""
        return [name for name in dict.fromkeys(item.question.video for item in self.items) if not stays_inside(name)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems that do not stop the import, one sentence each."""
        warnings = [*filter(None, [self.guess]), *(f"{problem}." for problem in self.problems)]
        if self.left_out:
            were = "was" if len(self.left_out) == 1 else "were"
            warnings.append(f"{self.path}: {count_words(len(self.left_out), 'question')} {were} left out of the bench.")
        if self.slack:
            warnings.append(
                f"{self.path}: the evidence of {len(self.slack)} questions exceeds the video by up to "
                f"{END_SLACK_SECONDS:g} s ({', '.join(self.slack[:3])}{', …' if len(self.slack) > 3 else ''}); "
                "it was taken as rounding."
            )
        return tuple(warnings)

    def video_files(self) -> list[Path]:
        """The path of each video of the bench."""
        folder = self.path.parent if self.path else Path()
        return [folder / name for name in dict.fromkeys(item.question.video for item in self.items)]


def load_bench(
    path: str | os.PathLike[str], *, strict: bool = False, on_progress: Callable[[int, int], None] | None = None
) -> Bench:
    """Read a bench. Questions with invalid evidence are left out and counted; `strict` refuses them."""
    file = questions_file(Path(path))
    with suppress(OSError), file.open("rb") as stream:
        if stream.read(1024).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):  # a common mistake
            raise InputError(
                f"{file}: this is a JSON array; a bench has one JSON object per line, without brackets and commas "
                "around them. `trace-ves import` reads the arrays of published benchmarks."
            )
    items: list[Item] = []
    problems: list[BenchProblem] = []
    slack: list[str] = []
    first_line: dict[str, int] = {}
    durations: dict[str, tuple[float, int]] = {}
    is_release = (file.parent / RELEASE_SUMS).exists()
    for line in read_jsonl(file, on_progress=on_progress):
        try:
            bench_line = BenchLine.from_json(line.record)
            name = bench_line.id
            if name in first_line:
                raise FieldError(f"question {name!r} is already on line {first_line[name]}; ids must differ")
            first_line[name] = line.number
            item = bench_line.item()
            if is_release and not stays_inside(item.question.video):
                raise FieldError(f"the video {item.question.video!r} lies outside this release")
            _refuse_second_duration(item, line.number, durations)
        except DirtyEvidenceError as error:
            problem = BenchProblem(str(line.record["id"]), str(error), f"{file}:{line.number}")
            refuse_if(strict, problem)
            problems.append(problem)
        except FieldError as error:
            raise FormatError(f"{error}.", path=file, line=line.number) from None
        else:
            if bench_line.passes_an_end:
                slack.append(name)
            items.append(item)
    if not items:
        reason = f"the first: {problems[0]}" if problems else "a bench has one JSON object per line"
        raise InputError(f"{file}: no usable question in this file; {reason}.")
    return Bench(tuple(items), tuple(problems), file, tuple(slack))


def stays_inside(name: str) -> bool:
    """Whether a relative path stays inside its folder."""
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts


def _refuse_second_duration(item: Item, line: int, durations: dict[str, tuple[float, int]]) -> None:
    """Refuse different durations for one video, except for rounding."""
    first, first_line = durations.setdefault(item.question.video, (item.duration, line))
    if math.isfinite(first) and math.isfinite(item.duration) and abs(first - item.duration) > item.slack_seconds:
        raise FieldError(
            f"the video {item.question.video!r} has {item.duration:g} s here and {first:g} s in line {first_line}; "
            "all lines must give a video the same duration"
        )


def refuse_if(strict: bool, problem: BenchProblem) -> None:
    """Raise the problem as an error in strict mode."""
    if strict:
        where = f"{problem.where}: " if problem.where else ""
        raise InputError(f"{where}question {problem.id!r}: {problem.reason}; without --strict it would be left out.")


def questions_file(path: Path) -> Path:
    """The jsonl file of a bench: the path itself, or the file in this folder."""
    file = path / QUESTIONS_FILE if path.is_dir() else path
    if not file.exists():
        raise InputError(f"{path}: no bench here; expected a folder with {QUESTIONS_FILE}, or such a file.")
    return file


def bench_file(out: Path) -> Path:
    """The file to write a bench to: the path itself if it ends with .jsonl, else a file in this folder."""
    return out if out.suffix == ".jsonl" else out / QUESTIONS_FILE


def write_bench(items: Sequence[Item], out: Path, *, force: bool = False) -> Path:
    """Write a bench atomically to a folder, or to a file if the name ends with .jsonl."""
    file = bench_file(out)
    if file.exists() and not force:
        raise InputError(f"{file} exists already; choose another place, or overwrite it with --force.")
    write_atomic(file, b"".join(dump_line(item.to_json()) for item in items))
    return file


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededVideo(SparseRecord):
    """A video of a bench."""

    video: Name
    """Its path, relative to the folder of the bench."""
    questions: Count
    duration: Number | None = None
    """Seconds, from the bench."""
    url: str | None = None
    """Its source according to the bench; nothing is downloaded."""
    there: Flag
    bytes: Count | None = None
    """Its size, if it exists."""
    problem: str | None = None
    """The problem of the existing file, if it was checked."""


def list_videos(items: Sequence[Item], folder: Path) -> list[NeededVideo]:
    """List the videos of these questions, in order of first use."""
    needed: dict[str, NeededVideo] = {}
    for item in items:
        name, url = item.question.video, item.extra.get("url")
        if name in needed:
            needed[name] = replace(needed[name], questions=needed[name].questions + 1)
            continue
        size = (folder / name).stat().st_size if (folder / name).is_file() else None
        needed[name] = NeededVideo(
            video=name,
            questions=1,
            duration=item.duration if math.isfinite(item.duration) else None,
            url=url if isinstance(url, str) else None,
            there=bool(size),
            bytes=size,
            problem="empty file" if size == 0 else None,
        )
    return list(needed.values())


def summarise_videos(videos: Sequence[NeededVideo]) -> str:
    """Count the videos in one sentence."""
    there = sum(video.there for video in videos)
    megabytes = sum(video.bytes or 0 for video in videos) / 1e6
    faulty = sum(video.problem is not None for video in videos)
    needed, missing = count_words(len(videos), "video"), len(videos) - there
    text = f"{needed} needed, {there} found ({megabytes:,.0f} MB), {missing} missing"
    return text + (f", {faulty} with a problem." if faulty else ".")


# --- models that helped to build a bench ----------------------------------------------------------

CONSTRUCTION_FILE: Final = "construction.json"  # the report of `trace-ves build` in an exported bench


def model_of(spec: str) -> str:
    """The model of a spec; `openai:Qwen/Qwen3-VL-8B@http://…` and `hf:qwen3-vl-8b` have the same one."""
    scheme, colon, rest = spec.partition(":")
    name = rest.partition("@")[0] if colon else scheme
    return name.rstrip("/").rpartition("/")[2].casefold()


def overlap_warning(audited: Iterable[str], spec: str, doing: str) -> str | None:
    """A warning if a construction backbone is also audited, else None."""
    same = next((each for each in audited if model_of(each) == model_of(spec)), None)
    if same is None:
        return None
    return f"{spec} is used for {doing} and is also audited ({same}); audit no model on a bench that it helped to build"


def construction_warnings(bench: Path, audited: Sequence[str]) -> list[str]:
    """Warnings about audited backbones that helped to build this bench."""
    try:
        used = json.loads(questions_file(bench).with_name(CONSTRUCTION_FILE).read_text(encoding="utf-8"))["backbones"]
        pairs = [(str(stage), str(spec)) for stage, specs in used.items() for spec in specs]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    warnings = (overlap_warning(audited, spec, f"this bench's {stage}") for stage, spec in pairs)
    return [warning for warning in warnings if warning]
