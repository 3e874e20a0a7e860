"""Agreement between runs: how often their answers, responses and frames are the same.

High agreement reveals methods whose frames never reached the model or do not depend on the question.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.ves.report import AgreementFigures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trace_ves.records import Item
    from trace_ves.ves.rows import ScoredRun

SUSPICIOUS_PERCENT: Final = 99.0
_SAME_INPUTS: Final = "these runs are almost certainly the same inputs"
SUSPICIONS: Final = (  # for answers, responses and frames: least number of questions, verb and explanation
    (50, "gave the same answer to", _SAME_INPUTS),
    (20, "gave the same response to", _SAME_INPUTS),
    (20, "looked at the same frames for", "the methods do not differ in what the model was shown"),
)
FEWEST_VIEWS: Final = 10
_FIXED: Final = re.compile(r"(uniform|linspace|inner|step|fps|vote|random|blind)\b.*", re.IGNORECASE)


def measure_agreement(
    items: Sequence[Item], runs: Sequence[ScoredRun]
) -> tuple[tuple[AgreementFigures, ...], list[str]]:
    """Compare every pair of runs; also returns warnings about runs that are too similar or ignore the question."""
    facts = {run.name: _hashes(run) for run in runs}
    methods = {run.name: run.method for run in runs}
    figures, suspects = [], [dict[tuple[str, str], float]() for _ in SUSPICIONS]
    for a, b in combinations(facts, 2):
        known = ~np.isnan(facts[a]) & ~np.isnan(facts[b])
        counts = known.sum(axis=1)
        same = ((facts[a] == facts[b]) & known).sum(axis=1)
        shares = [100 * float(n) / int(of) if of else None for n, of in zip(same, counts, strict=True)]
        if not counts.any():
            continue
        figures.append(AgreementFigures(a, b, int(counts.max()), *shares))
        # Compare answers only if responses are not logged, and frames only if the methods should differ.
        relevant = (not counts[1], True, methods[a] != methods[b] or not methods[a])
        for at, (fewest, _, _) in enumerate(SUSPICIONS):
            if relevant[at] and counts[at] >= fewest and (share := shares[at] or 0.0) > SUSPICIOUS_PERCENT:
                suspects[at][a, b] = share
    warnings = [
        _describe(names, [share for (a, _), share in pairs.items() if a in names], verb, meaning)
        for pairs, (_, verb, meaning) in zip(suspects, SUSPICIONS, strict=True)
        for names in _clusters(pairs)
    ]
    return tuple(figures), warnings + [warning for run in runs if (warning := _fixed_frames(items, run))]


def _hashes(run: ScoredRun) -> NDArray[np.float64]:
    """Hashes of the answer, response and frames of each question; NaN if one is missing."""
    has_frames = run.is_selection or not run.reconstruction
    facts = [
        (
            None if row.answer is None else hash(row.answer.strip().casefold()),
            row.response,
            row.frames if has_frames else None,
        )
        for row in run.rows
    ]
    return np.array([[np.nan if fact is None else float(fact) for fact in row] for row in facts]).T


def _clusters(pairs: dict[tuple[str, str], float]) -> list[list[str]]:
    """Group the names that pairs link, each group in the order of the runs."""
    clusters: list[list[str]] = []
    for pair in pairs:
        linked = [cluster for cluster in clusters if not {*pair}.isdisjoint(cluster)]
        clusters = [cluster for cluster in clusters if cluster not in linked]
        clusters.append(list(dict.fromkeys(name for names in (*linked, pair) for name in names)))
    return clusters


def _describe(names: list[str], shares: list[float], verb: str, meaning: str) -> str:
    who = " and ".join(names) if len(names) == 2 else f"{len(names)} runs ({', '.join(names)}), two by two,"
    percent = f"{'at least ' if len(shares) > 1 else ''}{min(shares):.1f}%"
    return f"{who} {verb} {percent} of the questions: {meaning}."


def _fixed_frames(items: Sequence[Item], run: ScoredRun) -> str | None:
    """A warning if the frames of a run do not depend on the question, unless its method is a fixed schedule."""
    if (run.reconstruction and not run.is_selection) or _FIXED.fullmatch(run.method or run.name):
        return None
    views: dict[str, list[int]] = defaultdict(list)
    for item, row in zip(items, run.rows, strict=True):
        if row.frames is not None:
            views[item.question.video].append(row.frames)
    repeated = [hashes for hashes in views.values() if len(hashes) > 1]
    if sum(map(len, repeated)) < FEWEST_VIEWS or any(len(set(hashes)) > 1 for hashes in repeated):
        return None
    return (
        f"{run.name}: all questions about a video were answered from the same frames ({len(repeated)} videos with "
        "several questions); its frames do not depend on the question."
    )
