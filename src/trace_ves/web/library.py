"""What the page shows: the runs of a folder as they grow, the questions they answer, and the audit of it all."""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trace_ves.core import Question, TraceVesError
from trace_ves.records.disk_cache import Facts, identify, load_facts, save_facts
from trace_ves.records.run_file import constant, distinct_names
from trace_ves.records.run_index import RunIndex, Score
from trace_ves.ves import AuditReport, BenchSummary, Comparison, RunReport, ScoredRun, audit
from trace_ves.ves.report import AgreementFigures, ClassFigures, GroupFigures
from trace_ves.ves.rows import row_of_prediction
from trace_ves.web.listing import Listed, Listing
from trace_ves.web.questions import QuestionColumns, QuestionInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from trace_ves.records import Item, Prediction

__all__ = ["Library", "LibraryAudit", "Listed", "QuestionInfo", "RunState"]

LOOK_AGAIN_SECONDS: Final = 0.3  # the folder is not looked at more often than this, however many requests come
MOST_UNKNOWN_SHOWN: Final = 5
CACHE_FOLDER: Final = "pages"
WORTH_CACHING: Final = 16 * 1024 * 1024  # bytes of a file from which on reading it again takes noticeably long


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
        """With the `bench` file that the questions are from, indexes of large runs are cached for the next start."""
        self.questions: Final = questions
        self.runs: dict[str, RunIndex] = {}
        self.version = 0  # grows whenever something in the folder changes
        self.home = "Runs"  # what the start page is called
        self._folder = runs_folder
        self._roots = tuple(root.resolve() for root in roots)
        self._videos = videos
        self._looked = -math.inf
        self._lock = threading.RLock()
        self._questions = QuestionColumns.of(questions)
        self._cache = PageCache(bench) if bench else None
        self._listed: dict[str, tuple[tuple[int, int], Listing]] = {}
        self._states: tuple[int, dict[str, RunState]] = (-1, {})
        self._audits: dict[bool, tuple[int, LibraryAudit]] = {}

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
            self.runs = {key: self.runs.get(key) or self._open_run(path) for key, path in inside.items()}
            for key, run in self.runs.items():
                if run.refresh(partial(on_progress, f"indexing {key}") if on_progress else None):
                    changed = True
                    if self._cache:
                        self._cache.save_index(run)
            self.version += changed
            self._looked = time.monotonic()
            return self.version

    def _open_run(self, path: Path) -> RunIndex:
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
            if len(self._questions.ids) != len(self.questions):  # asking on a page adds to them
                self._questions = QuestionColumns.of(self.questions)
            state = run.generation, len(self.questions)
            known = self._listed.get(key)
            if known is None or known[0] != state:
                allowed = self.allows(run.transcripts.path)
                known = state, Listing(self._questions, run, has_transcripts=allowed)
                self._listed[key] = known
            return known[1]

    def states(self) -> dict[str, RunState]:
        """How far each run has come, by its key."""
        with self._lock:
            if self._states[0] != self.version:
                found = {key: _state(run, self.listed(key)) for key, run in self.runs.items()}
                self._states = self.version, found
            return self._states[1]

    def audit(
        self, *, common: bool = False, on_progress: Callable[[str, int, int], None] | None = None
    ) -> LibraryAudit:
        """The audit of all runs; with `common`, over the questions that every run has answered."""
        with self._lock:
            known = self._audits.get(common)
            if known is None or known[0] != self.version:
                found = self._cache.load_audit(self.runs.values()) if self._cache and not common else None
                if found is None:
                    found = self._make_audit(on_progress, common=common)
                    if self._cache and not common:
                        self._cache.save_audit(self.runs.values(), found)
                known = self.version, found
                self._audits[common] = known
            return known[1]

    def _make_audit(self, on_progress: Callable[[str, int, int], None] | None, *, common: bool) -> LibraryAudit:
        listed = {key: self.listed(key) for key in self.runs}
        items = []
        for at, name in enumerate(self._questions.ids):
            entries = [listing.entries[at] for listing in listed.values()] if common else []
            is_common = all(entry and entry.correct is not None for entry in entries)
            if is_common and self._questions.has_item[at] and (item := self.questions[name].item):
                items.append(item)
        items.sort(key=lambda item: item.question.id)  # as rows are
        runs = {key: _score_listing(self.runs[key], listing, items) for key, listing in listed.items()}
        scored = {key: run for key, run in runs.items() if run is not None}
        if not scored:
            return LibraryAudit()
        named = distinct_names(list(scored.values()))
        keys = {run.name: key for key, run in zip(scored, named, strict=True)}
        try:
            return LibraryAudit(audit(items, named, on_progress=on_progress), keys)
        except TraceVesError as error:
            return LibraryAudit(keys=keys, problem=str(error))


@dataclass(frozen=True, slots=True)
class LibraryAudit:
    """The audit of a library's runs, as far as there is one."""

    report: AuditReport | None = None
    keys: Mapping[str, str] = field(default_factory=dict)  # the key of each run by the name that the report gives it
    problem: str = ""  # why there is no report, where there should be one


