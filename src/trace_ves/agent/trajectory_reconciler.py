"""The Trajectory Reconciler: reads the whole evidence growth trajectory and decides on one of four actions.

A rule triggers STOP from only the trajectory. For the other three, one text-only call classifies over a small action
space; rules check its reply, and whatever they refuse is recorded.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, create_model

from trace_ves.agent.anchors import (
    BundleKey,
    Inquiry,
    Look,
    PrefixBundle,
    VisualAnchor,
    key,
    load_prompt,
    span_variables,
)
from trace_ves.agent.reply_fields import LISTED, Words
from trace_ves.agent.settings import LookFor
from trace_ves.agent.temporal_proposal import look_variables, note_variables
from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.backbone.replies import same_answer, up_to
from trace_ves.core import Interval
from trace_ves.core.interval import clip_to_segments
from trace_ves.records.search import (
    Action,
    AtLeast,
    Decision,
    Drop,
    Expand,
    FactValue,
    Flags,
    PrefixRecord,
    Refine,
    Refinement,
    SegmentNote,
    Status,
    Stop,
    Trajectory,
)

PROMPT: Final = load_prompt("trajectory-reconciler")

_ANSWERABILITY: Final = {Status.CONFLICTED: 0, Status.INSUFFICIENT: 1, Status.ANSWERABLE: 2}


# --- deterministic preprocessing ----------------------------------------------------------------


def flags(bundles: Sequence[PrefixBundle], trajectory: Trajectory, refuted: Collection[BundleKey] = ()) -> Flags:
    """The three flags of the appendix, from the trajectory and the bundles that replay has refuted."""
    stable = (j for j in range(len(trajectory)) if key(bundles[j]) not in refuted and _is_stable(trajectory, j))
    # What recurs in the last two records is in U_n anyway.
    needs = trajectory[-1].unmet_needs if trajectory else frozenset()
    return Flags(next(stable, None), _conflicts(bundles, trajectory, refuted), needs)


def _is_stable(trajectory: Trajectory, j: int) -> bool:
    record = trajectory[j]
    return (
        record.status is Status.ANSWERABLE
        and record.answer is not None
        and not record.unmet_needs
        and all(
            same_answer(later.answer, record.answer)
            and not _degrades(record, later)
            and not contradicts(record, later)
            and not supplies_more(record, later)
            for later in trajectory[j + 1 :]
        )
    )


def _conflicts(
    bundles: Sequence[PrefixBundle], trajectory: Trajectory, refuted: Collection[BundleKey]
) -> frozenset[str]:
    unsettling = (
        j
        for j in range(len(trajectory))
        if key(bundles[j]) in refuted
        or (j > 0 and (flips(trajectory[j - 1], trajectory[j]) or _degrades(trajectory[j - 1], trajectory[j])))
        or any(contradicts(earlier, trajectory[j]) for earlier in trajectory[:j])
    )
    return frozenset().union(*(key(bundles[j]) - (key(bundles[j - 1]) if j else frozenset()) for j in unsettling))


def redundant(bundles: Sequence[PrefixBundle], trajectory: Trajectory) -> frozenset[str]:
    """The anchors whose addition neither settled a claim, raised a count nor changed the answer."""
    nothing = PrefixRecord(None, Status.INSUFFICIENT)
    names: set[str] = set()
    for j, record in enumerate(trajectory):
        before, known = (trajectory[j - 1], key(bundles[j - 1])) if j else (nothing, frozenset())
        added = key(bundles[j]) - known
        if len(added) == 1 and record.answer == before.answer and not supplies_more(before, record):
            names |= added
    return frozenset(names)


def flips(before: PrefixRecord, after: PrefixRecord) -> bool:
    """Whether an answer changed. A first answer and a growing count are not flips."""
    if before.answer is None or same_answer(before.answer, after.answer):
        return False
    return not any(_counts_further(value, after.facts.get(claim)) for claim, value in before.facts.items())


def _degrades(before: PrefixRecord, after: PrefixRecord) -> bool:
    return _ANSWERABILITY[after.status] < _ANSWERABILITY[before.status]


def contradicts(earlier: PrefixRecord, later: PrefixRecord) -> bool:
    """Whether two records give one claim values that cannot both be true."""
    shared = earlier.facts.keys() & later.facts.keys()
    return any(_values_contradict(earlier.facts[claim], later.facts[claim]) for claim in shared)


def supplies_more(earlier: PrefixRecord, later: PrefixRecord) -> bool:
    """Whether the later record settles another claim or has a higher count."""
    if later.facts.keys() - earlier.facts.keys():
        return True
    return any(_counts_further(value, later.facts.get(claim)) for claim, value in earlier.facts.items())


def _values_contradict(earlier: FactValue, later: FactValue) -> bool:
    match earlier, later:
        case Interval(), Interval():
            return earlier.intersection(later) is None
        case AtLeast(), AtLeast():
            return later.count < earlier.count
        case _:
            return earlier != later


def _counts_further(earlier: FactValue, later: FactValue | None) -> bool:
    return isinstance(earlier, AtLeast) and isinstance(later, AtLeast) and later.count > earlier.count


# --- the single call for control ----------------------------------------------------------------


class ControlReply(BaseModel):
    """One action, as the model names it."""

    action: Literal["DROP", "REFINE", "EXPAND"]
    target_anchors: Annotated[list[Words], LISTED, up_to(64)]
    """For DROP, members of the conflict set or redundant anchors; for REFINE, one anchor or look."""
    target_intervals: Annotated[list[tuple[float, float]], LISTED, up_to(64)]
    """For EXPAND, spans inside unexplored segments."""
    observation_strategy: Refinement | LookFor | None  # For REFINE, one of the fixed set; for EXPAND, what to look for


@dataclass(frozen=True, slots=True)
class ReconcilerContext:
    """What the reconciler knows about a round besides the question."""

    bundles: tuple[PrefixBundle, ...]
    trajectory: Trajectory
    flags: Flags
    unexplored: tuple[Interval, ...]
    expand_limit: int  # K: how many spans EXPAND may name
    allowed: frozenset[type[Action]] = frozenset({Drop, Refine, Expand})
    """The available actions; an ablation removes EXPAND."""
    notes: tuple[SegmentNote, ...] = ()  # What the storyboard and the looks showed
    looks: tuple[Look, ...] = ()  # Looks that found nothing
    costs: Mapping[str, int] = field(default_factory=dict)  # Frames that each action costs at least

    @property
    def anchors(self) -> tuple[VisualAnchor, ...]:
        """All anchors of the round: those of the largest bundle."""
        return self.bundles[-1] if self.bundles else ()

    @property
    def redundant(self) -> frozenset[str]:
        """Anchors that added nothing."""
        return redundant(self.bundles, self.trajectory)

    @property
    def refinable(self) -> dict[str, VisualAnchor | Look]:
        """What REFINE may name: anchors and fruitless looks that were not yet refined in every way."""
        targets: tuple[VisualAnchor | Look, ...] = (*self.anchors, *self.looks)
        return {target.id: target for target in targets if set(Refinement) - target.refined}

    def offered(self, remaining: int) -> tuple[str, ...]:
        """The actions of this run that have a target and fit into the budget."""
        targets = {
            "DROP": len(self.anchors) > 1 and self.flags.conflicts | self.redundant,
            "REFINE": self.refinable,
            "EXPAND": self.unexplored,
        }
        return tuple(
            name
            for name, (kind, _) in _HANDLERS.items()
            if kind in self.allowed and targets[name] and self.costs.get(name, 0) <= remaining
        )


def reconcile(inquiry: Inquiry, context: ReconcilerContext) -> Decision:
    """STOP if a stable prefix exists; otherwise one call for control, checked by the rules."""
    if context.flags.stable_prefix is not None:
        return Decision(Stop(context.flags.stable_prefix))
    offered = context.offered(inquiry.observer.remaining)
    if not offered:
        return Decision(None, ("no action can be paid for or has anything to act on",))
    (reply,) = inquiry.observer.ask([control_request(inquiry, context, offered)])
    if isinstance(reply, ModelFault):
        return Decision(default_action(context, offered), (f"the reply could not be read: {reply.reason}",))
    action, refused = valid_action(reply, context)
    return Decision(action if action is not None else default_action(context, offered), refused)


def control_request(inquiry: Inquiry, context: ReconcilerContext, offered: tuple[str, ...]) -> Request[ControlReply]:
    """The six inputs of the appendix, with notes, spans and prices.

    Claims are given as text, because an id means nothing to a model.
    """
    words = {claim.id: claim.text for claim in inquiry.claims}
    return Request(
        offering(PROMPT, offered),
        inquiry.variables(
            trajectory=[
                record_variables(bundle, record, words)
                for bundle, record in zip(context.bundles, context.trajectory, strict=True)
            ],
            conflict_set=sorted(context.flags.conflicts),
            redundant=sorted(context.redundant),
            unmet_needs=[words[need] for need in sorted(context.flags.unmet_needs)],
            unexplored_segments=[
                span_variables(piece) | {"seconds": round(piece.length, 1)} for piece in context.unexplored
            ],
            anchors=[{"anchor": anchor.id} | span_variables(anchor.clip.span) for anchor in context.anchors],
            looks=look_variables(look for look in context.looks if look.id in context.refinable),
            notes=note_variables(context.notes),
            budget_remaining=inquiry.observer.remaining,
            costs={name: context.costs[name] for name in offered if name in context.costs},
            actions=", ".join(offered),
            limit=context.expand_limit,
        ),
        control_reply(offered),
    )


def offering(prompt: Prompt, actions: Collection[str]) -> Prompt:
    """The prompt without the rules of missing actions; a rule is a line that starts with a name."""
    rules = tuple(f"- {name}:" for name in _HANDLERS if name not in actions)
    lines = (line for line in prompt.text.splitlines(keepends=True) if not line.startswith(rules))
    return replace(prompt, text="".join(lines))


@lru_cache(maxsize=8)
def control_reply(actions: tuple[str, ...]) -> type[ControlReply]:
    """The reply narrowed to the actions of this run."""
    kind: Any = Literal[actions]
    return create_model("ControlReply", __base__=ControlReply, __doc__=ControlReply.__doc__, action=(kind, ...))


def record_variables(bundle: PrefixBundle, record: PrefixRecord, words: Mapping[str, str]) -> dict[str, object]:
    """A record in the compact form for control: a prefix named by its anchors, a claim by its text."""
    return {
        "prefix_id": "+".join(anchor.id for anchor in bundle),
        "answer": record.answer,
        "status": record.status.value,
        "facts_supported": {words[claim]: fact_text(value) for claim, value in record.facts.items()},
        "unmet_needs": [words[need] for need in sorted(record.unmet_needs)],
    }


def fact_text(value: FactValue) -> str:
    """A fact's value as text."""
    return f"at least {value.count}" if isinstance(value, AtLeast) else str(value)


