"""The data of the pages: the runs of a folder as they grow, their questions, and the audit."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from trace_ves.records.disk_cache import Facts, identify, load_facts, save_facts
from trace_ves.records.run_file import distinguish_runs, find_common
from trace_ves.records.run_index import Entry, RunIndex, Score
from trace_ves.ves import AuditReport, ScoredRun, audit
from trace_ves.ves.rows import AuditRow, row_of_prediction
from trace_ves.web.listing import Listing, QuestionInfo

if TYPE_CHECKING:
    from trace_ves.records import Item, Prediction

REFRESH_SECONDS: Final = 0.3  # the folder is not read more often than this
MOST_UNKNOWN_SHOWN: Final = 5
CACHE_FOLDER: Final = "pages"
LEAST_CACHED_BYTES: Final = 16 * 1024 * 1024  # only reading a larger file again takes noticeably long


class Library:
    """The runs of one folder. Threads may share it."""

    def __init__(
        self,
        runs_folder: Path,
        questions: Mapping[str, QuestionInfo],
        roots: Sequence[Path],
        videos: Path | None,
        *,
        cache: PageCache | None = None,
    ) -> None:
        self.questions: Final = questions
        self.runs: dict[str, RunIndex] = {}
        self.version = 0  # grows with every change in the folder
        self.home = "Runs"  # the name of the start page
        self.folder_name: Final = runs_folder.resolve().name
        self._folder = runs_folder
        self._roots = tuple(root.resolve() for root in roots)
        self._videos = videos
        self._refreshed_at = -math.inf
        self._lock = threading.RLock()
        self._cache = cache or PageCache(None)
        self._listings: dict[str, tuple[tuple[int, int], Listing]] = {}
        self._states: dict[str, RunState] = {}  # cleared with every new version, as are the audits
        self._audits: dict[bool, LibraryAudit] = {}

    def refresh(self, *, now: bool = False, on_progress: Callable[[str, int, int], None] | None = None) -> int:
        """Read the folder again, at most every `REFRESH_SECONDS` unless `now`; returns the version."""
        with self._lock:
            if not now and time.monotonic() - self._refreshed_at < REFRESH_SECONDS:
                return self.version
            paths = {path.name.removesuffix(".jsonl"): path for path in sorted(self._folder.glob("*.jsonl"))}
            allowed = {key: path for key, path in paths.items() if path.name != "questions.jsonl" and self.allows(path)}
            is_changed = allowed.keys() != self.runs.keys()
            new_runs = {key: RunIndex(path, self._score) for key, path in allowed.items() if key not in self.runs}
            for index in new_runs.values():
                self._cache.restore_index(index)
            self.runs = {key: self.runs.get(key) or new_runs[key] for key in allowed}
            for key, run in self.runs.items():
                if run.refresh(partial(on_progress, f"indexing {key}") if on_progress else None):
                    is_changed = True
                    self._cache.save_index(run)
            if is_changed:
                self.version += 1
                self._states, self._audits = {}, {}
            self._refreshed_at = time.monotonic()
            return self.version

    def _score(self, line: Prediction) -> Score | None:
        """Score a line; None if its question is not in the bench, a `FieldError` if it cannot be scored."""
        info = self.questions.get(line.question_id)
        if info is None or info.item is None:
            return None
        row = row_of_prediction(info.item, line)
        return Score(bool(row.correct), row.frames_distinct, row.frames_inside, row.density)

    def allows(self, path: Path) -> bool:
        """Whether a file is in one of the folders that may be served, after resolving links."""
        try:
            real = path.resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            return False
        return real.is_file() and any(real.is_relative_to(root) for root in self._roots)

    def video_of(self, info: QuestionInfo) -> Path | None:
        """The file of a question's video; None if it may not be served."""
        if self._videos is None or not info.question.video or "\0" in info.question.video:
            return None
        path = self._videos / info.question.video
        return path.resolve() if self.allows(path) else None

    def info(self, question_id: str) -> QuestionInfo:
        """The information about a question; only its id if it is not in the bench."""
        return self.questions.get(question_id) or QuestionInfo.of_id(question_id)

    def listing(self, key: str) -> Listing:
        """The questions of a run."""
        with self._lock:
            run = self.runs[key]
            state = run.generation, len(self.questions)  # the studio adds questions
            known = self._listings.get(key)
            if known is None or known[0] != state:
                allowed = self.allows(run.transcripts.path)
                known = self._listings[key] = state, Listing(self.questions, run, has_transcripts=allowed)
            return known[1]

    def states(self) -> dict[str, RunState]:
        """The progress of each run, by its key."""
        with self._lock:
            if not self._states:
                self._states = {
                    key: _state(run, self.questions, has_bench=self._cache.has_bench) for key, run in self.runs.items()
                }
            return self._states

    def audit(
        self, *, common: bool = False, on_progress: Callable[[str, int, int], None] | None = None
    ) -> LibraryAudit:
        """Audit all runs; with `common`, only the questions that every run has answered."""
        with self._lock:
            if common not in self._audits:
                known = None if common else self._cache.load_audit(self.runs.values())
                self._audits[common] = known or self._make_audit(on_progress, common=common)
                if not common and known is None:
                    self._cache.save_audit(self.runs.values(), self._audits[common])
            return self._audits[common]

    def _make_audit(self, on_progress: Callable[[str, int, int], None] | None, *, common: bool) -> LibraryAudit:
        question_ids = {*self.questions}
        for run in self.runs.values() if common else ():
            question_ids &= {name for name, entry in run.entries.items() if entry.correct is not None}
        items = [info.item for name, info in self.questions.items() if info.item and name in question_ids]
        items.sort(key=lambda item: item.question.id)  # as rows are
        runs = {key: _score_run(run, items) for key, run in self.runs.items()}
        scored = {key: run for key, run in runs.items() if run is not None}
        if not scored:
            return LibraryAudit()
        named = distinguish_runs(list(scored.values()))
        keys = {run.name: key for key, run in zip(scored, named, strict=True)}
        return LibraryAudit(audit(items, named, on_progress=on_progress), keys)


