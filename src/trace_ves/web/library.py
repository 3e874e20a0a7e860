"""What the page shows: the runs of a folder as they grow, the questions they answer, and the audit of it all.

Knows no HTTP. Gold answers and evidence may be absent, for a single question or for all of them.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trace_ves.core import Question, TraceVesError
from trace_ves.core.display import simulation_notes
from trace_ves.records.item_table import ItemTable
from trace_ves.records.run_index import RunIndex, Score
from trace_ves.records.runs import distinct_names
from trace_ves.ves import RowTable, ScoredRun, audit
from trace_ves.ves.row_table import NO_TERMINATION
from trace_ves.ves.rows import row_of_prediction
from trace_ves.ves.scoring import SHOWN_IDS
from trace_ves.web.bench_questions import BenchQuestions
from trace_ves.web.index_cache import Audited, IndexCache
from trace_ves.web.listing import Listed, Listing, QuestionColumns, QuestionInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from trace_ves.records import Prediction
    from trace_ves.records.run_index import Columns

__all__ = ["Audited", "Library", "Listed", "QuestionInfo", "RunState"]

LOOK_AGAIN_SECONDS: Final = 0.3
"""The folder is not looked at more often than this, however many requests come."""
MOST_UNKNOWN_SHOWN: Final = 5


class Library:
    """The runs of one folder. Threads may share it."""

    def __init__(
        self,
        runs_folder: Path,
        questions: Mapping[str, QuestionInfo],
        roots: Sequence[Path],
        videos: Path | None,
        *,
        bench: Path | None = None,
    ) -> None:
        """With the `bench` that the questions are from, what large runs hold is kept for the next start."""
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
        self._questions = _columns(questions)
        self._cache = IndexCache(bench) if bench else None
        self._listed: dict[str, tuple[tuple[int, int], Listing]] = {}
        self._states: tuple[int, dict[str, RunState]] = (-1, {})
        self._audits: dict[bool, tuple[int, Audited]] = {}

    @property
    def folder_name(self) -> str:
        """What the folder is called."""
        return self._folder.resolve().name

    def refresh(self, *, now: bool = False, on_progress: Callable[[str, int, int], None] | None = None) -> int:
        """Look at the folder again, unless that was done a moment ago and it need not be `now`; gives the version."""
        with self._lock:
            if not now and time.monotonic() - self._looked < LOOK_AGAIN_SECONDS:
                return self.version
            paths = {path.name.removesuffix(".jsonl"): path for path in sorted(self._folder.glob("*.jsonl"))}
            inside = {key: path for key, path in paths.items() if path.name != "questions.jsonl" and self.allows(path)}
            changed = inside.keys() != self.runs.keys()
            self.runs = {key: self.runs.get(key) or self._opened(path) for key, path in inside.items()}
            for key, run in self.runs.items():
                if run.refresh(partial(on_progress, f"indexing {key}") if on_progress else None):
                    changed = True
                    if self._cache:
                        self._cache.keep_index(run)
            self.version += changed
            self._looked = time.monotonic()
            return self.version

    def _opened(self, path: Path) -> RunIndex:
        index = RunIndex(path, self._score)
        if self._cache:
            self._cache.restore_index(index)
        return index

    def _score(self, line: Prediction) -> Score | None:
        """What is kept of a line whose question is in the bench; a `FieldError` says why it cannot be scored."""
        info = self.questions.get(line.question_id)
        if info is None or info.item is None:
            return None
        row = row_of_prediction(info.item, line)
        return Score(bool(row.correct), row.frames_distinct, row.frames_inside, row.density)

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

    def listed(self, key: str) -> Listing:
        """Every question of a run: those of the bench in its order, then those that the bench does not know."""
        with self._lock:
            run = self.runs[key]
            if len(self._questions.ids) != len(self.questions):  # whoever asks on a page adds to them
                self._questions = _columns(self.questions)
            state = run.generation, len(self.questions)
            known = self._listed.get(key)
            if known is None or known[0] != state:
                known = state, Listing(self._questions, run)
                self._listed[key] = known
            return known[1]

    def states(self) -> dict[str, RunState]:
        """How far each run has come, by its key."""
        with self._lock:
            if self._states[0] != self.version:
                found = {key: _state(run, self.listed(key)) for key, run in self.runs.items()}
                self._states = self.version, found
            return self._states[1]

    def audit(self, *, common: bool = False, on_progress: Callable[[str, int, int], None] | None = None) -> Audited:
        """The audit of all runs; with `common`, over the questions that every run has answered."""
        with self._lock:
            known = self._audits.get(common)
            if known is None or known[0] != self.version:
                found = self._cache.audit(self.runs.values()) if self._cache and not common else None
                if found is None:
                    found = self._audited(on_progress, common=common)
                    if self._cache and not common:
                        self._cache.keep_audit(self.runs.values(), found)
                known = self.version, found
                self._audits[common] = known
            return known[1]

    def _audited(self, on_progress: Callable[[str, int, int], None] | None, *, common: bool) -> Audited:
        listed = {key: self.listed(key) for key in self.runs}
        count = len(self.questions)
        wanted = self._questions.has_item.copy()
        for listing in listed.values() if common else ():
            wanted &= listing.is_scored[:count]
        names = np.array(self._questions.ids, np.object_)[wanted]
        items = [info.item for name in names.tolist() if (info := self.questions[name]).item is not None]
        at = np.flatnonzero(wanted)[np.argsort(names, kind="stable")]  # as the table has them
        if not items:
            return Audited()
        table = ItemTable.of(items)
        runs = {key: _scored_run(self.runs[key], listing, table, at) for key, listing in listed.items()}
        named = distinct_names([run for run in runs.values() if run is not None])
        keys = {run.name: key for key, run in zip((key for key in runs if runs[key]), named, strict=True)}
        if not named:
            return Audited()
        try:
            return Audited(audit(table, named, on_progress=on_progress), keys)
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


def _columns(questions: Mapping[str, QuestionInfo]) -> QuestionColumns:
    return questions.columns if isinstance(questions, BenchQuestions) else QuestionColumns.of(questions)


def _scored_run(index: RunIndex, listing: Listing, table: ItemTable, at: NDArray[np.int64]) -> ScoredRun | None:
    """The run on the questions at these places of its list; None where none of its lines could be scored."""
    is_scored = listing.is_scored[at]
    place = listing.place[at][is_scored]
    if not len(place):
        return None
    columns = index.columns

    def of_all(values: object) -> NDArray[Any]:
        found = np.zeros(len(at), np.array(values).dtype)
        found[is_scored] = np.array(values)[place]
        return found

    termination = np.full(len(at), NO_TERMINATION, np.int64)
    termination[is_scored] = np.array(columns.termination)[place]
    words = tuple(word or "" for word in columns.words)
    rows = RowTable(
        table.ids,
        correct=of_all(columns.correct),
        frames_supplied=of_all(columns.frames_supplied),
        frames_distinct=of_all(columns.frames_distinct),
        frames_inside=of_all(columns.frames_inside),
        density=of_all(columns.density),
        termination=termination,
        terminations=words,
    )
    answered = [columns.words[code] is not None for code in np.array(columns.answer)[place].tolist()]
    method = _only(columns, np.array(columns.method)[place])
    return ScoredRun(
        method or index.key,
        rows.packed(),
        index.path,
        method,
        _only(columns, np.array(columns.backbone)[place]),
        unanswered=len(at) - sum(answered),
        missing=len(at) - len(place),
        missing_examples=tuple(table.ids[each] for each in np.flatnonzero(~is_scored)[:SHOWN_IDS].tolist()),
    )


def _only(columns: Columns, codes: NDArray[np.int64]) -> str:
    """The word that all of these codes stand for; nothing where they differ."""
    distinct = np.unique(codes)
    return (columns.words[int(distinct[0])] or "") if len(distinct) == 1 else ""


def _state(index: RunIndex, listing: Listing) -> RunState:
    columns = index.columns
    has_bench = bool(listing.has_item.any())
    strays = np.flatnonzero(listing.is_answered & ~listing.has_item).tolist() if has_bench else []
    unknown = [listing.ids[at] for at in strays[: MOST_UNKNOWN_SHOWN + 1]]
    in_order = np.flatnonzero(np.isin(listing.place, list(columns.refusals)))[:MOST_UNKNOWN_SHOWN].tolist()
    refused = [listing[listing.ids[at]].problem for at in in_order]
    try:
        modified = index.path.stat().st_mtime
    except OSError:
        modified = 0.0
    return RunState(
        method=_only(columns, np.array(columns.method)),
        backbone=_only(columns, np.array(columns.backbone)),
        answered=int(np.count_nonzero(listing.is_answered)),
        questions=len(listing),
        right=int(np.count_nonzero(listing.correct == 1)),
        scored=int(np.count_nonzero(listing.is_scored)),
        errors=len(columns.errors),
        frames=int(sum(columns.frames_supplied)),
        unknown=tuple(unknown[:MOST_UNKNOWN_SHOWN]) + (("…",) if len(unknown) > MOST_UNKNOWN_SHOWN else ()),
        problems=(*index.problems, *(f"{problem}." for problem in refused)),
        problem_count=index.problem_count + len(columns.refusals),
        is_torn=index.is_torn,
        modified=modified,
    )
