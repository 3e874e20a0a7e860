"""The prefix for the forced answer: the most stable and least conflicted one. It may be insufficient."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from trace_ves.agent.anchors import BundleKey, PrefixBundle, bundle_key
from trace_ves.agent.trajectory_reconciler import flips

if TYPE_CHECKING:
    from trace_ves.records.search import Trajectory


def rank_fallbacks(
    bundles: Sequence[PrefixBundle],
    trajectory: Trajectory,
    *,
    conflicts: Collection[str],
    refuted: Collection[BundleKey],
) -> list[int]:
    """The indexes of all prefixes, the best fallback first.

    The order is: not refuted, fewest open claims, fewest conflicts, longest run of the same answer, largest bundle.
    """

    def rank(j: int) -> tuple[bool, int, int, int, int]:
        return (
            bundle_key(bundles[j]) in refuted,
            len(trajectory[j].unmet_needs),
            sum(anchor.id in conflicts for anchor in bundles[j]),
            -count_run(trajectory, j),
            -len(bundles[j]),
        )

    return sorted(range(len(trajectory)), key=rank)


def count_run(trajectory: Trajectory, j: int) -> int:
    """The number of consecutive records around j without a flip (a growing count is not one); 0 without an answer."""
    if trajectory[j].answer is None:
        return 0
    first = next((i for i in range(j, 0, -1) if flips(trajectory[i - 1], trajectory[i])), 0)
    last = next(
        (i for i in range(j, len(trajectory) - 1) if flips(trajectory[i], trajectory[i + 1])), len(trajectory) - 1
    )
    return last - first + 1
