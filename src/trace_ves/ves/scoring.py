"""Predictions become rows: in batches where all is well, one by one where something has to be refused.

A run may be a list of predictions or the lines of a file as they are read; nothing is kept of a prediction but counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.records.audited_line import AuditedLine
from trace_ves.records.item_table import NO_ANSWER, NO_LETTER, letter_place
from trace_ves.records.record import FieldError
from trace_ves.ves.coverage import coverage
from trace_ves.ves.row_table import NO_TERMINATION, RowTable
from trace_ves.ves.rows import row_of_prediction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from trace_ves.core.errors import InputError
    from trace_ves.records import Prediction
    from trace_ves.records.item_table import ItemTable
    from trace_ves.records.runs import Reconstruction, Run

BATCH: Final = 1024
"""Predictions that are counted at one time."""
SHOWN_IDS: Final = 3


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """One run against a bench: its rows, and what is told of it as a whole."""

    name: str
    rows: RowTable
    path: Path | None = None
    method: str = ""
    """The method of all lines, or nothing where they differ."""
    backbone: str = ""
    frames_by_stage: Mapping[str, int] | None = None
    """Frames that calls of each stage were given, where the run logged its calls."""
    unanswered: int = 0
    """Questions of the bench without an answer."""
    left_out: int = 0
    """Predictions for questions that were left out of the bench."""
    missing: int = 0
    """Questions of the bench without a prediction."""
    missing_examples: tuple[str, ...] = ()
    failed: int = 0
    """Predictions with an error of the method's own."""
    file_warnings: tuple[str, ...] = ()
    reconstruction: Reconstruction | None = None

    @property
    def warnings(self) -> list[str]:
        """What was counted but not refused, one sentence each."""
        found = list(self.file_warnings)
        if self.left_out:
            found.append(f"{self.name}: {self.left_out} predictions are for questions that were left out of the bench.")
        if self.missing:
            examples = ", ".join(self.missing_examples) + (", …" if self.missing > SHOWN_IDS else "")
            found.append(
                f"{self.path or self.name}: {self.missing} of {len(self.rows)} questions have no prediction and count "
                f"as wrong and unobserved ({examples})."
            )
        if self.failed:
            found.append(f"{self.path or self.name}: {self.failed} predictions carry an error of the method's own.")
        return found


