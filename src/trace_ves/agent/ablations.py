"""The paper's ablations, each as TRACE with one part replaced."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trace_ves.agent import trajectory_reconciler
from trace_ves.agent.final_answer_replay import force
from trace_ves.agent.settings import TraceSettings
from trace_ves.agent.trace import Trace
from trace_ves.records.search import Drop, Flags, PrefixRecord, Refine, Trajectory

if TYPE_CHECKING:
    from trace_ves.agent.anchors import BundleKey, Inquiry, PrefixBundle

TRACE: Final = Trace()

FIXED_ROUNDS: Final = 2
"""Our choice, because the paper states no number. With two rounds, the variant searches once after its first look."""


def replay_record(_: Inquiry, __: PrefixBundle, record: PrefixRecord, ___: TraceSettings) -> str | None:
    """No replay: only the record of Evidence Assembly."""
    return record.answer


def force_unless_answered(
    inquiry: Inquiry, bundle: PrefixBundle, record: PrefixRecord | None, settings: TraceSettings
) -> str | None:
    """No second look if the record has an answer; otherwise a forced answer."""
    if record is not None and record.answer is not None:
        return record.answer
    return force(inquiry, bundle, record, settings)


def view_last(bundles: tuple[PrefixBundle, ...], trajectory: Trajectory) -> tuple[tuple[PrefixBundle, ...], Trajectory]:
    """No trajectory: prefix bundles are formed and read as usual, but the reconciler sees only the largest one."""
    return bundles[-1:], trajectory[-1:]


def flags_without_stop(
    bundles: Sequence[PrefixBundle], trajectory: Trajectory, refuted: Collection[BundleKey] = ()
) -> Flags:
    """No stop by rule: the search ends after a fixed number of rounds."""
    return replace(trajectory_reconciler.flags(bundles, trajectory, refuted), stable_prefix=None)


VARIANTS: Final = {
    "trace": TRACE,
    "trace-without-replay": replace(TRACE, replay=replay_record, force=force_unless_answered),
    "trace-without-trajectory": replace(TRACE, view=view_last),
    "trace-without-expand": replace(TRACE, actions=frozenset({Drop, Refine})),
    "trace-fixed-rounds": replace(TRACE, flags=flags_without_stop, settings=TraceSettings(max_rounds=FIXED_ROUNDS)),
    "trace-staged": replace(TRACE, settings=TraceSettings(look_frames_per_round=25)),
    "trace-chronological": replace(TRACE, settings=TraceSettings(layout="chronological")),
    "trace-resupply-storyboard": replace(TRACE, settings=TraceSettings(resupply_storyboard=True)),
}
"""TRACE and its variants by name."""
