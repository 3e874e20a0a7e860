"""Agreement between runs: answers, responses and frames that are the same, which tells runs of the same inputs apart.

A method whose frames never reached the model, or do not depend on the question, is found here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.ves.report import AgreementFigures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from trace_ves.records import Item
    from trace_ves.ves.rows import AuditRow, ScoredRun

    Hashes = tuple[NDArray[np.int64], NDArray[np.bool_]]  # of every question, and whether there is one

SUSPICIOUS_PERCENT: Final = 99.0
FEWEST_QUESTIONS: Final = 20  # Fewer can agree by chance
_FIXED: Final = re.compile(r"(uniform|linspace|inner|step|fps|vote|random|blind)\b.*", re.IGNORECASE)


def measure_agreement(runs: Sequence[ScoredRun]) -> tuple[AgreementFigures, ...]:
    """Every pair of runs; frames that were reconstructed from one schedule are not compared."""
    facts = {run.name: _hashes(run) for run in runs}
    figures = []
    for a, b in combinations(facts, 2):
        shares = {}
        questions = 0
        for kind in ("answers", "responses", "frames"):
            (left, has_left), (right, has_right) = facts[a][kind], facts[b][kind]
            both = has_left & has_right
            count = int(both.sum())
            questions = max(questions, count)
            shares[kind] = 100 * float(((left == right) & both).sum()) / count if count else None
        figures.append(AgreementFigures(a, b, questions, **shares))
    return tuple(figures)


def _hashes(run: ScoredRun) -> dict[str, Hashes]:
    def column(value: Callable[[AuditRow], int | None]) -> Hashes:
        values = [value(row) for row in run.rows]
        return np.array([each or 0 for each in values], np.int64), np.array([each is not None for each in values])

    return {
        "answers": column(lambda row: None if row.answer is None else hash(row.answer.strip().casefold())),
        "responses": column(lambda row: row.response),
        "frames": column(lambda row: row.frames if run.is_selection or not run.reconstruction else None),
    }


def agreement_warnings(
    items: Sequence[Item], runs: Sequence[ScoredRun], figures: Sequence[AgreementFigures]
) -> list[str]:
    """Runs that are almost certainly the same inputs, look at the same frames, or ignore the question."""
    methods = {run.name: run.method for run in runs}
    by_kind: Mapping[str, tuple[str, str, Callable[[AgreementFigures], float | None]]] = {
        "response": (
            "gave the same {} to",
            "these runs are almost certainly the same inputs",
            lambda pair: pair.responses,
        ),
        "answer": (
            "gave the same {} to",
            "these runs are almost certainly the same inputs",
            lambda pair: pair.answers if pair.responses is None else None,
        ),
        "frames": (
            "looked at the same {} for",
            "the methods do not differ in what the model was shown",
            lambda pair: None if methods[pair.a] and methods[pair.a] == methods[pair.b] else pair.frames,
        ),
    }
    warnings = []
    for kind, (verb, meaning, share) in by_kind.items():
        pairs = {
            (pair.a, pair.b): value
            for pair in figures
            if pair.questions >= FEWEST_QUESTIONS and (value := share(pair) or 0.0) > SUSPICIOUS_PERCENT
        }
        if pairs:
            names = list(dict.fromkeys(name for pair in pairs for name in pair))
            who = " and ".join(names) if len(names) == 2 else f"{len(names)} runs ({', '.join(names)}), two by two,"
            least = min(pairs.values())
            percent = f"{least:.1f}%" if len(pairs) == 1 else f"at least {least:.1f}%"
            warnings.append(f"{who} {verb.format(kind)} {percent} of the questions: {meaning}.")
    for run in runs:
        if (run.is_selection or not run.reconstruction) and not _FIXED.fullmatch(run.method or run.name):
            videos = _videos_with_one_view(items, run.rows)
            if videos:
                warnings.append(
                    f"{run.name}: all questions about a video were answered from the same frames ({videos} videos with "
                    "several questions); its frames do not depend on the question."
                )
    return warnings


def _videos_with_one_view(items: Sequence[Item], rows: Sequence[AuditRow]) -> int:
    """How many videos have several questions with frames, if each has the same frames for all; else 0."""
    views: dict[str, list[int]] = defaultdict(list)
    for item, row in zip(items, rows, strict=True):
        if row.frames is not None:
            views[item.question.video].append(row.frames)
    several = [seen for seen in views.values() if len(seen) > 1]
    is_same = all(len(set(seen)) == 1 for seen in several)
    return len(several) if is_same and sum(map(len, several)) >= FEWEST_QUESTIONS // 2 else 0
