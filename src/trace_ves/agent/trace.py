"""TRACE inference: Algorithm 1 of the paper, line by line.

Each module of the paper is a function in the file of its name and a field of `Trace` here, so that an ablation is the
same value with another function in one place.
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
from trace_ves.agent.anchor_extraction import closer_looks, make_anchor, with_frames, without_repeats
from trace_ves.agent.anchors import BundleKey, Inquiry, Look, PrefixBundle, frames_in, key, names_of
from trace_ves.agent.budget import (
    action_costs,
    affordable,
    affordable_looks,
    bundle_frames,
    frames_that_fit,
    looking_frames,
)
from trace_ves.agent.comparison import Wordings, by_meaning, with_completeness
from trace_ves.agent.exploration import counting_spacing, occurrences, passed_over, scan_moments, unexplored
from trace_ves.agent.fallback import fallback_prefixes
from trace_ves.agent.settings import DEFAULT_BUDGET, TraceSettings
from trace_ves.agent.state import State
from trace_ves.agent.storyboard import make_storyboard
from trace_ves.agent.temporal_proposal import ProposalContext, ProposedCandidates, unguided
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


def growing_prefixes(anchors: PrefixBundle) -> tuple[PrefixBundle, ...]:
    """E_1, ..., E_n: each bundle is the one before and one anchor more."""
    return tuple(anchors[:j] for j in range(1, len(anchors) + 1))


def whole_trajectory(
    bundles: tuple[PrefixBundle, ...], trajectory: Trajectory
) -> tuple[tuple[PrefixBundle, ...], Trajectory]:
    """The reconciler reads every record."""
    return bundles, trajectory


@dataclass(frozen=True, slots=True)
class Trace:
    """TRACE as a value: its modules and its numbers. Calling it answers one question.

    A function for a module must take the arguments of the one that it replaces; else making the value fails.
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
    prefixes: Callable[[PrefixBundle], tuple[PrefixBundle, ...]] = growing_prefixes
    assemble: Callable[[Inquiry, Sequence[PrefixBundle], TraceSettings], tuple[PrefixRecord, ...]] = (
        evidence_assembly.assemble
    )
    view: Callable[[tuple[PrefixBundle, ...], Trajectory], tuple[tuple[PrefixBundle, ...], Trajectory]] = (
        whole_trajectory
    )
    """What of the trajectory the reconciler reads."""
    flags: Callable[[Sequence[PrefixBundle], Trajectory, frozenset[BundleKey]], Flags] = trajectory_reconciler.flags
    reconcile: Callable[[Inquiry, ReconcilerContext], Decision] = trajectory_reconciler.reconcile
    actions: frozenset[type[Action]] = frozenset({Drop, Refine, Expand})
    """What the reconciler may choose from when it does not stop."""
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
        """Answer a question from a stable prefix that replay confirmed, or, saying so, from the best that was found."""
        if observer.budget == UNLIMITED:
            observer.budget = self.default_budget  # a wrapper around TRACE has TRACE's budget too
        if observer.budget < self.settings.least_budget:
            raise InputError(
                f"a budget of {observer.budget} frames is too small: the storyboard, one look and an answer need "
                f"{self.settings.least_budget}; raise --budget."
            )
        inquiry = Inquiry(question, self.make_claims(question, observer), observer)
        storyboard = make_storyboard(observer, self.settings)
        state = State(observer.whole, notes=self.recalled_notes(observer, storyboard))
        trace = replace(self, settings=self.settings.for_count()) if inquiry.counts else self
        return Search(trace, inquiry, storyboard, state, Wordings(inquiry)).run()

    def recalled_notes(self, observer: Observer, storyboard: Clip) -> tuple[SegmentNote, ...] | None:
        """The notes that an earlier question about the video made of the same storyboard; None where there are none.

        What was not promising for that question may be for this one.
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
    state: State  # A_t, U_t, and what the last action left to do
    wordings: Wordings  # The answers to an open question, by meaning
    bundles: tuple[PrefixBundle, ...] = ()
    trajectory: Trajectory = ()  # tau
    records: dict[BundleKey, PrefixRecord] = field(default_factory=dict)
    """The record of every bundle ever read, so that only newly formed bundles cost anything."""
    replays: dict[BundleKey, ReplayRecord] = field(default_factory=dict)
    rounds: list[RoundRecord] = field(default_factory=list)
    scan: Clip | None = None  # Frames between those of the storyboard, where a scan was made
    scan_helps: bool = True  # Whether single frames can show what is open
    names: Iterator[str] = field(default_factory=lambda: (f"a{n}" for n in itertools.count(1)))
    look_names: Iterator[str] = field(default_factory=lambda: (f"look-{n}" for n in itertools.count(1)))

    def run(self) -> Answer:
        """Go round by round while budget remains; stop where replay confirms a stable prefix."""
        for number in range(1, self.settings.max_rounds + 1):
            self.rounds.append(RoundRecord(number))
            self.inquiry.observer.announce(RoundStarted(number))

            candidates = self.propose()  # P_t <- TP(S, q, O, R, A, U)
            if not candidates and not self.unread:
                break  # nowhere left to look, or no frames left to look with
            self.extract(candidates)  # valid anchors from P_t; update A_t and R_t
            if not self.state.anchors or (candidates and self.looks_on and number < self.settings.max_rounds):
                continue  # nothing to read yet, or no bundle could be sufficient
            self.prioritize()  # order anchors ...
            bundles = self.payable(self.trace.prefixes(self.state.anchors))  # ... and form prefix bundles E_1, ..., E_n
            if bundles is None and not candidates:
                break  # DROP left what can be neither read nor added to
            if bundles is None:
                continue  # a forced answer from everything found is reserved; the rest is spent on more looks
            self.assemble(bundles)  # r_j <- EA(E_j, q, O) for each newly formed E_j; tau = (r_1, ..., r_n)
            action = self.reconcile()  # (u, U_t, j*) <- TR(tau, R_t, B)

            if isinstance(action, Stop):
                bundle = self.readable[0][action.prefix]
                replay = self.replay(bundle)
                self.note(replay=replay)
                if replay.agrees:
                    return self.answer(replay.answer, Termination.STABLE_PREFIX_FOUND, bundle)
                self.state = self.state.with_refuted(bundle)
                action = self.reconcile(stopping=False)  # a mismatch is a conflict signal
            if action is None:
                break  # nothing is left that could be done
            self.state = self.state.after(action, self.settings)  # DROP, REFINE, or EXPAND

        return self.forced_answer()  # budget exhaustion is not sufficiency

    @property
    def settings(self) -> TraceSettings:
        """The numbers of this run."""
        return self.trace.settings

    def note(self, **changes: Any) -> None:
        """Write into the record of the current round."""
        self.rounds[-1] = replace(self.rounds[-1], **changes)

    @property
    def shown(self) -> tuple[float, ...]:
        """The moments of the storyboard and the scan."""
        frames = self.storyboard.frames + (self.scan.frames if self.scan else ())
        return tuple(sorted(frame.seconds for frame in frames))

    @property
    def looked_at(self) -> tuple[float, ...]:
        """The moments of all looks, and those of the storyboard and the scan where the notes are not promising."""
        calls = self.inquiry.observer.log.calls
        looks = [t for call in calls if call.stage == anchor_extraction.PROMPT.stage for t in call.timestamps]
        dull = [(note.start, note.end) for note in self.state.notes or () if not note.promising]
        return (*looks, *(t for t in self.shown if any(start <= t <= end for start, end in dull)))

    @property
    def seen_elsewhere(self) -> tuple[float, ...]:
        """The moments that were looked at and showed no evidence."""
        return tuple(moment for moment in self.looked_at if not any(moment in span for span in self.state.evidence))

    @property
    def spacing(self) -> float:
        """How close frames must be for what lies between them to count as seen."""
        if self.inquiry.counts:
            return counting_spacing(self.occurrences, self.settings)
        return self.settings.seen_spacing_seconds

    @property
    def unexplored(self) -> tuple[Interval, ...]:
        """R_t."""
        return unexplored(self.inquiry.observer.whole, self.looked_at, self.spacing)

    @property
    def passed_over(self) -> tuple[Interval, ...]:
        """The stretches of a count that single frames show to be not promising."""
        return passed_over(self.shown, self.state.notes or (), self.occurrences)

    @property
    def occurrences(self) -> tuple[Interval, ...]:
        """What was found of a count."""
        return occurrences(self.state.evidence, self.seen_elsewhere, self.settings.adjoining_seconds)

    @property
    def uncounted(self) -> tuple[Interval, ...]:
        """The stretches in which an occurrence of a count like those found could be; none for a complete count."""
        shortest = self.settings.shortest_segment
        return tuple(left for piece in self.unexplored for left in subtract(piece, self.passed_over, shortest=shortest))

    @property
    def readable(self) -> tuple[tuple[PrefixBundle, ...], Trajectory]:
        """The bundles and tau as the reconciler reads them: comparable by rule."""
        bundles, trajectory = self.trace.view(self.bundles, self.trajectory)
        unified = by_meaning(trajectory, self.inquiry.claims, self.wordings)
        return bundles, with_completeness(
            unified,
            self.inquiry.claims,
            explored=not self.uncounted,
            elsewhere=self.seen_elsewhere,
        )

    @property
    def unread(self) -> bool:
        """Whether there are anchors that no call has read together."""
        return self.state.rebuild or bool(self.state.anchors and key(self.state.anchors) not in self.records)

    @property
    def missing(self) -> tuple[str, ...]:
        """The open claims for which no anchor was found since the last reading; one without claims may be for any."""
        read = {anchor.id for bundle in self.bundles for anchor in bundle}
        named = [anchor.claims for anchor in self.state.anchors if anchor.id not in read]
        known = frozenset().union(*named) if all(named) else self.inquiry.open_claims(self.state.needs)
        return tuple(claim for claim in self.inquiry.open_claims(self.state.needs) if claim not in known)

    @property
    def doubtful(self) -> tuple[str, ...]:
        """The open claims of which looks have shown only a part or the result."""
        sure = frozenset().union(*(anchor.claims for anchor in self.state.anchors if anchor.is_sure))
        return tuple(claim for claim in self.inquiry.open_claims(self.state.needs) if claim not in sure)

    @property
    def sought(self) -> int:
        """How many anchors are needed at least before a bundle can be sufficient."""
        return 1 if self.inquiry.counts else max(1, len(self.missing))

    @property
    def looks_on(self) -> bool:
        """Whether to look on before anything is read: no bundle can be sufficient yet, and a look can be paid for."""
        incomplete = self.uncounted if self.inquiry.counts else self.missing
        look = self.settings.least_candidate_frames + self.settings.least_anchor_frames
        return bool(
            incomplete
            and Expand in self.trace.actions
            and self.unexplored
            and frames_in(self.state.anchors) + look <= self.inquiry.observer.remaining
        )

    def propose(self) -> tuple[Candidate, ...]:
        """The looks that REFINE or EXPAND asked for, else new candidates, as far as they can be paid for."""
        state, remaining = self.state, self.inquiry.observer.remaining
        again = self.settings.resupply_storyboard and state.focus  # the variant asks with the storyboard again
        wanted = () if again else state.pending
        if not wanted and not state.rebuild:
            wanted = self.new_candidates()
            remaining = self.inquiry.observer.remaining
        candidates = affordable(wanted, state.anchors, remaining, self.reading_frames(self.sought), self.settings)
        named = tuple(replace(candidate, id=next(self.look_names)) for candidate in candidates)
        self.state = replace(self.state, pending=(), focus=())
        self.note(candidates=named)
        return named

    def new_candidates(self) -> tuple[Candidate, ...]:
        """What Temporal Proposal names: first where the storyboard points, then from a scan, then by the notes."""
        first = self.state.notes is None
        if not first and (Expand not in self.trace.actions or not self.unexplored):
            return ()
        pictures = self.storyboard if first or self.settings.resupply_storyboard else None
        asks = pictures is not None or len(self.rounds) == 1  # round one may have the notes of an earlier question
        proposed = self.ask_for_candidates(pictures) if asks else ()
        hinted = tuple(candidate for candidate in proposed if candidate.moment is not None)
        if hinted and not self.inquiry.counts:
            return hinted  # what they show says what to look for elsewhere
        if (scan := self.make_scan(hinted)) is not None:
            self.scan = scan
            self.note(scan=tuple(frame.seconds for frame in scan.frames))
            better = self.ask_for_candidates(scan, hinted)
            rest = (each for each in proposed if not any(each.span.intersection(other.span) for other in better))
            proposed = better + tuple(rest)
        elif not asks:
            proposed = self.ask_for_candidates(None)
        if not proposed:
            proposed = unguided(self.proposal_context, self.settings)
        return tuple(sorted(proposed, key=lambda candidate: candidate.moment is None))

    def ask_for_candidates(self, pictures: Clip | None, chosen: tuple[Candidate, ...] = ()) -> tuple[Candidate, ...]:
        """One call of Temporal Proposal, which adds to the candidates chosen already; its notes are kept."""
        supplied = len(pictures.frames) if pictures else 0
        context = replace(self.proposal_context, chosen=chosen)
        if supplied + frames_in(self.state.anchors) > self.inquiry.observer.remaining or context.limit <= len(chosen):
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
        """What Temporal Proposal goes by."""
        state, remaining = self.state, self.inquiry.observer.remaining
        left = remaining - (len(self.storyboard.frames) if state.notes is None else 0)
        return ProposalContext(
            whole=self.inquiry.observer.whole,
            seen=self.looked_at,
            spacing=self.spacing,
            focus=state.focus,
            anchors=state.anchors,
            looks=state.looks,
            needs=state.needs if self.inquiry.counts else frozenset(self.missing or self.doubtful) or state.needs,
            notes=state.notes or (),
            limit=affordable_looks(state.anchors, left, self.reading_frames(self.sought), self.settings),
            counts=self.inquiry.counts,
        )

    def make_scan(self, hinted: Sequence[Candidate]) -> Clip | None:
        """One scan between the frames of the storyboard, where an open claim has no evidence and no hint."""
        if self.scan is not None or not self.scan_helps or len(hinted) >= self.proposal_context.limit:
            return None
        looks = looking_frames(hinted) + self.settings.candidate_frames * self.sought
        left = self.inquiry.observer.remaining - looks
        largest = frames_in(self.state.anchors) + self.sought * self.settings.least_anchor_frames
        reserves = (self.reading_frames(self.sought), 2 * largest, largest)  # as looks have them (budget.py)
        counts = [min(self.settings.scan_frames, left - reserve) for reserve in reserves]
        count = next((count for count in counts if count >= self.settings.least_scan_frames), 0)
        taken = [candidate.span for candidate in hinted]
        storyboard = [frame.seconds for frame in self.storyboard.frames]
        moments = scan_moments(storyboard, self.state.notes or (), taken, count)
        if len(moments) < self.settings.least_scan_frames:
            return None
        frames = self.inquiry.observer.frames_at(moments, height=self.storyboard.strategy.height)
        return replace(self.storyboard, frames=frames, title="Scan")

    def extract(self, candidates: Sequence[Candidate]) -> None:
        """Look at the candidates, again where the model is not sure; keep the anchors found."""
        looks = self.look(candidates)
        looks += self.look(self.payable_looks(closer_looks(looks, self.inquiry.observer.whole, self.settings), looks))
        events = [(look, event) for look in looks if look.relevant is not Relevance.NO for event in look.events]
        events = without_repeats(events, self.state.anchors, self.looked_at, self.settings.adjoining_seconds)
        settings = self.settings
        if self.inquiry.counts or not {claim for _, event in events for claim in event.claims}.issuperset(self.missing):
            settings = replace(settings, most_anchor_frames=settings.least_anchor_frames)  # the search continues
        kept = frames_in(self.state.anchors)
        frames = frames_that_fit(kept, len(events), self.inquiry.observer.remaining, settings)
        anchors = [
            make_anchor(self.inquiry, next(self.names), event, frames, self.settings, seen=self.looked_at)
            for event in events
        ]
        self.state = self.state.with_looks(looks, anchors)
        self.note(anchors=tuple(anchor.record for anchor in anchors), looks=tuple(look.record for look in looks))

    def look(self, candidates: Sequence[Candidate]) -> tuple[Look, ...]:
        """Look at these candidates in one batch."""
        if not candidates:
            return ()
        return self.trace.extract(self.inquiry, candidates, self.state.anchors, self.shown, self.looked_at)

    def payable_looks(self, candidates: Sequence[Candidate], looks: Sequence[Look]) -> tuple[Candidate, ...]:
        """The closer looks that can be paid for beside the trajectory of what was found."""
        sure = sum(len(look.events) for look in looks if look.relevant is Relevance.YES)
        for count in range(len(candidates), 0, -1):
            chosen = candidates[:count]
            if looking_frames(chosen) + self.reading_frames(sure + count) <= self.inquiry.observer.remaining:
                return tuple(replace(candidate, id=next(self.look_names)) for candidate in chosen)
        return ()

    def reading_frames(self, found: int) -> int:
        """Frames to read all unread bundles, with this many new anchors, and to replay; a count reads the largest."""
        anchors = self.state.anchors
        sizes = [len(anchor.clip.frames) for anchor in anchors] + [self.settings.least_anchor_frames] * found
        totals = list(itertools.accumulate(sizes))
        if self.inquiry.counts:
            return 2 * totals[-1]
        unread = (n for n in range(1, len(sizes) + 1) if n > len(anchors) or key(anchors[:n]) not in self.records)
        return sum(totals[n - 1] for n in unread) + totals[-1]

    def prioritize(self) -> None:
        """Order the new anchors behind those whose bundles have been read, where that can be paid for."""
        count = len(self.rounds[-1].anchors)
        old, new = self.state.anchors[: -count or None], self.state.anchors[len(self.state.anchors) - count :]
        growth = self._newly_formed(self.trace.prefixes(self.state.anchors))
        needed = count + bundle_frames(growth) + frames_in(self.state.anchors)
        if count > 1 and needed <= self.inquiry.observer.remaining:
            self.state = replace(self.state, anchors=old + self.trace.prioritize(self.inquiry, new, self.state.needs))

    def payable(self, bundles: tuple[PrefixBundle, ...]) -> tuple[PrefixBundle, ...] | None:
        """The bundles to read: all, or, where that cannot be paid for, the largest and the smallest that can be.

        A replay of the largest is paid for in either case. None where not even the largest can be read.
        """
        left = self.inquiry.observer.remaining - frames_in(self.state.anchors)
        chosen: list[PrefixBundle] = []
        for bundle in (*bundles[-1:], *bundles[:-1]):
            cost = bundle_frames(self._newly_formed([bundle]))
            if cost <= left:
                chosen.append(bundle)
                left -= cost
            elif not chosen:
                return None
        skipped = [bundle for bundle in bundles if bundle not in chosen]
        reasons = tuple(f"bundle {'+'.join(names_of(b))} not read: its frames cannot be paid for" for b in skipped)
        self.note(refused=(*self.rounds[-1].refused, *reasons))
        return tuple(bundle for bundle in bundles if bundle in chosen)

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
            bundles=tuple(names_of(bundle) for bundle in bundles),
            assembled=tuple(j for j, bundle in enumerate(bundles) if bundle in fresh),
            records=self.trajectory,
        )

    def reconcile(self, *, stopping: bool = True) -> Action | None:
        """What the Trajectory Reconciler decides; after a replay that disagreed, anything but STOP."""
        bundles, trajectory = self.readable
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
            costs=action_costs(self.state.anchors, self.settings),
        )
        decision = self.trace.reconcile(self.inquiry, context)
        self.state = replace(self.state, needs=flags.unmet_needs)
        self.note(flags=flags, decisions=(*self.rounds[-1].decisions, decision))
        self.inquiry.observer.announce(Decided(decision))
        return decision.action

    def replay(self, bundle: PrefixBundle) -> ReplayRecord:
        """Answer again from the raw clips of a prefix; the same clips are never replayed twice."""
        if key(bundle) not in self.replays:
            record = self.records[key(bundle)]
            answer = self.trace.replay(self.inquiry, bundle, record, self.settings)
            self.replays[key(bundle)] = ReplayRecord(
                names_of(bundle), answer, self.wordings.agree(answer, record.answer)
            )
        return self.replays[key(bundle)]

    def forced_answer(self) -> Answer:
        """P <- least-conflicted fallback prefix; a choice from its clips is the answer. Sufficiency is not claimed."""
        for bundle in self.fallbacks():
            known = self.replays.get(key(bundle))
            if known is not None and known.answer is not None:
                return self.answer(known.answer, Termination.NO_STABLE_PREFIX, bundle, known)
            if frames_in(bundle) <= self.inquiry.observer.remaining:
                record = self.records.get(key(bundle))
                bundle = with_frames(self.inquiry, bundle, self.inquiry.observer.remaining - frames_in(bundle))  # noqa: PLW2901
                answer = self.trace.force(self.inquiry, bundle, record, self.settings)
                agrees = record is not None and self.wordings.agree(answer, record.answer)
                fallback = ReplayRecord(names_of(bundle), answer, agrees)
                return self.answer(answer, Termination.NO_STABLE_PREFIX, bundle, fallback)
        return self.storyboard_answer()

    def fallbacks(self) -> list[PrefixBundle]:
        """The bundles to fall back on, the best first; anchors that no call has read come before all."""
        anchors = self.state.anchors
        unread = [anchors] if anchors and key(anchors) not in self.records else []
        bundles, trajectory = self.readable
        conflicts = self.trace.flags(bundles, trajectory, self.state.refuted).conflicts
        ranked = fallback_prefixes(bundles, trajectory, conflicts=conflicts, refuted=self.state.refuted)
        return unread + [bundles[prefix] for prefix in ranked]

    def storyboard_answer(self) -> Answer:
        """Without any anchor: a choice from the storyboard frames that the budget allows."""
        frames = self.storyboard.frames
        count = min(len(frames), self.inquiry.observer.remaining)
        chosen = tuple(frames[(2 * number + 1) * len(frames) // (2 * count)] for number in range(count))
        clips = (replace(self.storyboard, frames=chosen),) if chosen else ()
        option = final_answer_replay.answer_from_clips(self.inquiry, clips, forced=True) if clips else None
        return self.answer(option, Termination.NO_STABLE_PREFIX, ())  # a storyboard is not evidence

    def answer(
        self,
        option: str | None,
        termination: Termination,
        bundle: PrefixBundle,
        fallback: ReplayRecord | None = None,
    ) -> Answer:
        """The answer with the clips that support it and the record of the search."""
        stable = termination is Termination.STABLE_PREFIX_FOUND
        record = TraceRecord(
            claims=self.inquiry.claims,
            storyboard=ClipRecord.of(self.storyboard),
            notes=self.state.notes or (),
            rounds=tuple(self.rounds),
            stable_prefix=names_of(bundle) if stable else None,
            fallback=fallback,
            unexplored=self.uncounted if self.inquiry.counts else (),
            not_promising=union(self.passed_over) if self.inquiry.counts else (),
        )
        return Answer(option, termination, tuple(anchor.clip for anchor in bundle), record.to_json())
