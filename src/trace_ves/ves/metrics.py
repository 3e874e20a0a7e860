"""The paper's metrics as per-question columns: the value of a metric is the mean of its column.

Rates are in percent. A column is None where the metric has no meaning for a run (printed as `--`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trace_ves.ves.rows import AuditRow

DENSITIES: Final = (1, 2, 3)
"""The density levels k that every report shows."""
HEADLINE_DENSITY: Final = 2


@dataclass(frozen=True, slots=True)
class Columns:
    """The metrics of one run, question by question, in the order of the bench."""

    by_metric: Mapping[str, NDArray[np.float64] | None]

    def means(self, where: NDArray[np.bool_] | None = None) -> dict[str, float | None]:
        """Each metric over all questions, or over those of a mask."""
        return {
            name: None if column is None else float(np.mean(column if where is None else column[where]))
            for name, column in self.by_metric.items()
        }


def densities(k: int) -> tuple[int, ...]:
    """1, 2, 3 and the headline density where it is another."""
    return tuple(sorted({*DENSITIES, k}))


def columns(rows: Sequence[AuditRow], *, ep_ref: float | None, k: int) -> Columns:
    """All metrics of a run from its rows. `ep_ref` in percent; None says that the bench has no evidence."""
    answered = all(row.correct is not None for row in rows)
    decoded = ep_ref is not None and any(row.frames_distinct for row in rows)
    joint = answered and ep_ref is not None
    correct = np.array([bool(row.correct) for row in rows], dtype=np.float64)
    precision = np.array([row.precision for row in rows], dtype=np.float64)
    density = np.array([row.density for row in rows], dtype=np.int64)
    covered = {level: (density >= level).astype(np.float64) for level in densities(k)}
    return Columns(
        {
            "Fr": np.array([row.frames_supplied for row in rows], dtype=np.float64),
            "Acc": 100 * correct if answered else None,
            "EP": 100 * precision if decoded else None,
            "AR": 100 * precision / ep_ref if decoded and ep_ref else None,
            **{f"Cov@{level}": 100 * covered[level] if decoded else None for level in densities(k)},
            **{f"ECA@{level}": 100 * correct * covered[level] if joint else None for level in densities(k)},
            f"Cov-Corr@{k}": 100 * correct * covered[k] if joint else None,
            f"Uncov-Corr@{k}": 100 * correct * (1 - covered[k]) if joint else None,
            "Wrong": 100 * (1 - correct) if answered else None,
        }
    )