def valid_action(reply: ControlReply, context: ReconcilerContext) -> tuple[Action | None, tuple[str, ...]]:
    """The part of the model's choice that the rules allow, and a sentence for each part that they refuse."""
    _, handler = _HANDLERS[reply.action]
    return handler(reply, context)


def _drop(reply: ControlReply, context: ReconcilerContext) -> tuple[Action | None, tuple[str, ...]]:
    named = set(reply.target_anchors)
    allowed = named & (context.flags.conflicts | context.redundant) & {anchor.id for anchor in context.anchors}
    excess = sorted(named - allowed)
    refused = tuple(f"DROP of {name[:40]!r}: neither in the conflict set nor redundant" for name in excess)
    return (Drop(frozenset(allowed)), refused) if allowed else (None, refused or ("DROP named no anchor",))


def _refine(reply: ControlReply, context: ReconcilerContext) -> tuple[Action | None, tuple[str, ...]]:
    way = reply.observation_strategy
    if not isinstance(way, Refinement):
        return None, ("REFINE named no way to look again",)
    refused: list[str] = []
    for name in reply.target_anchors:
        target = context.refinable.get(name)
        if target is None:
            refused.append(f"REFINE of {name[:40]!r}: no such anchor or look")
        elif way in target.refined:
            refused.append(f"REFINE of {name} by {way}: done before")
        else:
            return Refine(name, way), tuple(refused)
    return None, tuple(refused) or ("REFINE named no anchor or look",)


