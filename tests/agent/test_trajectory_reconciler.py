"""The reconciler's rules: the appendix's definitions with the stricter reading of a stable prefix, and control."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.fake_models import complete
from trace_ves.agent.anchors import VisualAnchor, bundle_key
from trace_ves.agent.trajectory_reconciler import (
    ControlReply,
    ReconcilerContext,
    check_action,
    choose_default_action,
    find_redundant,
    flags,
    make_control_reply,
)
from trace_ves.core import Clip, Interval, ObservationStrategy
from trace_ves.records.search import AtLeast, Candidate, Drop, Expand, Flags, PrefixRecord, Refine, Refinement, Status

SPAN = Interval(0, 10)
INSUFFICIENT = Status.INSUFFICIENT


def anchors(count: int) -> tuple[VisualAnchor, ...]:
    look = ObservationStrategy()
    return tuple(VisualAnchor(f"a{n}", Candidate(SPAN, look), Clip(SPAN, look, ())) for n in range(1, count + 1))


def prefixes(count: int) -> tuple[tuple[VisualAnchor, ...], ...]:
    return tuple(anchors(count)[:j] for j in range(1, count + 1))


def record(answer: str | None, status: Status = Status.ANSWERABLE, needs: str = "", **facts: Any) -> PrefixRecord:
    return PrefixRecord(answer, status, facts, frozenset(needs.split()))


def found(*trajectory: PrefixRecord) -> Flags:
    return flags(prefixes(len(trajectory)), trajectory, set())


TWO, THREE = AtLeast(2), AtLeast(3)
CASES = {
    "times that overlap agree": ((record("A", x=Interval(1, 5)), record("A", x=Interval(4, 8))), 0, ""),
    "times that are disjoint contradict": ((record("A", x=Interval(1, 5)), record("A", x=Interval(6, 8))), 1, "a2"),
    "a count that stays is settled": ((record("A", x=TWO), record("A", x=TWO)), 0, ""),
    "a count that grows is a late fact": ((record("A", x=TWO), record("A", x=THREE)), 1, ""),
    "the same beside another fact": ((record("A", y="red", x=TWO), record("A", y="red", x=THREE)), 1, ""),
    "a count that grows may change the answer": ((record("A", x=TWO), record("B", x=THREE)), 1, ""),
    "the answer beside another fact": ((record("A", y="red", x=TWO), record("B", y="red", x=THREE)), 1, ""),
    "it may not lose the answer": ((record("A", x=TWO), record(None, INSUFFICIENT, x=THREE)), None, "a2"),
    "a count that falls contradicts": ((record("A", x=THREE), record("A", x=TWO)), 1, "a2"),
}


@pytest.mark.parametrize("case", CASES)
def test_times_and_counts_are_compared_by_what_they_mean(case: str) -> None:
    trajectory, stable, conflicts = CASES[case]
    assert found(*trajectory) == Flags(stable, frozenset(conflicts.split()), frozenset())


def test_a_bundle_is_refuted_whatever_the_order_of_its_anchors() -> None:
    one, two = anchors(2)
    tau = (record(None, INSUFFICIENT), record("A"))
    assert flags([(two,), (two, one)], tau, {bundle_key((one, two))}).stable_prefix is None


records = st.builds(
    PrefixRecord,
    answer=st.sampled_from(["A", "B", None]),
    status=st.sampled_from(list(Status)),
    facts=st.dictionaries(st.sampled_from("xy"), st.sampled_from(["red", "blue"]), max_size=2),
    unmet_needs=st.frozensets(st.sampled_from("xy"), max_size=1),
)


def literal_flags(tau: list[PrefixRecord], refuted: set[int]) -> tuple[int | None, set[int], set[str]]:
    """The definitions, word by word, with positions from 1 as in the paper."""
    n = len(tau)
    y = {j: tau[j - 1].answer for j in range(1, n + 1)}
    s = {j: tau[j - 1].status for j in range(1, n + 1)}
    facts = {j: dict(tau[j - 1].facts) for j in range(1, n + 1)}
    needs = {j: set(tau[j - 1].unmet_needs) for j in range(1, n + 1)}
    rank = ["conflicted", "insufficient", "answerable"]

    def clash(i: int, j: int) -> bool:
        return any(claim in facts[j] and facts[j][claim] != value for claim, value in facts[i].items())

    stable = None
    for j in range(n, 0, -1):
        good = s[j] == "answerable" and y[j] is not None and needs[j] == set() and j not in refuted
        for later in range(j + 1, n + 1):
            good &= y[later] == y[j] and s[later] == "answerable" and not clash(j, later)
            good &= set(facts[later]) <= set(facts[j])
        if good:
            stable = j
    conflicts = set(refuted)
    for j in range(2, n + 1):
        flipped = y[j - 1] is not None and y[j] != y[j - 1]
        worse = rank.index(s[j].value) < rank.index(s[j - 1].value)
        if flipped or worse or any(clash(i, j) for i in range(1, j)):
            conflicts.add(j)
    unmet = needs[n] | (needs[n] & needs[n - 1] if n > 1 else set()) if n else set()
    return stable, conflicts, unmet


@settings(max_examples=400)
@given(st.lists(records, max_size=6), st.sets(st.integers(1, 6), max_size=2))
def test_flags_agree_with_a_literal_reading_of_the_definitions(tau: list[PrefixRecord], refuted: set[int]) -> None:
    refuted = {j for j in refuted if j <= len(tau)}
    bundles = prefixes(len(tau))
    ours = flags(bundles, tuple(tau), {bundle_key(bundles[j - 1]) for j in refuted})
    stable, conflicts, unmet = literal_flags(tau, refuted)
    assert ours.stable_prefix == (None if stable is None else stable - 1)
    assert ours.conflicts == {f"a{j}" for j in conflicts}
    assert ours.unmet_needs == unmet


PIECES = (Interval(20, 40), Interval(60, 65))


def context(*trajectory: PrefixRecord, unexplored: tuple[Interval, ...] = PIECES) -> ReconcilerContext:
    return ReconcilerContext(prefixes(len(trajectory)), trajectory, found(*trajectory), unexplored, expand_limit=2)


NEITHER = "'a1': neither in the conflict set nor redundant"
CONFLICT = context(record("A", x="red"), record("B", x="red"), record("B", x="red"))


@pytest.mark.parametrize(
    ("reply", "action", "refusal"),
    [
        ({"action": "DROP", "target_anchors": ["a2"]}, Drop(frozenset({"a2"})), None),
        ({"action": "DROP", "target_anchors": ["a1", "a2"]}, Drop(frozenset({"a2"})), NEITHER),
        ({"action": "DROP", "target_anchors": ["a1"]}, None, NEITHER),
        ({"action": "DROP"}, None, "DROP named no anchor"),
        (
            {"action": "REFINE", "target_anchors": ["a9", "a1"], "observation_strategy": "narrow-span"},
            Refine("a1", Refinement.NARROW_SPAN),
            "no such anchor or look",
        ),
        ({"action": "REFINE", "target_anchors": ["a1"]}, None, "named no way to look again"),
        ({"action": "REFINE", "observation_strategy": "narrow-span"}, None, "REFINE named no anchor or look"),
        ({"action": "EXPAND", "target_intervals": [[25, 30]]}, Expand((Interval(25, 30),)), None),
        ({"action": "EXPAND", "target_intervals": [[10, 30]]}, Expand((Interval(20, 30),)), None),
        ({"action": "EXPAND", "target_intervals": [[-5, 1e9]]}, Expand((Interval(20, 40),)), None),
        ({"action": "EXPAND", "target_intervals": [[45, 50]]}, None, "outside the unexplored segments"),
        ({"action": "EXPAND", "target_intervals": [[30, 25]]}, None, "outside the unexplored segments"),
        ({"action": "EXPAND", "target_intervals": [["nan", "nan"]]}, None, "outside the unexplored segments"),
        (
            {"action": "EXPAND", "target_intervals": [[20, 25], [26, 30], [31, 35]]},
            Expand((Interval(20, 25), Interval(26, 30))),
            "more than 2 spans",
        ),
    ],
)
def test_the_wish_is_held_to_the_rules(reply: dict[str, Any], action: Any, refusal: str | None) -> None:
    reply = complete("trajectory-reconciler", reply)
    allowed, refused = check_action(ControlReply.model_validate(reply), CONFLICT)
    assert allowed == action
    assert (refusal is None and not refused) or (refusal is not None and any(refusal in text for text in refused))


def test_control_may_choose_from_the_actions_of_its_run_alone() -> None:
    reply = make_control_reply(("DROP", "REFINE"))
    schema = reply.model_json_schema()
    assert schema["properties"]["action"]["enum"] == ["DROP", "REFINE"]
    assert schema["description"] == ControlReply.__doc__
    with pytest.raises(ValidationError, match="'DROP' or 'REFINE'"):
        reply.model_validate({"action": "EXPAND"})


def test_a_refinement_is_not_done_twice() -> None:
    way = Refinement.NARROW_SPAN
    here = replace(context(record("A")), bundles=((replace(*anchors(1), refined=frozenset({way})),),))
    reply = ControlReply(action="REFINE", target_anchors=["a1"], target_intervals=[], observation_strategy=way)
    assert check_action(reply, here) == (None, ("REFINE of a1 by narrow-span: done before",))


def test_an_anchor_that_adds_nothing_is_redundant_and_may_be_dropped() -> None:
    tau = (record("A", x="red"), record("A", x="red"), record("A", x="red", y="two"), record("B", x="red", y="two"))
    assert find_redundant(prefixes(4), tau) == {"a2"}
    assert find_redundant(prefixes(4)[1:], tau[1:]) == frozenset()  # a first bundle of two: which of them adds nothing?
    assert context(*tau[:2]).list_actions(100) == ("DROP", "REFINE", "EXPAND")


def test_actions_that_cannot_be_paid_for_or_act_on_nothing_are_not_offered() -> None:
    costs = {"DROP": 10, "REFINE": 20, "EXPAND": 30}
    offered = [replace(CONFLICT, costs=costs).list_actions(frames) for frames in (9, 10, 20, 30)]
    assert offered == [(), ("DROP",), ("DROP", "REFINE"), ("DROP", "REFINE", "EXPAND")]
    assert context(record("A"), unexplored=()).list_actions(99) == ("REFINE",)
    assert context(unexplored=()).list_actions(99) == ()


def test_the_default_is_the_longest_unexplored_spans_then_a_closer_look_then_nothing() -> None:
    every = ("DROP", "REFINE", "EXPAND")
    assert choose_default_action(CONFLICT, every) == Expand(PIECES)
    short_first = (Interval(0, 3), Interval(10, 15), Interval(20, 40), Interval(60, 65))
    assert choose_default_action(context(unexplored=short_first), every) == Expand((Interval(10, 15), Interval(20, 40)))
    assert choose_default_action(CONFLICT, ("DROP", "REFINE")) == Refine("a3", Refinement.RAISE_FRAME_RATE)
    assert choose_default_action(CONFLICT, ("DROP",)) is None
