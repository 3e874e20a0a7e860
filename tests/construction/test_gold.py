"""Gold items: mixed in unseen, never in the bench."""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from trace_ves.construction import gold
from trace_ves.construction.assignments import Assignment
from trace_ves.construction.judged_item import Evidence, GoldAnswer, list_all_items
from trace_ves.construction.ledger import StaleError
from trace_ves.construction.project import Project
from trace_ves.construction.proposal import DraftError
from trace_ves.construction.reports import make_report
from trace_ves.construction.store import Store
from trace_ves.core import InputError, Interval

from .histories import EVIDENCE, StorePen, Team, proposal


def test_gold_items_are_mixed_in_and_never_come_into_the_bench(make_team: Callable[..., Team]) -> None:
    team = make_team("ann", "bob", "cat", "dan", gold_share=0.25)
    team.propose(*(f"c{n}" for n in range(24)))
    for n in range(16, 24):
        StorePen(team.judgements.store).gold(f"c{n}", accept=n % 2 == 0)
    for name in ("ann", "bob"):
        for done in range(16):
            held = team.next(name)
            assert team.judgements.queue.count_items(name) == 24 - done
            team.verify(name, held.item)  # accepts whatever comes
    found = make_report(team.judgements.store.ledger())
    assert found.proposed == 16
    assert [(each.gold_judged, each.gold_right) for each in found.annotators.values()] == [(4, 2)] * 2


class Chance:
    """Chances that a test chooses: which interval is tried first, and the lower or the upper end of every range."""

    first, end, value = 0, 0, 0.0
    weighed: Sequence[Any] = ()

    def sample(self, places: range, _count: int) -> list[int]:
        return [*places[self.first :], *places[: self.first]]

    def choices(self, options: list[Any], weights: list[float]) -> list[Any]:
        self.weighed = list(zip(options, weights, strict=True))
        return options[-1:]

    def uniform(self, *ends: float) -> float:
        return ends[self.end]

    def random(self) -> float:
        return self.value

    def choice(self, options: list[Any]) -> Any:
        return options[0]


@pytest.fixture
def chance(monkeypatch: pytest.MonkeyPatch) -> Chance:
    monkeypatch.setattr("secrets.token_hex", lambda _: "0001")
    monkeypatch.setattr(gold, "_CHANCE", made := Chance())
    return made


@pytest.mark.parametrize(
    ("evidence", "first", "weighed", "moved"),
    [
        (EVIDENCE, 0, [((0, 4), 4), ((16, 34), 18)], [(16, 20), (40, 46), (80, 85)]),
        (EVIDENCE, 1, [((16, 32), 16), ((48, 72), 24)], [(10, 14), (48, 54), (80, 85)]),
        (EVIDENCE, 2, [((48, 73), 25), ((87, 115), 28)], [(10, 14), (40, 46), (87, 92)]),
        ((Interval(4, 6), Interval(20, 30)), 0, [((8, 16), 8)], [(8, 10), (20, 30)]),
        ((Interval(0, 55), Interval(58, 118)), 1, [], None),
    ],
)
def test_a_broken_twin_has_an_interval_where_nothing_happens(
    chance: Chance, evidence: Evidence, first: int, weighed: list[Any], moved: list[Any] | None
) -> None:
    """At least 2 s from every true one; a gap is chosen by the length of the moments that it offers."""
    chance.first = first
    if moved is None:
        with pytest.raises(DraftError, match="no interval of this item can be moved to a free place"):
            gold.move_interval(proposal(evidence=evidence))
    else:
        expected = tuple(Interval(*span) for span in moved)
        assert gold.move_interval(proposal(evidence=evidence)) == proposal(evidence=expected)
    assert list(chance.weighed) == weighed


@pytest.mark.parametrize(
    ("mine", "other", "end", "made"),
    [
        ([(10.0, 14.5), (20, 25)], 0.123, 1, (10.05, 14.55)),
        ([(10.0, 14.25), (20, 25)], 0.123, 0, (9.995, 14.245)),
        ([(10.125, 14.25), (20, 25)], 5.0, 1, (10.0, 14.0)),
        ([(0.0, 60.0), (70, 75)], 0.25, 0, (0.0, 59.95)),
        ([(20, 25), (60.0, 120.0)], 0.25, 1, (60.05, 120.0)),
    ],
)
def test_edges_of_gold_are_as_precise_as_those_of_other_items(
    chance: Chance, mine: list[tuple[float, float]], other: float, end: int, made: tuple[float, float]
) -> None:
    chance.end = end
    made_of = proposal(evidence=tuple(Interval(*span) for span in mine))
    found = gold.match_decimals(made_of, proposal(evidence=(Interval(other, 30), Interval(40, 50))))
    assert Interval(*made) in found.evidence


