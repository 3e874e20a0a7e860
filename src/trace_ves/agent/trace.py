"""TRACE inference: Algorithm 1 of the paper, line by line.

Each module of the paper is a function in the file of its name and a field of `Trace` here, so that an ablation is the
same value with another function in one place.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from trace_ves.agent import (
    anchor_extraction,
    anchor_prioritization,
    claims,
    evidence_assembly,
    final_answer_replay,
    temporal_proposal,
    trajectory_reconciler,
)
from trace_ves.agent.budget import affordable, bundle_frames, reordering_frames
from trace_ves.agent.fallback import fallback_prefixes
from trace_ves.agent.records import Inquiry, frames_in, key
from trace_ves.agent.settings import DEFAULT_BUDGET, TraceSettings
from trace_ves.agent.state import State
from trace_ves.agent.storyboard import make_storyboard
from trace_ves.agent.temporal_proposal import ProposalContext, ProposedCandidates, unguided
from trace_ves.agent.trajectory_reconciler import ReconcilerContext
from trace_ves.backbone.replies import same_answer
from trace_ves.core import Answer, InputError, Question, Termination
from trace_ves.observer import UNLIMITED, Decided, RoundStarted
from trace_ves.records import ClipRecord
from trace_ves.records.trace import Drop, Expand, Refine, ReplayRecord, RoundRecord, Stop, TraceRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trace_ves.agent.records import BundleKey, PrefixBundle, VisualAnchor
    from trace_ves.core import Clip
    from trace_ves.observer import Observer
    from trace_ves.records.trace import Action, Candidate, Claim, Decision, Flags, PrefixRecord, Trajectory


def growing_prefixes(anchors: PrefixBundle) -> tuple[PrefixBundle, ...]:
    """E_1, ..., E_n: each bundle is the one before and one anchor more."""
    return tuple(anchors[:j] for j in range(1, len(anchors) + 1))


def replay_from_clips(inquiry: Inquiry, bundle: PrefixBundle, _: PrefixRecord, settings: TraceSettings) -> str | None:
    """Final answer replay, as the paper has it."""
    return final_answer_replay.replay(inquiry, bundle, settings)


@dataclass(frozen=True, slots=True)
class Trace:
    """TRACE as a value: its modules and its numbers. Calling it answers one question."""

    settings: TraceSettings = TraceSettings()
    make_claims: Callable[[Question, Observer], tuple[Claim, ...]] = claims.make_claims
    propose: Callable[[Inquiry, Clip, ProposalContext, TraceSettings], ProposedCandidates] = temporal_proposal.propose
    extract: Callable[[Inquiry, Sequence[Candidate], Sequence[str], TraceSettings], tuple[VisualAnchor | None, ...]] = (
        anchor_extraction.extract
    )
    prioritize: Callable[[Inquiry, PrefixBundle], PrefixBundle] = anchor_prioritization.prioritize
    prefixes: Callable[[PrefixBundle], tuple[PrefixBundle, ...]] = growing_prefixes
    assemble: Callable[[Inquiry, Sequence[PrefixBundle], TraceSettings], tuple[PrefixRecord, ...]] = (
        evidence_assembly.assemble
    )
    flags: Callable[[Sequence[PrefixBundle], Trajectory, frozenset[BundleKey]], Flags] = trajectory_reconciler.flags
    reconcile: Callable[[Inquiry, ReconcilerContext], Decision] = trajectory_reconciler.reconcile
    actions: frozenset[type[Action]] = frozenset({Drop, Refine, Expand})
    """What the reconciler may choose from when it does not stop."""
    replay: Callable[[Inquiry, PrefixBundle, PrefixRecord, TraceSettings], str | None] = replay_from_clips

    @property
    def default_budget(self) -> int:
        """Frames that one question may cost where a person set no budget."""
        return DEFAULT_BUDGET

    def __call__(self, question: Question, observer: Observer) -> Answer:
        """Answer a question from a stable prefix that replay confirmed, or, saying so, from the best that was found."""
        if observer.budget == UNLIMITED:
            observer.budget = self.default_budget  # a wrapper around TRACE has TRACE's budget too
        if observer.budget < self.settings.least_budget:
            raise InputError(
                f"a budget of {observer.budget} frames is too small: the storyboard, one anchor and its replay need "
                f"{self.settings.least_budget}; raise --budget."
            )
        inquiry = Inquiry(question, self.make_claims(question, observer), observer)
        return Search(self, inquiry, make_storyboard(observer, self.settings), State(observer.whole)).run()


@dataclass(slots=True)
class Search:
    """One run of Algorithm 1: the loop, and what it remembers."""

    trace: Trace
    inquiry: Inquiry
    storyboard: Clip
    """S."""
    state: State
    """A_t, R_t, U_t, and what the last action left to do."""
    bundles: tuple[PrefixBundle, ...] = ()
    trajectory: Trajectory = ()
    """tau."""
    records: dict[BundleKey, PrefixRecord] = field(default_factory=dict)
    """The record of every bundle ever read, so that only newly formed bundles cost anything."""
    replays: dict[BundleKey, ReplayRecord] = field(default_factory=dict)
    rounds: list[RoundRecord] = field(default_factory=list)
    names: Iterator[str] = field(default_factory=lambda: (f"a{n}" for n in itertools.count(1)))

    def run(self) -> Answer:
        """Go round by round while budget remains; stop where replay confirms a stable prefix."""
        for number in range(1, self.settings.max_rounds + 1):
            self.rounds.append(RoundRecord(number))
            self.inquiry.observer.announce(RoundStarted(number))

            candidates = self.propose()  # P_t <- TP(S, q, O, R, A, U)
            if not candidates and (self.state.proposing or self.state.pending):
                break  # nowhere left to look, or no frames left to look with
            self.extract(candidates)  # valid anchors from P_t; update A_t and R_t
            self.prioritize()  # order anchors ...
            bundles = self.trace.prefixes(self.state.anchors)  # ... and form prefix bundles E_1, ..., E_n
            if not self.can_finish(bundles):
                break  # the replay's frames are reserved
            self.assemble(bundles)  # r_j <- EA(E_j, q, O) for each newly formed E_j; tau = (r_1, ..., r_n)
            action = self.reconcile()  # (u, U_t, j*) <- TR(tau, R_t, B)

            if isinstance(action, Stop):
                bundle = self.bundles[action.prefix]
                replay = self.replay(action.prefix)
                self.note(replay=replay)
                if replay.agrees:
                    return self.answer(replay.answer, Termination.STABLE_PREFIX_FOUND, bundle)
                self.state = self.state.with_refuted(bundle)
                action = self.reconcile(stopping=False)  # a mismatch is a conflict signal
            if action is None:
                break  # nothing is left that could be done
            self.state = self.state.after(action)  # DROP, REFINE, or EXPAND

        return self.forced_answer()  # budget exhaustion is not sufficiency

    @property
    def settings(self) -> TraceSettings:
        """The numbers of this run."""
        return self.trace.settings

    def note(self, **changes: Any) -> None:
        """Write into the record of the current round."""
        self.rounds[-1] = replace(self.rounds[-1], **changes)

    def propose(self) -> tuple[Candidate, ...]:
        """Candidates from Temporal Proposal, or the closer look that REFINE asked for, or none after DROP."""
        proposal = (
            self._proposal() if self.state.proposing else ProposedCandidates(self.state.pending, self.state.notes or ())
        )
        remaining = self.inquiry.observer.remaining
        candidates = affordable(proposal.candidates, self.state.anchors, remaining, self.settings)
        self.state = replace(self.state, notes=proposal.notes)
        self.note(candidates=candidates, refused=proposal.refused)
        return candidates

    def _proposal(self) -> ProposedCandidates:
        state, settings = self.state, self.settings
        within = state.unexplored(settings.shortest_segment) if state.focus is None else state.focus
        supply = len(self.storyboard.frames) if state.notes is None or settings.resupply_storyboard else 0
        if not within or supply > self.inquiry.observer.remaining:
            return ProposedCandidates(notes=state.notes or ())
        context = ProposalContext(within, state.anchors, state.needs, state.notes)
        proposal = self.trace.propose(self.inquiry, self.storyboard, context, settings)
        return proposal if proposal.candidates else replace(proposal, candidates=unguided(within, settings))

    def extract(self, candidates: Sequence[Candidate]) -> None:
        """Look at the candidates; keep the anchors found."""
        names = [next(self.names) for _ in candidates]
        found = self.trace.extract(self.inquiry, candidates, names, self.settings)
        self.state = self.state.with_found(candidates, found)
        self.note(anchors=tuple(anchor.record for anchor in found if anchor is not None))

    def prioritize(self) -> None:
        """Order anew when anchors are new and a new order can be paid for; otherwise the newest come last."""
        anchors = self.state.anchors
        if self.rounds[-1].anchors and reordering_frames(anchors) <= self.inquiry.observer.remaining:
            self.state = replace(self.state, anchors=self.trace.prioritize(self.inquiry, anchors))

    def can_finish(self, bundles: Sequence[PrefixBundle]) -> bool:
        """Whether the new bundles can be read and the largest one replayed."""
        needed = bundle_frames(self._newly_formed(bundles)) + frames_in(self.state.anchors)
        return needed <= self.inquiry.observer.remaining

    def _newly_formed(self, bundles: Sequence[PrefixBundle]) -> list[PrefixBundle]:
        return [bundle for bundle in bundles if key(bundle) not in self.records]

    def assemble(self, bundles: tuple[PrefixBundle, ...]) -> None:
        """Read the newly formed bundles; the trajectory is the records of all."""
        fresh = self._newly_formed(bundles)
        records = self.trace.assemble(self.inquiry, fresh, self.settings)
        self.records |= dict(zip(map(key, fresh), records, strict=True))
        self.bundles = bundles
        self.trajectory = tuple(self.records[key(bundle)] for bundle in bundles)
        self.note(
            bundles=tuple(tuple(anchor.id for anchor in bundle) for bundle in bundles),
            assembled=tuple(j for j, bundle in enumerate(bundles) if bundle in fresh),
            records=self.trajectory,
        )

    def reconcile(self, *, stopping: bool = True) -> Action | None:
        """What the Trajectory Reconciler decides; after a replay that disagreed, anything but STOP."""
        flags = self.trace.flags(self.bundles, self.trajectory, self.state.refuted)
        if not stopping:
            flags = replace(flags, stable_prefix=None)
        context = ReconcilerContext(
            bundles=self.bundles,
            trajectory=self.trajectory,
            flags=flags,
            unexplored=self.state.unexplored(self.settings.shortest_segment),
            expand_limit=self.settings.expand_limit,
            allowed=self.trace.actions,
        )
        decision = self.trace.reconcile(self.inquiry, context)
        self.state = replace(self.state, needs=flags.unmet_needs)
        self.note(flags=flags, decisions=(*self.rounds[-1].decisions, decision))
        self.inquiry.observer.announce(Decided(type(decision.action).__name__.upper() if decision.action else None))
        return decision.action

    def replay(self, prefix: int) -> ReplayRecord:
        """Answer again from the raw clips of a prefix; the same clips are never replayed twice."""
        bundle, record = self.bundles[prefix], self.trajectory[prefix]
        if key(bundle) not in self.replays:
            answer = self.trace.replay(self.inquiry, bundle, record, self.settings)
            names = tuple(anchor.id for anchor in bundle)
            self.replays[key(bundle)] = ReplayRecord(names, answer, same_answer(answer, record.answer))
        return self.replays[key(bundle)]

    def forced_answer(self) -> Answer:
        """P <- least-conflicted fallback prefix; the replay of it is the answer, and sufficiency is not claimed."""
        conflicts = self.trace.flags(self.bundles, self.trajectory, self.state.refuted).conflicts
        ranked = fallback_prefixes(self.bundles, self.trajectory, conflicts=conflicts, refuted=self.state.refuted)
        remaining = self.inquiry.observer.remaining
        for prefix in ranked:
            bundle = self.bundles[prefix]
            if key(bundle) in self.replays or frames_in(bundle) <= remaining:
                fallback = self.replay(prefix)
                return self.answer(fallback.answer, Termination.NO_STABLE_PREFIX, bundle, fallback)
        return self.answer(None, Termination.NO_STABLE_PREFIX, ())

    def answer(
        self,
        option: str | None,
        termination: Termination,
        bundle: PrefixBundle,
        fallback: ReplayRecord | None = None,
    ) -> Answer:
        """The answer with the clips it rests on and the account of the whole search."""
        stable = termination is Termination.STABLE_PREFIX_FOUND
        record = TraceRecord(
            claims=self.inquiry.claims,
            storyboard=ClipRecord.of(self.storyboard),
            notes=self.state.notes or (),
            rounds=tuple(self.rounds),
            stable_prefix=tuple(anchor.id for anchor in bundle) if stable else None,
            fallback=fallback,
        )
        return Answer(option, termination, tuple(anchor.clip for anchor in bundle), record.to_json())
