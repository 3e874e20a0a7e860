"""What the page shows: the runs of a folder as they grow, the questions they answer, and the audit of it all.

Knows no HTTP. Gold answers and evidence may be absent, for a single question or for all of them.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trace_ves.core import Question, TraceVesError
from trace_ves.core.simulation import simulation_notes
from trace_ves.records.record import FieldError
from trace_ves.records.run_index import RunIndex
from trace_ves.ves import Run, audit
from trace_ves.ves.metrics import HEADLINE_DENSITY
from trace_ves.ves.rows import AuditRow, row_of_prediction
from trace_ves.ves.runs import distinct_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trace_ves.core import Interval
    from trace_ves.records import Item, Prediction
    from trace_ves.ves import AuditReport

LOOK_AGAIN_SECONDS: Final = 0.3
"""The folder is not looked at more often than this, however many requests come."""
MOST_UNKNOWN_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class QuestionInfo:
    """What the page knows about a question."""

    question: Question
    duration: float | None = None
    item: Item | None = None
    """The question with its gold answer and evidence; None where they are not known."""

    @classmethod
    def of_item(cls, item: Item) -> QuestionInfo:
        """What a bench says about a question."""
        return cls(item.question, item.duration if math.isfinite(item.duration) else None, item)

    @property
    def answer(self) -> str | None:
        """The gold answer."""
        return self.item.answer if self.item else None

    @property
    def evidence(self) -> tuple[Interval, ...]:
        """The intervals that the answer depends on."""
        return self.item.evidence if self.item else ()


@dataclass(frozen=True, slots=True)
class Listed:
    """One question of one run, as lists and filters see it."""

    info: QuestionInfo
    prediction: Prediction | None = None
    """Without its heavy parts; None where the run has not answered yet."""
    row: AuditRow | None = None
    """None where there is nothing to score, or nothing that could be scored."""
    problem: str = ""
    """Why the line could not be scored."""

    @property
    def bucket(self) -> str:
        """Which of `BUCKETS` it belongs to."""
        if self.prediction is None:
            return "open"
        if self.row is None:
            return "unscored"
        if not self.row.correct:
            return "wrong"
        if not self.info.evidence:
            return "right"
        return "covered" if self.row.density >= HEADLINE_DENSITY else "uncovered"

    @property
    def density(self) -> int | None:
        """Frames in the least observed evidence interval."""
        return self.row.density if self.row is not None and self.info.evidence else None


class Library:
    """The runs of one folder. Threads may share it."""

    def __init__(
        self, runs_folder: Path, questions: Mapping[str, QuestionInfo], roots: Sequence[Path], videos: Path | None
    ) -> None:
        self.questions: Final = questions
        self.runs: dict[str, RunIndex] = {}
        self.version = 0
        """Grows whenever something in the folder changes."""
        self.home = "Runs"
        """What the start page is called."""
        self._folder = runs_folder
        self._roots = tuple(root.resolve() for root in roots)
        self._videos = videos
        self._looked = -math.inf
        self._lock = threading.RLock()
        self._listed: dict[str, tuple[int, dict[str, Listed]]] = {}
        self._states: tuple[int, dict[str, RunState]] = (-1, {})
        self._audits: dict[bool, tuple[int, Audited]] = {}

    @property
    def folder_name(self) -> str:
        """What the folder is called."""
        return self._folder.resolve().name

    def refresh(self, *, now: bool = False) -> int:
        """Look at the folder again, unless that was done a moment ago and it need not be `now`; gives the version."""
        with self._lock:
            if not now and time.monotonic() - self._looked < LOOK_AGAIN_SECONDS:
                return self.version
            paths = {path.name.removesuffix(".jsonl"): path for path in sorted(self._folder.glob("*.jsonl"))}
            inside = {key: path for key, path in paths.items() if path.name != "questions.jsonl" and self.allows(path)}
            changed = inside.keys() != self.runs.keys()
            self.runs = {key: self.runs.get(key) or RunIndex(path) for key, path in inside.items()}
            for run in self.runs.values():
                changed |= run.refresh()
            self.version += changed
            self._looked = time.monotonic()
            return self.version

    def allows(self, path: Path) -> bool:
        """Whether a file, wherever its links lead, lies in one of the folders that were given."""
        try:
            real = path.resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            return False
        return real.is_file() and any(real.is_relative_to(root) for root in self._roots)

    def video_of(self, info: QuestionInfo) -> Path | None:
        """The file of a question's video, None where there is none inside the folders that were given."""
        if self._videos is None or not info.question.video or "\0" in info.question.video:
            return None
        path = self._videos / info.question.video
        return path.resolve() if self.allows(path) else None

    def info(self, question_id: str) -> QuestionInfo:
        """What is known about a question; outside of the bench, only its id."""
        return self.questions.get(question_id) or QuestionInfo(Question(question_id, "", ""))

    def listed(self, key: str) -> dict[str, Listed]:
        """Every question of a run: those of the bench in its order, then those that the bench does not know."""
        with self._lock:
            run = self.runs[key]
            known = self._listed.get(key)
            if known is None or known[0] != run.generation:
                ids = dict.fromkeys((*self.questions, *run.entries))
                known = run.generation, {name: self._scored(run, name) for name in ids}
                self._listed[key] = known
            return known[1]

    def _scored(self, run: RunIndex, question_id: str) -> Listed:
        info, entry = self.info(question_id), run.entries.get(question_id)
        if entry is None:
            return Listed(info)
        if info.item is None:
            return Listed(info, entry.prediction)
        try:
            return Listed(info, entry.prediction, row_of_prediction(info.item, entry.prediction))
        except FieldError as error:
            return Listed(info, entry.prediction, problem=f"{run.path.name}:{entry.line}: {error}")

    def states(self) -> dict[str, RunState]:
        """How far each run has come, by its key."""
        with self._lock:
            if self._states[0] != self.version:
                found = {key: _state(run, self.listed(key)) for key, run in self.runs.items()}
                self._states = self.version, found
            return self._states[1]

    def audit(self, *, common: bool = False) -> Audited:
        """The audit of all runs; with `common`, over the questions that every run has answered."""
        with self._lock:
            known = self._audits.get(common)
            if known is None or known[0] != self.version:
                known = self.version, self._audited(common=common)
                self._audits[common] = known
            return known[1]

    def _audited(self, *, common: bool) -> Audited:
        listed = {key: self.listed(key) for key in self.runs}
        items = [info.item for info in self.questions.values() if info.item is not None]
        if common:
            items = [item for item in items if all(rows[item.question.id].row for rows in listed.values())]
        wanted = {item.question.id for item in items}
        runs = {}
        for key, rows in listed.items():
            scored = [each.prediction for name, each in rows.items() if each.row and each.prediction and name in wanted]
            if scored:
                runs[key] = _run(self.runs[key], scored)
        named = distinct_names(list(runs.values()))
        keys = {run.name: key for key, run in zip(runs, named, strict=True)}
        if not named:
            return Audited()
        try:
            return Audited(audit(items, named), keys)
        except TraceVesError as error:
            return Audited(keys=keys, problem=str(error))