@dataclass(frozen=True, slots=True)
class LibraryAudit:
    """The audit of a library's runs, if there is one."""

    report: AuditReport | None = None
    keys: Mapping[str, str] = field(default_factory=dict)  # the key of each run, by its name in the report


class PageCache:
    """Disk cache of the index of large runs and of their audit. An index is only saved after its first reading."""

    def __init__(self, bench: Path | None) -> None:
        """`bench` is the file of the questions; without a bench, nothing is cached."""
        self._bench: Final = identify(bench) if bench else None
        self.has_bench: Final = bench is not None

    def load_left_out(self) -> list[str] | None:
        """The ids of questions left out of the bench; None if they are not cached."""
        facts = load_facts(CACHE_FOLDER, ["bench", self._bench])
        return facts.values["left out"] if facts else None

    def save_left_out(self, left_out: list[str]) -> None:
        """Cache the ids of questions left out, if the bench is large."""
        if self._bench and int(str(self._bench[1])) >= LEAST_CACHED_BYTES:
            save_facts(CACHE_FOLDER, ["bench", self._bench], Facts({"left out": left_out}))

    def restore_index(self, index: RunIndex) -> None:
        """Fill an index from the cache if its file has not changed."""
        if (key := self._key([index])) and (facts := load_facts(CACHE_FOLDER, key)):
            index.restore(facts)

    def save_index(self, index: RunIndex) -> None:
        """Cache an index after its first reading, if its file is large."""
        if index.generation == 1 and (key := self._key([index])):
            save_facts(CACHE_FOLDER, key, index.facts())

    def load_audit(self, runs: Collection[RunIndex]) -> LibraryAudit | None:
        """The cached audit of these runs; None if one of them has changed."""
        if not (key := self._key(runs)) or not (facts := load_facts(CACHE_FOLDER, ["audit", *key])):
            return None
        report = TypeAdapter(AuditReport).validate_python(facts.values["report"], by_alias=False, by_name=True)
        return LibraryAudit(report, facts.values["keys"])

    def save_audit(self, runs: Collection[RunIndex], result: LibraryAudit) -> None:
        """Cache the audit of these runs."""
        if result.report is not None and (key := self._key(runs)):
            without_rows = replace(result.report, runs=tuple(replace(run, rows=()) for run in result.report.runs))
            facts = Facts({"report": asdict(without_rows), "keys": dict(result.keys)})
            save_facts(CACHE_FOLDER, ["audit", *key], facts)

    def _key(self, runs: Collection[RunIndex]) -> list[object]:
        """A key that identifies the files; empty if they are small, or have changed since they were read."""
        try:
            states = [identify(run.path) for run in runs]
            sizes = [run.path.stat().st_size for run in runs]
        except OSError:
            return []
        is_as_read = all(run.size in {0, size} for run, size in zip(runs, sizes, strict=True))
        return [self._bench, *states] if self._bench and is_as_read and sum(sizes) >= LEAST_CACHED_BYTES else []