class IdIndex:
    """Where a question stands in a table, by its id: a few bytes for each, instead of a dictionary of strings."""

    def __init__(self, table: ItemTable) -> None:
        self._ids = table.ids
        hashes = np.fromiter(map(hash, table.ids), np.int64, len(table))
        self._order = np.argsort(hashes).astype(np.int32)
        self._hashes = hashes[self._order]
        self._has_twins = bool(np.any(self._hashes[1:] == self._hashes[:-1]))

    def find(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The place of each id, -1 where the table has none."""
        if self._has_twins:
            return np.array([self._by_id.get(name, -1) for name in names], np.int64)
        hashes = np.fromiter(map(hash, names), np.int64, len(names))
        near = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        places = np.where(self._hashes[near] == hashes, self._order[near], -1)
        found = np.flatnonzero(places >= 0)
        is_other = ~self._ids.equal(places[found], [names[at] for at in found.tolist()])
        places[found[is_other]] = -1
        return places

    @cached_property
    def _by_id(self) -> dict[str, int]:
        """Two ids of one hash: one chance in millions, and right all the same."""
        return {name: at for at, name in enumerate(self._ids)}


class Scorer:
    """Takes the predictions of one run in order; `error` says what is wrong with one of them, by its position."""

    def __init__(
        self,
        table: ItemTable,
        index: IdIndex,
        left_out: frozenset[str],
        error: Callable[[int, str], InputError],
        place: Callable[[int], str],
    ) -> None:
        self._table, self._index, self._left_out = table, index, left_out
        self._error, self._place = error, place
        self._positions: list[int] = []
        self._lines: list[AuditedLine] = []
        """What was taken and is not counted yet."""
        count = len(table)
        self._letters = table.letter
        self._latest = table.duration + table.slack
        self._seen = np.full(count, -1, np.int64)
        """The position of each question's prediction."""
        self._seen_left_out: dict[str, int] = {}
        self._is_answered = np.zeros(count, np.bool_)
        self._correct = np.zeros(count, np.int8)
        self._supplied = np.zeros(count, np.float64)
        self._distinct, self._inside, self._density = np.zeros((3, count), np.int32)
        self._termination = np.full(count, NO_TERMINATION, np.int32)
        self._terminations: dict[str, int] = {}
        self._letter_of: dict[str | None, int] = {None: NO_ANSWER}
        self._stages: Counter[str] = Counter()
        self._methods: set[str] = set()
        self._backbones: set[str] = set()
        self._failed = 0

    def add(self, position: int, line: AuditedLine) -> None:
        """Take one prediction; those of a batch are counted together."""
        self._positions.append(position)
        self._lines.append(line)
        if len(self._lines) == BATCH:
            self.flush()

    def flush(self) -> None:
        """Count what was taken so far; the first prediction that cannot be raises its error."""
        positions, lines = self._positions, self._lines
        self._positions, self._lines = [], []
        self.note(lines)
        if lines and not self._count(positions, lines):
            for position, line in zip(positions, lines, strict=True):
                self._count_one(position, line.prediction)

    def finished(
        self,
        name: str,
        *,
        path: Path | None = None,
        warnings: tuple[str, ...] = (),
        reconstruction: Reconstruction | None = None,
    ) -> ScoredRun:
        """The run, once every prediction was taken and flushed."""
        missing = np.flatnonzero(self._seen < 0)
        return ScoredRun(
            name,
            RowTable(
                self._table.ids,
                correct=self._correct,
                frames_supplied=self._supplied,
                frames_distinct=self._distinct,
                frames_inside=self._inside,
                density=self._density,
                termination=self._termination,
                terminations=tuple(self._terminations),
            ).packed(),
            path,
            _only(self._methods),
            _only(self._backbones),
            dict(self._stages),
            unanswered=int(np.count_nonzero(~self._is_answered)),
            left_out=len(self._seen_left_out),
            missing=len(missing),
            missing_examples=tuple(self._table.ids[at] for at in missing[:SHOWN_IDS].tolist()),
            failed=self._failed,
            file_warnings=warnings,
            reconstruction=reconstruction,
        )

    def note(self, lines: Sequence[AuditedLine]) -> None:
        """What is counted over all lines, whichever questions they answer."""
        for line in lines:
            self._methods.add(line.method)
            self._backbones.add(line.backbone)
            self._failed += line.error is not None
            for call in line.observations:
                self._stages[call.stage] += len(call.timestamps)

    def _count(self, lines_at: Sequence[int], lines: Sequence[AuditedLine]) -> bool:
        """Count a batch at once; False, and nothing is counted, where one of its predictions may have to be refused."""
        names, answers, seen, frames_supplied, terminations = list(zip(*lines, strict=True))[:5]
        at = self._index.find(names)
        frames, counts = np.frombuffer(b"".join(seen)), np.fromiter(map(len, seen), np.int64, len(seen))
        letters = np.array([self._letter(answer) for answer in answers], np.int64)
        endings = np.array([self._termination_code(ending) for ending in terminations], np.int32)
        positions = np.array(lines_at, np.int64)
        try:
            supplied = np.array(frames_supplied, np.float64)
        except OverflowError:
            return False
        passed = {}
        if self._left_out and (passed := {name: at for at, name in enumerate(names) if name in self._left_out}):
            kept = np.array([name not in passed for name in names])
            if not self._seen_left_out.keys().isdisjoint(passed) or len(passed) < np.count_nonzero(~kept):
                return False
            frames = frames[np.repeat(kept, counts)]
            at, counts, letters, endings = at[kept], counts[kept], letters[kept], endings[kept]
            positions, supplied = positions[kept], supplied[kept]
        if np.any(at < 0) or np.any(self._seen[at] >= 0) or len(np.unique(at)) < len(at):
            return False
        found = coverage(self._table, at, frames, counts)
        if (
            not np.isfinite(frames).all()
            or np.any(found.first < 0)
            or np.any(found.last > self._latest[at])
            or np.any(supplied < found.distinct)
            or np.any((letters >= self._table.options[at]) | (letters == NO_LETTER))
        ):
            return False
        self._seen_left_out |= {name: lines_at[place] for name, place in passed.items()}
        self._seen[at] = positions
        self._is_answered[at] = letters != NO_ANSWER
        self._correct[at] = letters == self._letters[at]
        self._supplied[at] = supplied
        self._distinct[at], self._inside[at], self._density[at] = found.distinct, found.inside, found.density
        self._termination[at] = endings
        return True

    def _count_one(self, position: int, prediction: Prediction) -> None:
        """Count one prediction, or say what is wrong with it."""
        name = prediction.question_id
        at = int(self._index.find([name])[0])
        first = self._seen_left_out.get(name, -1) if at < 0 else int(self._seen[at])
        if first >= 0:
            where = self._place(first)
            raise self._error(position, f"question {name!r} was already predicted in {where}; keep one of the two")
        if name in self._left_out:
            self._seen_left_out[name] = position
            return
        if at < 0:
            raise self._error(position, f"question {name!r} is not in the bench; was the run made on another one?")
        try:
            row = row_of_prediction(self._table.bare_item(at), prediction)
            self._supplied[at] = row.frames_supplied
        except FieldError as error:
            raise self._error(position, str(error)) from None
        except OverflowError:
            raise self._error(position, "'frames_supplied' is too large a number") from None
        self._seen[at] = position
        self._is_answered[at] = prediction.answer is not None
        self._correct[at] = bool(row.correct)
        self._distinct[at], self._inside[at], self._density[at] = row.frames_distinct, row.frames_inside, row.density
        self._termination[at] = self._termination_code(row.termination)

    def _letter(self, answer: str | None) -> int:
        known = self._letter_of.get(answer)
        if known is None:
            known = letter_place(answer.strip().upper()) if answer is not None else NO_ANSWER
            if known >= 0:  # a misspelt one is refused at once, so only few spellings are kept
                self._letter_of[answer] = known
        return known

    def _termination_code(self, ending: str | None) -> int:
        return NO_TERMINATION if ending is None else self._terminations.setdefault(ending, len(self._terminations))


def score_run(table: ItemTable, index: IdIndex, run: Run, left_out: frozenset[str]) -> ScoredRun:
    """The rows of a run that is in memory; whatever it lacks or has too much of is said."""
    scorer = Scorer(
        table,
        index,
        left_out,
        error=run.error,
        place=lambda position: f"line {run.lines[position]}" if run.path else f"prediction {position + 1}",
    )
    for position, prediction in enumerate(run.predictions):
        scorer.add(position, AuditedLine.of(prediction))
    scorer.flush()
    return scorer.finished(run.name, path=run.path, warnings=run.warnings, reconstruction=run.reconstruction)


def _only(values: set[str]) -> str:
    return next(iter(values)) if len(values) == 1 else ""