class PageCache:
    """Indexes and audits of large runs on disk. Only the first reading of a run is saved, not how it grows."""

    def __init__(self, bench: Path) -> None:
        self._bench: Final = identify(bench)
        self._states: dict[Path, list[object]] = {}  # the state of each run file before it was read

    def restore_index(self, index: RunIndex) -> None:
        """Fill an index with what was saved for the same state of its file; else it stays empty."""
        with suppress(OSError):
            self._states[index.path] = identify(index.path)
            facts = load_facts(CACHE_FOLDER, self._key([index]))
            if facts is not None:
                index.restore(facts)

    def save_index(self, index: RunIndex) -> None:
        """Save an index that was just read, if its file is large and did not change meanwhile."""
        if self._is_worth_caching([index]):
            save_facts(CACHE_FOLDER, self._key([index]), index.facts())

    def load_audit(self, runs: Collection[RunIndex]) -> LibraryAudit | None:
        """The audit that was saved for the same state of all runs."""
        facts = load_facts(CACHE_FOLDER, ["audit", *self._key(runs)]) if self._is_worth_caching(runs) else None
        return None if facts is None else LibraryAudit(_read_report(facts.values["report"]), facts.values["keys"])

    def save_audit(self, runs: Collection[RunIndex], made: LibraryAudit) -> None:
        """Save the audit of these runs."""
        if made.report is not None and self._is_worth_caching(runs):
            without_rows = replace(made.report, runs=tuple(replace(run, rows=()) for run in made.report.runs))
            facts = Facts({"report": asdict(without_rows), "keys": dict(made.keys)})
            save_facts(CACHE_FOLDER, ["audit", *self._key(runs)], facts)

    def _key(self, runs: Collection[RunIndex]) -> list[object]:
        return [self._bench, *(self._states.get(run.path) for run in runs)]

    def _is_worth_caching(self, runs: Collection[RunIndex]) -> bool:
        try:
            is_as_read = all(run.generation == 1 and self._states.get(run.path) == identify(run.path) for run in runs)
            return is_as_read and sum(run.path.stat().st_size for run in runs) >= WORTH_CACHING
        except OSError:
            return False


def _read_report(values: dict[str, Any]) -> AuditReport:
    """The report whose `asdict` this is, without its rows."""
    runs = [
        replace(
            RunReport(**run),
            answer_only=GroupFigures(**run["answer_only"]),
            groups={
                key: {value: GroupFigures(**group) for value, group in groups.items()}
                for key, groups in run["groups"].items()
            },
            question_groups=GroupFigures(**run["question_groups"]) if run["question_groups"] else None,
            classes={
                key: {word: ClassFigures(**figures) for word, figures in words.items()}
                for key, words in run["classes"].items()
            },
        )
        for run in values["runs"]
    ]
    comparisons = [Comparison(**comparison) for comparison in values["comparisons"]]
    bench = BenchSummary(**values["bench"])
    agreement = tuple(AgreementFigures(**pair) for pair in values["agreement"])
    return AuditReport(
        values["signature"], bench, tuple(runs), tuple(comparisons), values["warnings"], values["k"], agreement
    )


@dataclass(frozen=True, slots=True)
class RunState:
    """How far a run has come, and what was wrong with its file."""

    method: str
    backbone: str
    answered: int  # questions with a line, of those that are shown
    questions: int
    right: int
    scored: int
    errors: int
    frames: int  # frames supplied over all questions
    unknown: tuple[str, ...]  # ids that are not in the bench
    problems: tuple[str, ...]
    problem_count: int
    is_torn: bool
    modified: float

    @property
    def accuracy(self) -> float | None:
        """Percent of the answers so far that are right."""
        return 100 * self.right / self.scored if self.scored else None


def _score_listing(index: RunIndex, listing: Listing, items: Sequence[Item]) -> ScoredRun | None:
    """The run on these questions; None where none of its lines could be scored."""
    listed = [listing[item.question.id] for item in items]
    scored = [each.prediction for each in listed if each.row is not None and each.prediction is not None]
    if not scored:
        return None
    method = constant({line.method for line in scored})
    return ScoredRun(
        method or index.key,
        [each.row or row_of_prediction(item, None) for each, item in zip(listed, items, strict=True)],
        index.path,
        method,
        constant({line.backbone for line in scored}),
        unanswered=len(items) - sum(line.answer is not None for line in scored),
        missing=[each.info.question.id for each in listed if each.row is None],
    )


def _state(index: RunIndex, listing: Listing) -> RunState:
    entries = index.entries.values()
    answered = [at for at, entry in enumerate(listing.entries) if entry is not None]
    scored = [entry.correct for entry in entries if entry.correct is not None]
    strays = [listing.ids[at] for at in answered if not listing.has_item[at]] if any(listing.has_item) else []
    refused = [name for name, entry in zip(listing.ids, listing.entries, strict=True) if entry and entry.refusal]
    try:
        modified = index.path.stat().st_mtime
    except OSError:
        modified = 0.0
    return RunState(
        method=constant({entry.method for entry in entries}),
        backbone=constant({entry.backbone for entry in entries}),
        answered=len(answered),
        questions=len(listing),
        right=sum(scored),
        scored=len(scored),
        errors=sum(entry.error is not None for entry in entries),
        frames=sum(entry.frames_supplied for entry in entries),
        unknown=tuple(strays[:MOST_UNKNOWN_SHOWN]) + (("…",) if len(strays) > MOST_UNKNOWN_SHOWN else ()),
        problems=(*index.problems, *(f"{listing[name].problem}." for name in refused[:MOST_UNKNOWN_SHOWN])),
        problem_count=index.problem_count + len(refused),
        is_torn=index.is_torn,
        modified=modified,
    )
