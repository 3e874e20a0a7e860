"""What the page found in large runs, kept for its next start: their indexes, and the audit on its first page."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trace_ves.records.kept import WORTH_KEEPING, Kept, identity, keep, load_kept
from trace_ves.ves.report import AuditReport

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from trace_ves.records.run_index import RunIndex


@dataclass(frozen=True, slots=True)
class Audited:
    """The audit, as far as there is one."""

    report: AuditReport | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    """The key of each run by the name that the report gives it."""
    problem: str = ""
    """Why there is no report, where there should be one."""


class IndexCache:
    """Keeps what depends on a bench and on runs; only the first reading of a run is kept, not how it grows."""

    def __init__(self, bench: Path) -> None:
        self._bench: Final = identity(bench)
        self._read: dict[Path, list[object]] = {}
        """The state of each run file before it was read."""

    def restore_index(self, index: RunIndex) -> None:
        """Fill an index with what was kept for the same state of its file; else it stays empty."""
        with suppress(OSError):
            self._read[index.path] = identity(index.path)
            kept = load_kept(f"run {index.path.resolve()}", self._key(index))
            if kept is not None:
                with suppress(ValueError):
                    index.restore(kept)

    def keep_index(self, index: RunIndex) -> None:
        """Keep an index that was just read, if its file was large and no one wrote to it."""
        if self._is_as_read(index) and index.path.stat().st_size >= WORTH_KEEPING:
            keep(f"run {index.path.resolve()}", self._key(index), index.kept())

    def audit(self, runs: Collection[RunIndex]) -> Audited | None:
        """The audit that was kept for the same state of all runs."""
        kept = load_kept(*self._of_all(runs)) if self._are_worth_it(runs) else None
        if kept is None:
            return None
        try:
            report, keys = AuditReport.from_json(kept.facts["report"], k=int(kept.facts["k"])), kept.facts["keys"]
            by_key = {run.key for run in runs}
            return Audited(report, {each.name: keys[each.name] for each in report.runs if keys[each.name] in by_key})
        except (ValueError, LookupError, TypeError):
            return None

    def keep_audit(self, runs: Collection[RunIndex], audited: Audited) -> None:
        """Keep an audit of these runs."""
        if audited.report is not None and self._are_worth_it(runs):
            facts = {"report": audited.report.to_json(), "k": audited.report.k, "keys": dict(audited.keys)}
            keep(*self._of_all(runs), Kept(facts, {}))

    def _key(self, index: RunIndex) -> list[object]:
        return [self._bench, self._read.get(index.path)]

    def _of_all(self, runs: Collection[RunIndex]) -> tuple[str, list[object]]:
        folder = next(iter(runs)).path.resolve().parent
        return f"audit {folder}", [self._bench, [self._read.get(run.path) for run in runs]]

    def _are_worth_it(self, runs: Collection[RunIndex]) -> bool:
        return all(map(self._is_as_read, runs)) and sum(run.path.stat().st_size for run in runs) >= WORTH_KEEPING

    def _is_as_read(self, index: RunIndex) -> bool:
        try:
            return index.generation == 1 and self._read.get(index.path) == identity(index.path)
        except OSError:
            return False
