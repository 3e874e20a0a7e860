"""Gold items: mixed in unseen, never in the bench."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from trace_ves.construction.assignments import Assignment
from trace_ves.construction.gold import add_gold, count_decimals, match_decimals, move_interval
from trace_ves.construction.judged_item import GoldAnswer, ProposedItem, list_all_items, mean_iou
from trace_ves.construction.project import Project
from trace_ves.construction.proposal import DraftError, check_evidence
from trace_ves.construction.reports import make_report
from trace_ves.construction.store import Store
from trace_ves.core import InputError, Interval

from .histories import EVIDENCE, StorePen, proposal
from .teams import Team


def test_gold_items_are_mixed_in_and_never_come_into_the_bench(make_team: Callable[..., Team]) -> None:
    team = make_team("ann", "bob", "cat", "dan", gold_share=0.25)
    team.propose(*(f"c{n}" for n in range(24)))
    for n in range(16, 24):
        StorePen(team.judgements.store).gold(f"c{n}", accept=n % 2 == 0)
    for name in ("ann", "bob"):
        for _ in range(16):
            team.verify(name, team.next(name).item)  # accepts whatever comes
    found = make_report(team.judgements.store.ledger())
    assert found.proposed == 16
    for name in ("ann", "bob"):
        assert found.annotators[name].gold_judged == 4
        assert found.annotators[name].gold_right == 2


def test_no_third_annotator_gets_a_gold_item_while_others_are_left(make_team: Callable[..., Team]) -> None:
    team = make_team("ann", "bob", "cat", "dan", "eve", "fay", gold_share=0.5)
    for n in range(8):
        team.propose(f"c{n}", made=proposal(f"videos/{n}.mp4"))
        pen = StorePen(team.judgements.store).propose(f"g{n}", proposal(f"videos/{10 + n}.mp4"))
        pen.gold(f"g{n}", accept=True, without={"1": None})
    for name in ("ann", "bob"):
        while (held := team.next(name)) is not None:
            team.verify(name, held.item)
    for _ in range(8):
        for name in ("cat", "dan", "eve", "fay"):
            if (held := team.next(name)) is not None:
                team.answer(name, held)
    judges = [len(each.answers) for each in list_all_items(team.judgements.store.ledger()) if each.gold]
    assert sum(judges) > 12
    assert max(judges) == 2


def test_a_broken_twin_has_an_interval_where_nothing_happens() -> None:
    made = move_interval(proposal())
    assert made.text == proposal().text
    changed = [new for new, old in zip(made.evidence, EVIDENCE, strict=True) if new != old]
    assert len(changed) == 1
    assert all(changed[0].intersection(old) is None for old in EVIDENCE)
    check_evidence(made.evidence, made.duration)
    with pytest.raises(DraftError, match="no interval"):
        move_interval(proposal(evidence=(Interval(0, 60), Interval(60, 120))))


@pytest.mark.parametrize(("digits", "others"), [(3, 0), (0, 3), (1, 1)])
def test_edges_of_gold_are_as_precise_as_those_of_other_items(digits: int, others: int) -> None:
    def item(count: int) -> ProposedItem:
        return proposal(evidence=tuple(Interval(round(n + 1 / 7, count), round(n + 3.1234, count)) for n in (10, 20)))

    for _ in range(20):
        made = match_decimals(item(digits), item(others))
        assert count_decimals(made.evidence) <= others
        assert mean_iou(made.evidence, item(digits).evidence) > 0.7
    assert others == max(count_decimals(match_decimals(item(digits), item(others)).evidence) for _ in range(9))
    tight = proposal(evidence=(Interval(1.01, 1.31), Interval(1.32, 1.5)))
    assert match_decimals(tight, item(0)) == tight


def test_gold_of_leave_one_out_is_answered_blind_and_counted(make_team: Callable[..., Team]) -> None:
    """`without` says what the clips decide; each person gets one such set, of a video they have seen nothing of."""
    team = make_team("ann", "bob", "cat", "dan", gold_share=0.5)
    for n in range(6):
        pen = StorePen(team.judgements.store).propose(f"g{n}", proposal(f"videos/{n}.mp4"))
        pen.gold(f"g{n}", accept=True, without={"1": None, "2": "B"})
        team.propose(f"c{n}", made=proposal(f"videos/{10 + n}.mp4"))
    for name in ("ann", "bob"):
        while (held := team.next(name)) is not None:
            assert held.left_out is None  # a gold item comes where another of its stage would
            team.verify(name, held.item)
    taken: dict[str, list[Assignment]] = {"cat": [], "dan": []}
    for name, answer in (("cat", None), ("dan", "B")):
        while (held := team.next(name)) is not None:
            team.answer(name, held, answer)
            if held.item.startswith("g"):
                taken[name].append(held)
    for mine in taken.values():
        assert mine
        assert {held.left_out for held in mine} == {1}  # the first that is known
        assert len({held.item for held in mine}) == len(mine)
    found = make_report(team.judgements.store.ledger()).annotators
    assert found["cat"].gold_right == found["cat"].gold_judged == len(taken["cat"])
    assert (found["dan"].gold_right, found["dan"].gold_judged) == (0, len(taken["dan"]))
    assert make_report(team.judgements.store.ledger()).partial_answers == 12


def test_gold_lines_say_what_partial_sets_decide(project: Project, store: Store, tmp_path: Path) -> None:
    line = {
        "video": "videos/a.mp4",
        "question": "In which order?",
        "options": ["a", "b", "c", "d"],
        "answer": "B",
        "evidence": [[1, 2], [4, 5], [6, 7]],
        "without": {"0": None, "2": "B"},
    }
    (tmp_path / "gold.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(InputError, match=r"gold\.jsonl:1: rationales"):  # a stock sentence would give gold away
        add_gold(project, store, tmp_path / "gold.jsonl")
    (tmp_path / "gold.jsonl").write_text(json.dumps(line | {"rationales": ["one", "two", "three"]}) + "\n")
    assert add_gold(project, store, tmp_path / "gold.jsonl") == (1, 0)
    [judged] = list_all_items(store.ledger())
    assert judged.gold == GoldAnswer(accept=True, without={0: None, 2: "B"})