def test_edges_without_room_stay() -> None:
    tight = proposal(evidence=(Interval(1.01, 1.31), Interval(1.32, 1.5)))
    assert gold.match_decimals(tight, proposal()) == tight


def test_gold_of_leave_one_out_is_answered_blind_and_counted(make_team: Callable[..., Team]) -> None:
    """`without` says what the clips decide; each person gets one such set, of a video they have seen nothing of.

    No third annotator gets a gold item while others are left.
    """
    answers = {"cat": None, "dan": "B", "eve": None, "fay": "B"}
    team = make_team("ann", "bob", *answers, gold_share=0.5)
    for n in range(8):
        pen = StorePen(team.judgements.store).propose(f"g{n}", proposal(f"videos/{n}.mp4"))
        pen.gold(f"g{n}", accept=True, without={"1": None, "2": "B"})
        team.propose(f"c{n}", made=proposal(f"videos/{10 + n}.mp4"))
    for name in ("ann", "bob"):
        while (held := team.next(name)) is not None:
            assert held.left_out is None  # a gold item comes where another of its stage would
            team.verify(name, held.item)
    taken: dict[str, list[Assignment]] = {name: [] for name in answers}
    for name in [*answers] * 8:
        if (held := team.next(name)) is not None:
            team.answer(name, held, answers[name])
            if held.item.startswith("g"):
                taken[name].append(held)
    found = make_report(team.judgements.store.ledger())
    for name, mine in taken.items():
        assert {held.left_out for held in mine} == {1}  # the first that is known
        assert len({held.item for held in mine}) == len(mine) >= 3
        record = found.annotators[name]
        assert (record.gold_right, record.gold_judged) == (0 if answers[name] else len(mine), len(mine))
    judges = Counter(held.item for mine in taken.values() for held in mine)
    assert set(judges.values()) <= {1, 2}
    assert found.partial_answers == 32 - judges.total()


LINE = {
    "video": "videos/a.mp4",
    "question": "In which order?",
    "options": ["a", "b", "c", "d"],
    "answer": "B",
    "evidence": [[4, 6], [10, 12], [20, 22]],
    "rationales": ["one", "two", "three"],
}
TRUE = (Interval(4, 6), Interval(10, 12), Interval(20, 22))


@pytest.mark.parametrize(
    ("changes", "value", "answer", "evidence"),
    [
        ({"without": {"0": None, "2": "B"}}, 0.9, GoldAnswer(accept=True, without={0: None, 2: "B"}), TRUE),
        ({}, 0.49, GoldAnswer(accept=True), TRUE),
        ({}, 0.5, GoldAnswer(accept=False), (TRUE[0], Interval(14, 16), TRUE[2])),
        ({"accept": True}, 0.9, GoldAnswer(accept=True), TRUE),
        ({"accept": False}, 0.1, GoldAnswer(accept=False), TRUE),
    ],
)
def test_a_gold_line_is_right_as_it_says_or_by_chance(
    chance: Chance, project: Project, store: Store, changes: Any, value: float, answer: GoldAnswer, evidence: Evidence
) -> None:
    chance.value = value
    file = project.folder / "gold.jsonl"
    file.write_text(json.dumps(LINE | changes) + "\n")
    assert gold.add_gold(project, store, file) == (int(answer.accept), int(not answer.accept))
    [judged] = list_all_items(store.ledger())
    assert (judged.gold, judged.proposal.evidence, judged.proposal.family) == (answer, evidence, "temporal-ordering")
    with pytest.raises(StaleError, match="c0001"):  # an id that is taken
        gold.add_gold(project, store, file)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([LINE, LINE | {"rationales": None}], "2: rationales: Input should be a valid list."),
        ([LINE | {"options": ["1", "2", "3", "4"]}], "1: the right count is '2', but there are 3 intervals."),
        ([LINE | {"answer": "E"}], "1: its answer must be one of A-D, found 'E'."),
        ([], " no item in this file."),
    ],
)
def test_a_gold_line_that_is_refused(
    project: Project, store: Store, tmp_path: Path, lines: list[dict[str, Any]], sentence: str
) -> None:
    file = tmp_path / "gold.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError, match=f"^{re.escape(f'{file}:{sentence}')}$"):
        gold.add_gold(project, store, file)
    assert store.ledger().entries == []