@dataclass(frozen=True, slots=True)
class RunState:
    """How far a run has come, and what was wrong with its file."""

    method: str
    backbone: str
    answered: int
    """Questions with a line, of those that are shown."""
    questions: int
    right: int
    scored: int
    errors: int
    frames: int
    """Frames supplied over all questions."""
    unknown: tuple[str, ...]
    """Ids that are not in the bench."""
    problems: tuple[str, ...]
    problem_count: int
    is_torn: bool
    modified: float

    @property
    def accuracy(self) -> float | None:
        """Percent of the answers so far that are right."""
        return 100 * self.right / self.scored if self.scored else None

    @property
    def simulation(self) -> str:
        """What must be said of it where its backbone only simulates looking."""
        return simulation_notes([self.backbone])


@dataclass(frozen=True, slots=True)
class Audited:
    """The audit, as far as there is one."""

    report: AuditReport | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    """The key of each run by the name that the report gives it."""
    problem: str = ""
    """Why there is no report, where there should be one."""


def _run(index: RunIndex, predictions: Sequence[Prediction]) -> Run:
    run = Run(index.key, predictions, index.path)
    return Run(run.method or index.key, predictions, index.path)


def _state(index: RunIndex, listed: Mapping[str, Listed]) -> RunState:
    answered = [each for each in listed.values() if each.prediction is not None]
    run = Run(index.key, [entry.prediction for entry in index.entries.values()])
    refused = [each.problem for each in answered if each.problem]
    has_bench = any(each.info.item for each in listed.values())
    unknown = [each.info.question.id for each in answered if has_bench and each.info.item is None]
    try:
        modified = index.path.stat().st_mtime
    except OSError:
        modified = 0.0
    return RunState(
        method=run.method,
        backbone=run.backbone,
        answered=len(answered),
        questions=len(listed),
        right=sum(bool(each.row and each.row.correct) for each in answered),
        scored=sum(each.row is not None for each in answered),
        errors=sum(each.prediction is not None and each.prediction.error is not None for each in answered),
        frames=sum(each.prediction.frames_supplied for each in answered if each.prediction is not None),
        unknown=tuple(unknown[:MOST_UNKNOWN_SHOWN]) + (("…",) if len(unknown) > MOST_UNKNOWN_SHOWN else ()),
        problems=(*index.problems, *(f"{problem}." for problem in refused[:MOST_UNKNOWN_SHOWN])),
        problem_count=index.problem_count + len(refused),
        is_torn=index.is_torn,
        modified=modified,
    )
