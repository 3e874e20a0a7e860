"""The Trajectory Reconciler: reads the whole evidence growth trajectory and decides on one of four actions.

A rule decides on STOP from the trajectory. For the other three, one text-only call chooses from a small set of actions;
rules check its reply, and refused parts are recorded.
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
    bundle_key,
    format_span,
    load_prompt,
)
from trace_ves.agent.reply_fields import LISTED, Words
from trace_ves.agent.settings import LookFor
from trace_ves.agent.temporal_proposal import format_looks, format_notes
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
    """The three flags of the appendix, from the trajectory and the bundles that a replay has refuted."""
    stable = (j for j in range(len(trajectory)) if bundle_key(bundles[j]) not in refuted and _is_stable(trajectory, j))
    needs = trajectory[-1].unmet_needs if trajectory else frozenset()  # includes what recurs in the last two records
    return Flags(next(stable, None), _find_conflicts(bundles, trajectory, refuted), needs)


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


def _find_conflicts(
    bundles: Sequence[PrefixBundle], trajectory: Trajectory, refuted: Collection[BundleKey]
) -> frozenset[str]:
    unsettling = (
        j
        for j in range(len(trajectory))
        if bundle_key(bundles[j]) in refuted
        or (j > 0 and (flips(trajectory[j - 1], trajectory[j]) or _degrades(trajectory[j - 1], trajectory[j])))
        or any(contradicts(earlier, trajectory[j]) for earlier in trajectory[:j])
    )
    return frozenset().union(
        *(bundle_key(bundles[j]) - (bundle_key(bundles[j - 1]) if j else frozenset()) for j in unsettling)
    )


def find_redundant(bundles: Sequence[PrefixBundle], trajectory: Trajectory) -> frozenset[str]:
    """The anchors that settled no claim, raised no count and did not change the answer."""
    nothing = PrefixRecord(None, Status.INSUFFICIENT)
    names: set[str] = set()
    for j, record in enumerate(trajectory):
        before, earlier = (trajectory[j - 1], bundle_key(bundles[j - 1])) if j else (nothing, frozenset())
        added = bundle_key(bundles[j]) - earlier
        if len(added) == 1 and record.answer == before.answer and not supplies_more(before, record):
            names |= added
    return frozenset(names)


def flips(before: PrefixRecord, after: PrefixRecord) -> bool:
    """Whether the answer changed. A first answer and a growing count are not flips."""
    if before.answer is None or same_answer(before.answer, after.answer):
        return False
    return not any(_counts_further(value, after.facts.get(claim)) for claim, value in before.facts.items())


def _degrades(before: PrefixRecord, after: PrefixRecord) -> bool:
    return _ANSWERABILITY[after.status] < _ANSWERABILITY[before.status]


def contradicts(earlier: PrefixRecord, later: PrefixRecord) -> bool:
    """Whether two records have values of one claim that cannot both be true."""
    claims = earlier.facts.keys() & later.facts.keys()
    return any(_values_contradict(earlier.facts[claim], later.facts[claim]) for claim in claims)


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


# --- the control call ---------------------------------------------------------------------------


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
    """The state of a round that the reconciler reads."""

    bundles: tuple[PrefixBundle, ...]
    trajectory: Trajectory
    flags: Flags
    unexplored: tuple[Interval, ...]
    expand_limit: int  # K: how many spans EXPAND may name
    allowed: frozenset[type[Action]] = frozenset({Drop, Refine, Expand})
    """The available actions; an ablation removes EXPAND."""
    notes: tuple[SegmentNote, ...] = ()
    looks: tuple[Look, ...] = ()  # Looks that found nothing
    costs: Mapping[str, int] = field(default_factory=dict)  # The least frames that each action costs

    @property
    def anchors(self) -> tuple[VisualAnchor, ...]:
        """All anchors of the round: those of the largest bundle."""
        return self.bundles[-1] if self.bundles else ()

    @property
    def redundant(self) -> frozenset[str]:
        """The redundant anchors."""
        return find_redundant(self.bundles, self.trajectory)

    @property
    def refinable(self) -> dict[str, VisualAnchor | Look]:
        """The targets of REFINE: anchors and looks without evidence that were not yet refined in every way."""
        targets: tuple[VisualAnchor | Look, ...] = (*self.anchors, *self.looks)
        return {target.id: target for target in targets if set(Refinement) - target.refined}

    def list_actions(self, remaining: int) -> tuple[str, ...]:
        """The allowed actions that have a target and fit into the budget."""
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
    """STOP if a stable prefix exists; otherwise the action of one control call, checked by rules."""
    if context.flags.stable_prefix is not None:
        return Decision(Stop(context.flags.stable_prefix))
    actions = context.list_actions(inquiry.observer.remaining)
    if not actions:
        return Decision(None, ("no action can be paid for or has anything to act on",))
    (reply,) = inquiry.observer.ask([make_control_request(inquiry, context, actions)])
    if isinstance(reply, ModelFault):
        return Decision(choose_default_action(context, actions), (f"the reply could not be read: {reply.reason}",))
    action, refused = check_action(reply, context)
    return Decision(action if action is not None else choose_default_action(context, actions), refused)


def make_control_request(
    inquiry: Inquiry, context: ReconcilerContext, actions: tuple[str, ...]
) -> Request[ControlReply]:
    """The six inputs of the appendix, with notes, spans and costs. Claims are shown as text instead of ids."""
    texts = {claim.id: claim.text for claim in inquiry.claims}
    return Request(
        restrict_prompt(PROMPT, actions),
        inquiry.variables(
            trajectory=[
                format_record(bundle, record, texts)
                for bundle, record in zip(context.bundles, context.trajectory, strict=True)
            ],
            conflict_set=sorted(context.flags.conflicts),
            redundant=sorted(context.redundant),
            unmet_needs=[texts[need] for need in sorted(context.flags.unmet_needs)],
            unexplored_segments=[
                format_span(piece) | {"seconds": round(piece.length, 1)} for piece in context.unexplored
            ],
            anchors=[{"anchor": anchor.id} | format_span(anchor.clip.span) for anchor in context.anchors],
            looks=format_looks(look for look in context.looks if look.id in context.refinable),
            notes=format_notes(context.notes),
            budget_remaining=inquiry.observer.remaining,
            costs={name: context.costs[name] for name in actions if name in context.costs},
            actions=", ".join(actions),
            limit=context.expand_limit,
        ),
        make_control_reply(actions),
    )


def restrict_prompt(prompt: Prompt, actions: Collection[str]) -> Prompt:
    """The prompt without the rules of other actions; a rule is a line that starts with the name of an action."""
    rules = tuple(f"- {name}:" for name in _HANDLERS if name not in actions)
    lines = (line for line in prompt.text.splitlines(keepends=True) if not line.startswith(rules))
    return replace(prompt, text="".join(lines))


@lru_cache(maxsize=8)
def make_control_reply(actions: tuple[str, ...]) -> type[ControlReply]:
    """The reply type, restricted to these actions."""
    kind: Any = Literal[actions]
    return create_model("ControlReply", __base__=ControlReply, __doc__=ControlReply.__doc__, action=(kind, ...))


def format_record(bundle: PrefixBundle, record: PrefixRecord, texts: Mapping[str, str]) -> dict[str, object]:
    """A record in the form that the control prompt shows, with the text of its claims."""
    return {
        "prefix_id": "+".join(anchor.id for anchor in bundle),
        "answer": record.answer,
        "status": record.status.value,
        "facts_supported": {texts[claim]: format_fact(value) for claim, value in record.facts.items()},
        "unmet_needs": [texts[need] for need in sorted(record.unmet_needs)],
    }


def format_fact(value: FactValue) -> str:
    """A fact's value as text."""
    return f"at least {value.count}" if isinstance(value, AtLeast) else str(value)


