"""The paper's ablations, each as TRACE with one part exchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trace_ves.agent import trajectory_reconciler
from trace_ves.agent.settings import TraceSettings
from trace_ves.agent.trace import Trace, replay_from_clips
from trace_ves.records.trace import Drop, Refine

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from trace_ves.agent.records import BundleKey, Inquiry, PrefixBundle
    from trace_ves.records.trace import Flags, PrefixRecord, Trajectory

TRACE: Final = Trace()

FIXED_ROUNDS: Final = 2


def trust_the_record(
    inquiry: Inquiry, bundle: PrefixBundle, record: PrefixRecord, settings: TraceSettings
) -> str | None:
    """No replay: the record of Evidence Assembly alone. A forced answer that it does not hold is still asked for."""
    return record.answer if record.answer is not None else replay_from_clips(inquiry, bundle, record, settings)


def whole_bundle(anchors: PrefixBundle) -> tuple[PrefixBundle, ...]:
    """No growth: one bundle of all anchors."""
    return (anchors,) if anchors else ()


def never_stable(bundles: Sequence[PrefixBundle], trajectory: Trajectory, refuted: Collection[BundleKey] = ()) -> Flags:
    """No stop by rule: the rounds decide when it is over."""
    return replace(trajectory_reconciler.flags(bundles, trajectory, refuted), stable_prefix=None)


VARIANTS: Final = {
    "trace": TRACE,
    "trace-without-replay": replace(TRACE, replay=trust_the_record),
    "trace-without-trajectory": replace(TRACE, prefixes=whole_bundle),
    "trace-without-expand": replace(TRACE, actions=frozenset({Drop, Refine})),
    "trace-fixed-rounds": replace(TRACE, flags=never_stable, settings=TraceSettings(max_rounds=FIXED_ROUNDS)),
    "trace-chronological": replace(TRACE, settings=TraceSettings(layout="chronological")),
    "trace-resupply-storyboard": replace(TRACE, settings=TraceSettings(resupply_storyboard=True)),
}
"""TRACE and its variants by the name that the command line knows."""
