"""One line that pins what was measured, so that two reports with the same line may be compared."""

from __future__ import annotations

import hashlib
import json
import math
from types import MappingProxyType
from typing import TYPE_CHECKING

from trace_ves._version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.records import Item


def bench_hash(items: Sequence[Item]) -> str:
    """Twelve hex digits over everything an audit depends on; the order of the questions does not matter."""
    digest = hashlib.sha256()
    for item in sorted(items, key=lambda item: item.question.id):
        question = item.question
        duration = float(item.duration) if math.isfinite(item.duration) else None
        evidence = sorted([float(interval.start), float(interval.end)] for interval in item.evidence)
        line = [question.id, question.video, question.family, len(question.options), item.answer, duration, evidence]
        digest.update(f"{json.dumps(line)}\n".encode())
    return digest.hexdigest()[:12]


def signature(
    items: Sequence[Item],
    *,
    measured: int,
    k: int,
    resamples: int,
    seed: int,
    placed: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The line itself: bench, size, density, statistics, the convention of intervals, and our version.

    `placed` says where timestamps came from that no run logged.
    """
    facts = {
        "bench": bench_hash(items),
        "questions": len(items),
        "with-evidence": measured,
        "k": k,
        "intervals": "closed",
        "ci": "percentile-bootstrap",
        "resamples": resamples,
        "seed": seed,
        **placed,
        "version": __version__,
    }
    return "|".join(f"{key}:{value}" for key, value in facts.items())