def check_action(reply: ControlReply, context: ReconcilerContext) -> tuple[Action | None, tuple[str, ...]]:
    """The allowed part of the model's choice, and a sentence for each refused part."""
    _, handler = _HANDLERS[reply.action]
    return handler(reply, context)


def _drop(reply: ControlReply, context: ReconcilerContext) -> tuple[Action | None, tuple[str, ...]]:
    targets = set(reply.target_anchors)
    allowed = targets & (context.flags.conflicts | context.redundant) & {anchor.id for anchor in context.anchors}
    others = sorted(targets - allowed)
    refused = tuple(f"DROP of {name[:40]!r}: neither in the conflict set nor redundant" for name in others)
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
        strategy = reply.observation_strategy
        look_for = "general" if strategy is None or isinstance(strategy, Refinement) else strategy
        return Expand(tuple(inside), look_for), tuple(refused)
    return None, tuple(refused) or ("EXPAND named no span",)


_HANDLERS: Final = {"DROP": (Drop, _drop), "REFINE": (Refine, _refine), "EXPAND": (Expand, _expand)}


def choose_default_action(context: ReconcilerContext, actions: Collection[str]) -> Action | None:
    """The action after an invalid reply: EXPAND into the longest unexplored spans, else REFINE, else none."""
    if "EXPAND" in actions:
        longest = sorted(context.unexplored, key=lambda piece: (-piece.length, piece.start))
        return Expand(tuple(sorted(longest[: context.expand_limit])))
    if "REFINE" in actions:
        for target in reversed(context.refinable.values()):
            return Refine(target.id, next(way for way in Refinement if way not in target.refined))
    return None