@dataclass(frozen=True, slots=True)
class RunState:
    """The progress of a run, and the problems of its file."""

    method: str
    backbone: str
    answered: int  # questions with a line
    questions: int
    accuracy: float | None  # correct answers so far, in percent
    errors: int
    frames: int  # frames supplied over all questions
    unknown: tuple[str, ...]  # ids that are not in the bench
    problems: tuple[str, ...]
    problem_count: int
    is_torn: bool
    modified: float


def _score_run(index: RunIndex, items: Sequence[Item]) -> ScoredRun | None:
    """Score a run on these questions; None if no line could be scored."""
    lines = (index.entries.get(item.question.id) for item in items)
    entries = [entry if entry is not None and entry.correct is not None else None for entry in lines]
    scored = [entry for entry in entries if entry is not None]
    if not scored:
        return None
    method = find_common({entry.method for entry in scored})
    return ScoredRun(
        method or index.key,
        [_row(item, entry) for item, entry in zip(items, entries, strict=True)],
        index.path,
        method,
        find_common({entry.backbone for entry in scored}),
        unanswered=len(items) - sum(entry.answer is not None for entry in scored),
        missing=[item.question.id for item, entry in zip(items, entries, strict=True) if entry is None],
    )


def _row(item: Item, entry: Entry | None) -> AuditRow:
    if entry is None:
        return row_of_prediction(item, None)
    counts = (entry.frames_supplied, entry.frames_distinct, entry.frames_inside, entry.density)
    return AuditRow(item.question.id, entry.correct, *counts, entry.termination)


def _state(index: RunIndex, questions: Collection[str], *, has_bench: bool) -> RunState:
    entries = index.entries.values()
    scored = [entry.correct for entry in entries if entry.correct is not None]
    not_in_bench = [name for name in index.entries if name not in questions]
    unknown = not_in_bench if has_bench else []
    refused = [f"{index.path.name}:{entry.line}: {entry.refusal}." for entry in entries if entry.refusal]
    try:
        modified = index.path.stat().st_mtime
    except OSError:
        modified = 0.0
    return RunState(
        method=find_common({entry.method for entry in entries}),
        backbone=find_common({entry.backbone for entry in entries}),
        answered=len(entries),
        questions=len(questions) + len(not_in_bench),
        accuracy=100 * sum(scored) / len(scored) if scored else None,
        errors=sum(entry.error is not None for entry in entries),
        frames=sum(entry.frames_supplied for entry in entries),
        unknown=tuple(unknown[:MOST_UNKNOWN_SHOWN]) + (("…",) if len(unknown) > MOST_UNKNOWN_SHOWN else ()),
        problems=(*index.problems, *refused[:MOST_UNKNOWN_SHOWN]),
        problem_count=index.problem_count + len(refused),
        is_torn=index.is_torn,
        modified=modified,
    )
