"""Where a sampler that knows nothing of the question puts its frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trace_ves.core.interval import Interval


def centred_uniform(span: Interval, count: int) -> tuple[float, ...]:
    """The paper's canonical schedule: t_j = start + (j + 1/2) * length / count."""
    if count < 1:
        raise ValueError(f"a sampler needs at least one frame, got {count}")
    return tuple(span.start + (2 * j + 1) * span.length / (2 * count) for j in range(count))
