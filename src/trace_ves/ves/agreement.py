"""Agreement between runs: how often their answers, responses and frames are the same.

This reveals a method whose frames never reached the model, or do not depend on the question.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.ves.report import AgreementFigures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trace_ves.records import Item
    from trace_ves.ves.rows import ScoredRun

SUSPICIOUS_PERCENT: Final = 99.0
FEWEST_QUESTIONS: Final = 20  # Fewer can agree by chance
FEWEST_ANSWERS: Final = 50  # Letters agree by chance more often than responses
_FIXED: Final = re.compile(r"(uniform|linspace|inner|step|fps|vote|random|blind)\b.*", re.IGNORECASE)


def measure_agreement(runs: Sequence[ScoredRun]) -> tuple[AgreementFigures, ...]:
    """Every pair of runs; frames that were reconstructed from a schedule are not compared."""
    facts = {run.name: _hashes(run) for run in runs}
    figures = []
    for a, b in combinations(facts, 2):
        known = ~np.isnan(facts[a]) & ~np.isnan(facts[b])
        counts = known.sum(axis=1)
        same = ((facts[a] == facts[b]) & known).sum(axis=1)
        shares = (100 * float(n) / int(of) if of else None for n, of in zip(same, counts, strict=True))
        if counts.any():
            figures.append(AgreementFigures(a, b, int(counts.max()), *shares))
    return tuple(figures)


def _hashes(run: ScoredRun) -> NDArray[np.float64]:
    """A number for the answer, the response and the frames of each question; NaN where there is none."""
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


def agreement_warnings(
    items: Sequence[Item], runs: Sequence[ScoredRun], figures: Sequence[AgreementFigures]
) -> list[str]:
    """Runs that are almost certainly the same inputs, look at the same frames, or ignore the question."""
    methods = {run.name: run.method for run in runs}
    warnings = []
    for what, verb, meaning in (
        ("response", "gave the same {} to", "these runs are almost certainly the same inputs"),
        ("answer", "gave the same {} to", "these runs are almost certainly the same inputs"),
        ("frames", "looked at the same {} for", "the methods do not differ in what the model was shown"),
    ):
        pairs = {}
        for pair in figures:
            share = pair.frames if methods[pair.a] != methods[pair.b] or not methods[pair.a] else None
            if what != "frames":  # answers count where responses are not logged
                share = pair.responses if what == "response" else pair.answers if pair.responses is None else None
            fewest = FEWEST_ANSWERS if what == "answer" else FEWEST_QUESTIONS
            if pair.questions >= fewest and (share or 0.0) > SUSPICIOUS_PERCENT:
                pairs[pair.a, pair.b] = share or 0.0
        if pairs:
            names = list(dict.fromkeys(name for pair in pairs for name in pair))
            who = " and ".join(names) if len(names) == 2 else f"{len(names)} runs ({', '.join(names)}), two by two,"
            percent = f"{'at least ' if len(pairs) > 1 else ''}{min(pairs.values()):.1f}%"
            warnings.append(f"{who} {verb.format(what)} {percent} of the questions: {meaning}.")
    for run in runs:
        if (run.is_selection or not run.reconstruction) and not _FIXED.fullmatch(run.method or run.name):
            views: dict[str, list[int]] = defaultdict(list)
            for item, row in zip(items, run.rows, strict=True):
                if row.frames is not None:
                    views[item.question.video].append(row.frames)
            several = [seen for seen in views.values() if len(seen) > 1]
            if sum(map(len, several)) >= FEWEST_QUESTIONS // 2 and all(len(set(seen)) == 1 for seen in several):
                warnings.append(
                    f"{run.name}: all questions about a video were answered from the same frames ({len(several)} "
                    "videos with several questions); its frames do not depend on the question."
                )
    return warnings