def _expand(reply: ControlReply, context: ReconcilerContext) -> tuple[Action | None, tuple[str, ...]]:
    inside: list[Interval] = []
    refused: list[str] = []
    for start, end in reply.target_intervals:
        pieces = clip_to_segments(start, end, context.unexplored)
        if not pieces:
            refused.append(f"EXPAND into {start:g}-{end:g} s: outside the unexplored segments")
        elif len(inside) == context.expand_limit:
            refused.append(f"EXPAND into {start:g}-{end:g} s: more than {context.expand_limit} spans")
        else:
            inside.append(max(pieces, key=lambda piece: piece.length))
    if inside:
        wanted = reply.observation_strategy
        look_for = "general" if wanted is None or isinstance(wanted, Refinement) else wanted
        return Expand(tuple(inside), look_for), tuple(refused)
    return None, tuple(refused) or ("EXPAND named no span",)


_HANDLERS: Final = {"DROP": (Drop, _drop), "REFINE": (Refine, _refine), "EXPAND": (Expand, _expand)}


def default_action(context: ReconcilerContext, offered: Collection[str]) -> Action | None:
    """For an impossible choice: the longest unexplored spans, else a closer look, else nothing."""
    if "EXPAND" in offered:
        longest = sorted(context.unexplored, key=lambda piece: (-piece.length, piece.start))
        return Expand(tuple(sorted(longest[: context.expand_limit])))
    if "REFINE" in offered:
        for target in reversed(context.refinable.values()):
            return Refine(target.id, next(way for way in Refinement if way not in target.refined))
    return None
