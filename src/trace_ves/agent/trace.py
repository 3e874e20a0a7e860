"""TRACE inference: Algorithm 1 of the paper, line by line.

Each module of the paper is a function in the file with its name and a field of `Trace` here. An ablation replaces one
of these functions.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from inspect import signature
from typing import Any, ClassVar

from trace_ves.agent import (
    anchor_extraction,
    anchor_prioritization,
    claims,
    evidence_assembly,
    final_answer_replay,
    temporal_proposal,
    trajectory_reconciler,
)
from trace_ves.agent.anchor_extraction import add_frames, drop_repeats, make_anchor, plan_closer_looks
from trace_ves.agent.anchors import BundleKey, Inquiry, Look, PrefixBundle, anchor_ids, bundle_key, count_frames
from trace_ves.agent.budget import (
    choose_anchor_frames,
    count_look_frames,
    count_looks,
    estimate_action_costs,
    select_affordable,
    sum_frames,
)
from trace_ves.agent.comparison import Wordings, mark_completeness, unify_wordings
from trace_ves.agent.exploration import find_unexplored, find_unpromising, merge_spans, pick_scan_moments, pick_spacing
from trace_ves.agent.fallback import rank_fallbacks
from trace_ves.agent.settings import DEFAULT_BUDGET, TraceSettings
from trace_ves.agent.state import State
from trace_ves.agent.storyboard import make_storyboard
from trace_ves.agent.temporal_proposal import ProposalContext, ProposedCandidates, propose_unguided
from trace_ves.agent.trajectory_reconciler import ReconcilerContext
from trace_ves.core import Answer, Clip, InputError, Interval, Question, Termination
from trace_ves.core.interval import subtract, union
from trace_ves.observer import UNLIMITED, Decided, Observer, RoundStarted
from trace_ves.records import ClipRecord
from trace_ves.records.search import (
    Action,
    Candidate,
    Claim,
    Decision,
    Drop,
    Expand,
    Flags,
    PrefixRecord,
    Refine,
    Relevance,
    ReplayRecord,
    RoundRecord,
    SegmentNote,
    Stop,
    TraceRecord,
    Trajectory,
)


def form_prefixes(anchors: PrefixBundle) -> tuple[PrefixBundle, ...]:
    """E_1, ..., E_n: each bundle has one more anchor than the one before."""
    return tuple(anchors[:j] for j in range(1, len(anchors) + 1))


def view_all(bundles: tuple[PrefixBundle, ...], trajectory: Trajectory) -> tuple[tuple[PrefixBundle, ...], Trajectory]:
    """The reconciler reads every record."""
    return bundles, trajectory


@dataclass(frozen=True, slots=True)
class Trace:
    """TRACE: its modules and its numbers. Calling it answers one question.

    A replacement for a module must take the same arguments; otherwise the constructor raises an `InputError`.
    """

    default_budget: ClassVar = DEFAULT_BUDGET
    reads_subtitles: ClassVar = True
    """Temporal Proposal and Evidence Assembly show subtitles; replay and forced answers see only raw clips."""

    settings: TraceSettings = TraceSettings()
    make_claims: Callable[[Question, Observer], tuple[Claim, ...]] = claims.make_claims
    propose: Callable[[Inquiry, Clip | None, ProposalContext, TraceSettings], ProposedCandidates] = (
        temporal_proposal.propose
    )
    extract: Callable[..., tuple[Look, ...]] = anchor_extraction.extract
    prioritize: Callable[[Inquiry, PrefixBundle, frozenset[str]], PrefixBundle] = anchor_prioritization.prioritize
    prefixes: Callable[[PrefixBundle], tuple[PrefixBundle, ...]] = form_prefixes
    assemble: Callable[[Inquiry, Sequence[PrefixBundle], TraceSettings], tuple[PrefixRecord, ...]] = (
        evidence_assembly.assemble
    )
    view: Callable[[tuple[PrefixBundle, ...], Trajectory], tuple[tuple[PrefixBundle, ...], Trajectory]] = view_all
    """Selects the part of the trajectory that the reconciler reads."""
    flags: Callable[[Sequence[PrefixBundle], Trajectory, frozenset[BundleKey]], Flags] = trajectory_reconciler.flags
    reconcile: Callable[[Inquiry, ReconcilerContext], Decision] = trajectory_reconciler.reconcile
    actions: frozenset[type[Action]] = frozenset({Drop, Refine, Expand})
    """The actions that the reconciler may choose besides STOP."""
    replay: Callable[[Inquiry, PrefixBundle, PrefixRecord, TraceSettings], str | None] = final_answer_replay.replay
    force: Callable[[Inquiry, PrefixBundle, PrefixRecord | None, TraceSettings], str | None] = final_answer_replay.force

    def __post_init__(self) -> None:
        for name, default in [(each.name, each.default) for each in fields(self) if callable(each.default)]:
            arguments = signature(default).parameters
            try:
                signature(getattr(self, name)).bind(*arguments)
            except TypeError as error:
                raise InputError(f"Trace.{name} must take the arguments {', '.join(arguments)}: {error}.") from None

    def __call__(self, question: Question, observer: Observer) -> Answer:
        """Answer a question: from a stable prefix confirmed by replay, or from the best fallback."""
        if observer.budget == UNLIMITED:
            observer.budget = self.default_budget  # for wrappers around TRACE, which state no budget
        if observer.budget < self.settings.least_budget:
            raise InputError(
                f"a budget of {observer.budget} frames is too small: the storyboard, one look and an answer need "
                f"{self.settings.least_budget}; raise --budget."
            )
        inquiry = Inquiry(question, self.make_claims(question, observer), observer)
        storyboard = make_storyboard(observer, self.settings)
        state = State(observer.whole, notes=self.recall_notes(observer, storyboard))
        trace = replace(self, settings=self.settings.for_count()) if inquiry.counts else self
        return Search(trace, inquiry, storyboard, state, Wordings(inquiry)).run()

    def recall_notes(self, observer: Observer, storyboard: Clip) -> tuple[SegmentNote, ...] | None:
        """The notes of an earlier question on the same storyboard, or None.

        All of them become promising, because this is another question.
        """
        if self.settings.resupply_storyboard or Expand not in self.actions:
            return None
        notes = observer.recall(temporal_proposal.PROMPT.stage, storyboard)
        if not isinstance(notes, tuple):
            return None
        return tuple(replace(note, promising=True) for note in notes)


@dataclass(slots=True)
class Search:
    """One run of Algorithm 1: the loop and its state."""

    trace: Trace
    inquiry: Inquiry
    storyboard: Clip  # S
    state: State  # A_t, U_t, and the effects of the last action
    wordings: Wordings  # The answers to an open question, by meaning
    bundles: tuple[PrefixBundle, ...] = ()
    trajectory: Trajectory = ()  # tau
    records: dict[BundleKey, PrefixRecord] = field(default_factory=dict)
    """The record of every bundle that was read, so that none is read twice."""
    replays: dict[BundleKey, ReplayRecord] = field(default_factory=dict)
    rounds: list[RoundRecord] = field(default_factory=list)
    scan: Clip | None = None  # Frames between those of the storyboard, after a scan
    scan_helps: bool = True  # Whether single frames can show what is open
    names: Iterator[str] = field(default_factory=lambda: (f"a{n}" for n in itertools.count(1)))
    look_names: Iterator[str] = field(default_factory=lambda: (f"look-{n}" for n in itertools.count(1)))

    def run(self) -> Answer:
        """Search round by round while budget remains; stop when replay confirms a stable prefix."""
        for number in range(1, self.settings.max_rounds + 1):
            self.rounds.append(RoundRecord(number))
            self.inquiry.observer.announce(RoundStarted(number))

            candidates = self.propose()  # P_t <- TP(S, q, O, R, A, U)
            if not candidates and not self.has_unread:
                break  # no place or no frames left for a look
            self.extract(candidates)  # valid anchors from P_t; update A_t and R_t
            if not self.state.anchors or (candidates and self.keeps_looking and number < self.settings.max_rounds):
                continue  # nothing to read yet, or no bundle could be sufficient
            self.prioritize()  # order anchors ...
            bundles = self.select_bundles(self.trace.prefixes(self.state.anchors))  # ... and form bundles E_1, ..., E_n
            if bundles is None and not candidates:
                break  # after DROP, the budget covers neither reading nor looking
            if bundles is None:
                continue  # spend the rest of the budget, except for a forced answer, on more looks
            self.assemble(bundles)  # r_j <- EA(E_j, q, O) for each newly formed E_j; tau = (r_1, ..., r_n)
            action = self.reconcile()  # (u, U_t, j*) <- TR(tau, R_t, B)

            if isinstance(action, Stop):
                bundle = self.comparable[0][action.prefix]
                replay = self.replay(bundle)
                self.note(replay=replay)
                if replay.agrees:
                    return self.answer(replay.answer, Termination.STABLE_PREFIX_FOUND, bundle)
                self.state = replace(self.state, refuted=self.state.refuted | {bundle_key(bundle)})
                action = self.reconcile(stopping=False)  # a mismatch is a conflict signal
            if action is None:
                break  # no action is left
            self.state = self.state.after(action, self.settings)  # DROP, REFINE, or EXPAND

        return self.force_answer()  # budget exhaustion is not sufficiency

    @property
    def settings(self) -> TraceSettings:
        """The numbers of this search."""
        return self.trace.settings

    @property
    def remaining(self) -> int:
        """The frames that are left of the budget."""
        return self.inquiry.observer.remaining

    def note(self, **changes: Any) -> None:
        """Update the record of the current round."""
        self.rounds[-1] = replace(self.rounds[-1], **changes)

    @property
    def preview_moments(self) -> tuple[float, ...]:
        """The moments of the storyboard and the scan."""
        frames = self.storyboard.frames + (self.scan.frames if self.scan else ())
        return tuple(sorted(frame.seconds for frame in frames))

    @property
    def seen_moments(self) -> tuple[float, ...]:
        """The moments of all looks, and those of the storyboard and the scan where the notes are not promising."""
        calls = self.inquiry.observer.log.calls
        looks = [t for call in calls if call.stage == anchor_extraction.PROMPT.stage for t in call.timestamps]
        unpromising = [(note.start, note.end) for note in self.state.notes or () if not note.promising]
        return (*looks, *(t for t in self.preview_moments if any(start <= t <= end for start, end in unpromising)))

    @property
    def empty_moments(self) -> tuple[float, ...]:
        """The seen moments without evidence."""
        return tuple(moment for moment in self.seen_moments if not any(moment in span for span in self.state.evidence))

    @property
    def spacing(self) -> float:
        """The largest distance between frames at which the time between them counts as explored."""
        if self.inquiry.counts:
            return pick_spacing(self.occurrences, self.settings)
        return self.settings.seen_spacing_seconds

    @property
    def unexplored(self) -> tuple[Interval, ...]:
        """R_t."""
        return find_unexplored(self.inquiry.observer.whole, self.seen_moments, self.spacing)

    @property
    def unpromising(self) -> tuple[Interval, ...]:
        """For a count, the spans that single frames show to be not promising."""
        return find_unpromising(self.preview_moments, self.state.notes or (), self.occurrences)

    @property
    def occurrences(self) -> tuple[Interval, ...]:
        """The occurrences found for a count."""
        return merge_spans(self.state.evidence, self.empty_moments, self.settings.adjoining_seconds)

    @property
    def uncounted(self) -> tuple[Interval, ...]:
        """The spans that may contain another occurrence; empty if the count is complete."""
        shortest = self.settings.shortest_segment
        return tuple(part for piece in self.unexplored for part in subtract(piece, self.unpromising, shortest=shortest))

    @property
    def comparable(self) -> tuple[tuple[PrefixBundle, ...], Trajectory]:
        """The bundles and tau in the form that the reconciler reads, comparable by rule."""
        bundles, trajectory = self.trace.view(self.bundles, self.trajectory)
        unified = unify_wordings(trajectory, self.inquiry.claims, self.wordings)
        return bundles, mark_completeness(
            unified, self.inquiry.claims, explored=not self.uncounted, elsewhere=self.empty_moments
        )

    @property
    def has_unread(self) -> bool:
        """Whether no call has read all current anchors together."""
        return self.state.rebuild or bool(self.state.anchors and bundle_key(self.state.anchors) not in self.records)

    @property
    def missing(self) -> tuple[str, ...]:
        """The open claims without an anchor since the last reading. An anchor without claims may be for any of them."""
        read = {anchor.id for bundle in self.bundles for anchor in bundle}
        new = [anchor.claims for anchor in self.state.anchors if anchor.id not in read]
        covered = frozenset().union(*new) if all(new) else self.inquiry.open_claims(self.state.needs)
        return tuple(claim for claim in self.inquiry.open_claims(self.state.needs) if claim not in covered)

    @property
    def doubtful(self) -> tuple[str, ...]:
        """The open claims for which looks have shown at most a part or the result."""
        sure = frozenset().union(*(anchor.claims for anchor in self.state.anchors if anchor.is_sure))
        return tuple(claim for claim in self.inquiry.open_claims(self.state.needs) if claim not in sure)

    @property
    def anchors_needed(self) -> int:
        """The least number of new anchors before a bundle can be sufficient."""
        return 1 if self.inquiry.counts else max(1, len(self.missing))

    @property
    def keeps_looking(self) -> bool:
        """Whether to look again before reading: no bundle can be sufficient yet, and the budget covers a look."""
        incomplete = self.uncounted if self.inquiry.counts else self.missing
        look = self.settings.least_candidate_frames + self.settings.least_anchor_frames
        return bool(
            incomplete
            and Expand in self.trace.actions
            and self.unexplored
            and count_frames(self.state.anchors) + look <= self.remaining
        )

    def propose(self) -> tuple[Candidate, ...]:
        """The looks that REFINE or EXPAND requested, else new candidates, as far as the budget covers them."""
        state, remaining = self.state, self.remaining
        asks_again = self.settings.resupply_storyboard and state.focus  # the variant shows the storyboard again
        proposed = () if asks_again else state.pending
        if not proposed and not state.rebuild:
            proposed = self.propose_candidates()
            remaining = self.remaining
        candidates = select_affordable(
            proposed, state.anchors, remaining, self.count_reading(self.anchors_needed), self.settings
        )
        named = tuple(replace(candidate, id=next(self.look_names)) for candidate in candidates)
        self.state = replace(self.state, pending=(), focus=())
        self.note(candidates=named)
        return named

    def propose_candidates(self) -> tuple[Candidate, ...]:
        """The candidates of Temporal Proposal: from the storyboard, then from a scan, then from the notes."""
        first = self.state.notes is None
        if not first and (Expand not in self.trace.actions or not self.unexplored):
            return ()
        pictures = self.storyboard if first or self.settings.resupply_storyboard else None
        asks = pictures is not None or len(self.rounds) == 1  # the first round may have notes of an earlier question
        proposed = self.ask_for_candidates(pictures) if asks else ()
        hinted = tuple(candidate for candidate in proposed if candidate.moment is not None)
        if hinted and not self.inquiry.counts:
            return hinted  # their results help to decide where else to look
        if (scan := self.make_scan(hinted)) is not None:
            self.scan = scan
            self.note(scan=tuple(frame.seconds for frame in scan.frames))
            better = self.ask_for_candidates(scan, hinted)
            rest = (each for each in proposed if not any(each.span.intersection(other.span) for other in better))
            proposed = better + tuple(rest)
        elif not asks:
            proposed = self.ask_for_candidates(None)
        if not proposed:
            proposed = propose_unguided(self.proposal_context, self.settings)
        return tuple(sorted(proposed, key=lambda candidate: candidate.moment is None))

    def ask_for_candidates(self, pictures: Clip | None, chosen: tuple[Candidate, ...] = ()) -> tuple[Candidate, ...]:
        """Call Temporal Proposal for candidates besides those already chosen, and store its notes."""
        supplied = len(pictures.frames) if pictures else 0
        context = replace(self.proposal_context, chosen=chosen)
        if supplied + count_frames(self.state.anchors) > self.remaining or context.limit <= len(chosen):
            return chosen
        proposal = self.trace.propose(self.inquiry, pictures, context, self.settings)
        if self.state.notes is None and proposal.notes:
            self.inquiry.observer.remember(self.storyboard, proposal.notes)
        self.state = replace(self.state, notes=proposal.notes)
        self.scan_helps = proposal.one_frame
        self.note(refused=(*self.rounds[-1].refused, *proposal.refused))
        return proposal.candidates

    @property
    def proposal_context(self) -> ProposalContext:
        """The context of Temporal Proposal."""
        state, remaining = self.state, self.remaining
        available = remaining - (len(self.storyboard.frames) if state.notes is None else 0)
        return ProposalContext(
            whole=self.inquiry.observer.whole,
            seen=self.seen_moments,
            spacing=self.spacing,
            focus=state.focus,
            anchors=state.anchors,
            looks=state.looks,
            needs=state.needs if self.inquiry.counts else frozenset(self.missing or self.doubtful) or state.needs,
            notes=state.notes or (),
            limit=count_looks(state.anchors, available, self.count_reading(self.anchors_needed), self.settings),
            counts=self.inquiry.counts,
        )

    def make_scan(self, hinted: Sequence[Candidate]) -> Clip | None:
        """One scan between the frames of the storyboard, for open claims without evidence and hints."""
        if self.scan is not None or not self.scan_helps or len(hinted) >= self.proposal_context.limit:
            return None
        looks = count_look_frames(hinted) + self.settings.candidate_frames * self.anchors_needed
        available = self.remaining - looks
        largest = count_frames(self.state.anchors) + self.anchors_needed * self.settings.least_anchor_frames
        reserves = (self.count_reading(self.anchors_needed), 2 * largest, largest)  # as in budget.py
        counts = [min(self.settings.scan_frames, available - reserve) for reserve in reserves]
        count = next((count for count in counts if count >= self.settings.least_scan_frames), 0)
        excluded = [candidate.span for candidate in hinted]
        storyboard = [frame.seconds for frame in self.storyboard.frames]
        moments = pick_scan_moments(storyboard, self.state.notes or (), excluded, max(0, count))
        if len(moments) < self.settings.least_scan_frames:
            return None
        frames = self.inquiry.observer.frames_at(moments, height=self.storyboard.strategy.height)
        return replace(self.storyboard, frames=frames, title="Scan")

    def extract(self, candidates: Sequence[Candidate]) -> None:
        """Look at the candidates, look closer where the model is not sure, and add the anchors."""
        looks = self.look(candidates)
        looks += self.look(
            self.select_looks(plan_closer_looks(looks, self.inquiry.observer.whole, self.settings), looks)
        )
        events = [(look, event) for look in looks if look.relevant is not Relevance.NO for event in look.events]
        events = drop_repeats(events, self.state.anchors, self.seen_moments, self.settings.adjoining_seconds)
        settings = self.settings
        if self.inquiry.counts or not {claim for _, event in events for claim in event.claims}.issuperset(self.missing):
            settings = replace(settings, most_anchor_frames=settings.least_anchor_frames)  # the search continues
        old_frames = count_frames(self.state.anchors)
        frames = choose_anchor_frames(old_frames, len(events), self.remaining, settings)
        anchors = [
            make_anchor(self.inquiry, next(self.names), event, frames, self.settings, seen=self.seen_moments)
            for event in events
        ]
        self.state = self.state.with_looks(looks, anchors)
        self.note(anchors=tuple(anchor.record for anchor in anchors), looks=tuple(look.record for look in looks))

    def look(self, candidates: Sequence[Candidate]) -> tuple[Look, ...]:
        """Look at these candidates in one batch."""
        if not candidates:
            return ()
        return self.trace.extract(self.inquiry, candidates, self.state.anchors, self.preview_moments, self.seen_moments)

    def select_looks(self, candidates: Sequence[Candidate], looks: Sequence[Look]) -> tuple[Candidate, ...]:
        """The closer looks that the budget covers besides the trajectory of the anchors so far."""
        sure = sum(len(look.events) for look in looks if look.relevant is Relevance.YES)
        for count in range(len(candidates), 0, -1):
            first = candidates[:count]
            if count_look_frames(first) + self.count_reading(sure + count) <= self.remaining:
                return tuple(replace(candidate, id=next(self.look_names)) for candidate in first)
        return ()

    def count_reading(self, new_anchors: int) -> int:
        """Frames to read all unread bundles, with this many new anchors, and to replay; a count reads the largest."""
        anchors = self.state.anchors
        sizes = [len(anchor.clip.frames) for anchor in anchors] + [self.settings.least_anchor_frames] * new_anchors
        totals = list(itertools.accumulate(sizes))
        if self.inquiry.counts:
            return 2 * totals[-1]
        unread = (
            n for n in range(1, len(sizes) + 1) if n > len(anchors) or bundle_key(anchors[:n]) not in self.records
        )
        return sum(totals[n - 1] for n in unread) + totals[-1]

    def prioritize(self) -> None:
        """Order the new anchors after those already read, if the budget covers it."""
        count = len(self.rounds[-1].anchors)
        old, new = self.state.anchors[: -count or None], self.state.anchors[len(self.state.anchors) - count :]
        growth = self._select_unread(self.trace.prefixes(self.state.anchors))
        needed = count + sum_frames(growth) + count_frames(self.state.anchors)
        if count > 1 and needed <= self.remaining:
            self.state = replace(self.state, anchors=old + self.trace.prioritize(self.inquiry, new, self.state.needs))

    def select_bundles(self, bundles: tuple[PrefixBundle, ...]) -> tuple[PrefixBundle, ...] | None:
        """The bundles to read: the largest, and the others from the smallest on, as far as the budget covers them.

        The budget also has to cover a replay of the largest. None if it does not cover the largest.
        """
        available = self.remaining - count_frames(self.state.anchors)
        payable: list[PrefixBundle] = []
        for bundle in (*bundles[-1:], *bundles[:-1]):
            cost = sum_frames(self._select_unread([bundle]))
            if cost <= available:
                payable.append(bundle)
                available -= cost
            elif not payable:
                return None
        skipped = [bundle for bundle in bundles if bundle not in payable]
        reasons = tuple(f"bundle {'+'.join(anchor_ids(b))} not read: its frames cannot be paid for" for b in skipped)
        self.note(refused=(*self.rounds[-1].refused, *reasons))
        return tuple(bundle for bundle in bundles if bundle in payable)

    def _select_unread(self, bundles: Sequence[PrefixBundle]) -> list[PrefixBundle]:
        return [bundle for bundle in bundles if bundle_key(bundle) not in self.records]

    def assemble(self, bundles: tuple[PrefixBundle, ...]) -> None:
        """Read the newly formed bundles, and update the trajectory."""
        unread = self._select_unread(bundles)
        records = self.trace.assemble(self.inquiry, unread, self.settings)
        self.records |= dict(zip(map(bundle_key, unread), records, strict=True))
        self.bundles = bundles
        self.trajectory = tuple(self.records[bundle_key(bundle)] for bundle in bundles)
        self.note(
            bundles=tuple(anchor_ids(bundle) for bundle in bundles),
            assembled=tuple(j for j, bundle in enumerate(bundles) if bundle in unread),
            records=self.trajectory,
        )

    def reconcile(self, *, stopping: bool = True) -> Action | None:
        """Let the Trajectory Reconciler decide; after a replay that disagreed, on any action but STOP."""
        bundles, trajectory = self.comparable
        flags = self.trace.flags(bundles, trajectory, self.state.refuted)
        if not stopping:
            flags = replace(flags, stable_prefix=None)
        context = ReconcilerContext(
            looks=self.state.looks,
            bundles=bundles,
            trajectory=trajectory,
            flags=flags,
            unexplored=self.unexplored,
            expand_limit=self.settings.expand_limit,
            allowed=self.trace.actions,
            notes=self.state.notes or (),
            costs=estimate_action_costs(self.state.anchors, self.settings),
        )
        decision = self.trace.reconcile(self.inquiry, context)
        self.state = replace(self.state, needs=flags.unmet_needs)
        self.note(flags=flags, decisions=(*self.rounds[-1].decisions, decision))
        self.inquiry.observer.announce(Decided(decision))
        return decision.action

    def replay(self, bundle: PrefixBundle) -> ReplayRecord:
        """Answer again from the raw clips of a prefix; the same clips are never replayed twice."""
        if bundle_key(bundle) not in self.replays:
            record = self.records[bundle_key(bundle)]
            answer = self.trace.replay(self.inquiry, bundle, record, self.settings)
            self.replays[bundle_key(bundle)] = ReplayRecord(
                anchor_ids(bundle), answer, self.wordings.agree(answer, record.answer)
            )
        return self.replays[bundle_key(bundle)]

    def force_answer(self) -> Answer:
        """P <- least-conflicted fallback prefix. The answer from its clips may be insufficiently supported."""
        for bundle in self.rank_fallbacks():
            replay = self.replays.get(bundle_key(bundle))
            if replay is not None and replay.answer is not None:
                return self.answer(replay.answer, Termination.NO_STABLE_PREFIX, bundle, replay)
            if count_frames(bundle) <= self.remaining:
                record = self.records.get(bundle_key(bundle))
                bundle = add_frames(self.inquiry, bundle, self.remaining - count_frames(bundle))  # noqa: PLW2901
                answer = self.trace.force(self.inquiry, bundle, record, self.settings)
                agrees = record is not None and self.wordings.agree(answer, record.answer)
                fallback = ReplayRecord(anchor_ids(bundle), answer, agrees)
                return self.answer(answer, Termination.NO_STABLE_PREFIX, bundle, fallback)
        return self.answer_from_storyboard()

    def rank_fallbacks(self) -> list[PrefixBundle]:
        """The fallback bundles, the best first; a bundle of all anchors that was not read comes before them."""
        anchors = self.state.anchors
        unread = [anchors] if anchors and bundle_key(anchors) not in self.records else []
        bundles, trajectory = self.comparable
        conflicts = self.trace.flags(bundles, trajectory, self.state.refuted).conflicts
        ranking = rank_fallbacks(bundles, trajectory, conflicts=conflicts, refuted=self.state.refuted)
        return unread + [bundles[prefix] for prefix in ranking]

    def answer_from_storyboard(self) -> Answer:
        """Answer from the storyboard frames that the budget covers, if there is no anchor."""
        frames = self.storyboard.frames
        count = min(len(frames), self.remaining)
        covered = tuple(frames[(2 * number + 1) * len(frames) // (2 * count)] for number in range(count))
        clips = (replace(self.storyboard, frames=covered),) if covered else ()
        option = final_answer_replay.answer_from_clips(self.inquiry, clips, forced=True) if clips else None
        return self.answer(option, Termination.NO_STABLE_PREFIX, ())  # a storyboard is not evidence

    def answer(
        self, option: str | None, termination: Termination, bundle: PrefixBundle, fallback: ReplayRecord | None = None
    ) -> Answer:
        """Make the answer, with its clips and the record of the search."""
        stable = termination is Termination.STABLE_PREFIX_FOUND
        record = TraceRecord(
            claims=self.inquiry.claims,
            storyboard=ClipRecord.of(self.storyboard),
            notes=self.state.notes or (),
            rounds=tuple(self.rounds),
            stable_prefix=anchor_ids(bundle) if stable else None,
            fallback=fallback,
            unexplored=self.uncounted if self.inquiry.counts else (),
            not_promising=union(self.unpromising) if self.inquiry.counts else (),
        )
        return Answer(option, termination, tuple(anchor.clip for anchor in bundle), record.to_json())
