"""The bench format: a folder with `questions.jsonl`, or the jsonl itself, read with every fault named and counted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves.core.atomic import write_atomic
from trace_ves.core.errors import FormatError, InputError
from trace_ves.core.fields import DirtyEvidenceError, FieldError, as_name
from trace_ves.core.jsonl import dump_line, read_jsonl
from trace_ves.core.question import Item

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

QUESTIONS_FILE: Final = "questions.jsonl"


@dataclass(frozen=True, slots=True)
class Problem:
    """A question of an annotation file that could not be taken as it is, and why."""

    id: str
    reason: str
    where: str = ""
    """File and line, where the file has lines."""
    kept: bool = False
    """Whether the question stayed, without evidence; else it was left out."""

    def __str__(self) -> str:
        done = "kept without evidence" if self.kept else "left out"
        return f"{self.where + ': ' if self.where else ''}question {self.id!r}: {self.reason} ({done})"


@dataclass(frozen=True, slots=True)
class Bench:
    """The questions of a bench, and those that were left out of it."""

    items: tuple[Item, ...]
    problems: tuple[Problem, ...] = ()
    path: Path | None = None

    @property
    def left_out(self) -> frozenset[str]:
        """Ids of questions that stand in the file but not in `items`."""
        return frozenset(problem.id for problem in self.problems if not problem.kept)


def load_bench(
    path: str | os.PathLike[str], *, strict: bool = False, on_progress: Callable[[int, int], None] | None = None
) -> Bench:
    """Read a bench. Questions with dirty evidence are left out and counted; `strict` refuses them."""
    file = questions_file(Path(path))
    items: list[Item] = []
    problems: list[Problem] = []
    first_line: dict[str, int] = {}
    for line in read_jsonl(file, on_progress=on_progress):
        try:
            name = as_name("id", line.record.get("id"))
            if name in first_line:
                raise FieldError(f"question {name!r} already stands in line {first_line[name]}; ids must differ")
            first_line[name] = line.number
            item = Item.from_json(line.record)
        except DirtyEvidenceError as error:
            problem = Problem(str(line.record["id"]), str(error), f"{file}:{line.number}")
            refuse_if(strict, problem)
            problems.append(problem)
        except FieldError as error:
            raise FormatError(f"{error}.", path=file, line=line.number) from None
        else:
            items.append(item)
    if not items:
        raise InputError(f"{file}: no usable question in this file; a bench has one JSON object per line.")
    return Bench(tuple(items), tuple(problems), file)


def refuse_if(strict: bool, problem: Problem) -> None:
    """In strict reading a dirty question is an error."""
    if strict:
        where = f"{problem.where}: " if problem.where else ""
        raise InputError(f"{where}question {problem.id!r}: {problem.reason}; without --strict it would be left out.")


def questions_file(path: Path) -> Path:
    """The jsonl of a bench that is given as a folder or as the file itself."""
    file = path / QUESTIONS_FILE if path.is_dir() else path
    if not file.exists():
        raise InputError(f"{path}: no bench here; expected a folder with {QUESTIONS_FILE}, or such a file.")
    return file


def write_bench(items: Sequence[Item], out: Path, *, force: bool = False) -> Path:
    """Write a bench to a folder, or to a file where the name ends with .jsonl; the file appears whole or not at all."""
    file = out if out.suffix == ".jsonl" else out / QUESTIONS_FILE
    if file.exists() and not force:
        raise InputError(f"{file} exists already; give another place, or --force to replace it.")
    write_atomic(file, b"".join(dump_line(item.to_json()) for item in items))
    return file
