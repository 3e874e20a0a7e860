"""One line that pins what was measured, so that two reports with the same line may be compared."""

from __future__ import annotations

import hashlib
import json
import math
from itertools import islice
from json.encoder import encode_basestring_ascii as _quoted
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from trace_ves._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from trace_ves.records.item_table import ItemTable

WALKED: Final = 10_000
"""Values of a column that are made at one time."""


def bench_hash(table: ItemTable) -> str:
    """Twelve hex digits over everything an audit depends on; the order of the questions does not matter."""
    digest = hashlib.sha256()
    videos, families, answers = (
        [json.dumps(word) for word in of] for of in (table.videos, table.families, table.answers)
    )
    columns = (table.video, table.family, table.options, table.answer, table.duration, table.intervals)
    pairs = zip(walked(table.start), walked(table.end), strict=True)
    for name, *values in zip(table.ids, *(walked(column) for column in columns), strict=True):
        video, family, options, answer, duration, intervals = values
        seconds = repr(duration) if math.isfinite(duration) else "null"
        evidence = ", ".join([f"[{start!r}, {end!r}]" for start, end in sorted(islice(pairs, intervals))])
        digest.update(  # the line that `json.dumps` would write
            f"[{_quoted(name)}, {videos[video]}, {families[family]}, {options}, {answers[answer]}, {seconds}, "
            f"[{evidence}]]\n".encode()
        )
    return digest.hexdigest()[:12]


def walked(column: NDArray[Any]) -> Iterator[Any]:
    """The values of a column as Python's own, without all of them being there at once."""
    for start in range(0, len(column), WALKED):
        yield from column[start : start + WALKED].tolist()


def signature(
    table: ItemTable,
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
        "bench": bench_hash(table),
        "questions": len(table),
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
