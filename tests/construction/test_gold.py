"""Gold items: mixed in unseen, never in the bench."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trace_ves.construction.gold import broken
from trace_ves.construction.ledger import Change
from trace_ves.construction.proposed_item import DraftError, ProposedItem, check_evidence
from trace_ves.construction.reports import report
from trace_ves.construction.stages import GOLD_SLOT
from trace_ves.core import Interval

from .histories import EVIDENCE, proposal

if TYPE_CHECKING:
    from collections.abc import Callable

    from .teams import Team


def gold(team: Team, item: str, *, accept: bool, made: ProposedItem | None = None) -> None:
    value = {"accept": accept, "without": {}}
    team.propose(item, made=made)
    team.desk.store.append([Change(item, GOLD_SLOT, "build", value)])


def test_gold_items_are_mixed_in_and_never_come_into_the_bench(make_team: Callable[..., Team]) -> None:
    team = make_team("ann", "bob", "cat", "dan", gold_share=0.25)
    team.propose(*(f"c{n}" for n in range(16)))
    for n in range(16, 24):
        gold(team, f"c{n}", accept=n % 2 == 0)
    for name in ("ann", "bob"):
        for _ in range(16):
            held = team.next(name)
            assert held is not None
            team.verify(name, held.item)  # accepts whatever comes
    found = report(team.desk.store.ledger())
    assert found.proposed == 16
    for name in ("ann", "bob"):
        assert found.annotators[name].gold_judged == 4
        assert found.annotators[name].gold_right == 2


def test_a_broken_twin_has_an_interval_where_nothing_happens() -> None:
    made = broken(proposal())
    assert made.text == proposal().text
    changed = [new for new, old in zip(made.evidence, EVIDENCE, strict=True) if new != old]
    assert len(changed) == 1
    assert all(changed[0].intersection(old) is None for old in EVIDENCE)
    check_evidence(made.evidence, made.duration)
    with pytest.raises(DraftError, match="no interval"):
        broken(proposal(evidence=(Interval(0, 60), Interval(60, 120))))
