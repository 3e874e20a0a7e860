"""Rules of a build at their limits and one step beyond, and the exact words and numbers that people read."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trace_ves.construction.interchange import (
    Frames,
    ScreenTimes,
    export_intervals,
    import_intervals,
    make_task,
    merge_noted,
    read_spans,
)
from trace_ves.construction.judged_item import JudgedItem, list_items
from trace_ves.construction.ledger import Stage
from trace_ves.construction.looking import Looking
from trace_ves.construction.next_steps import fewest_annotators, find_shortages, next_steps
from trace_ves.construction.project import BuildSettings, Project
from trace_ves.construction.proposal import (
    DraftError,
    check_count,
    check_draft,
    check_evidence,
    list_windows,
    new_item_id,
)
from trace_ves.construction.reports import (
    AnnotatorRecord,
    Report,
    closure_statement,
    funnel_table,
    list_facts,
    make_report,
    why_unproven,
)
from trace_ves.construction.store import Store
from trace_ves.core import InputError, Interval

from .histories import EVIDENCE, Pen, proposal
from .teams import Team
from .test_interchange import tasks
from .test_reports import accepted_items
from .test_rules import check, draft

# --- proposals ----------------------------------------------------------------------------------


def test_windows_of_a_film() -> None:
    assert list_windows(30) == [Interval(0, 30)]
    assert list_windows(30.5) == [Interval(0, 30), Interval(25, 30.5)]
    assert list_windows(70) == [Interval(0, 30), Interval(25, 55), Interval(50, 70)]
    assert re.fullmatch("c[0-9a-f]{8}", new_item_id())


@pytest.mark.parametrize(
    ("pair", "made"),
    [
        ([10, 11], (10, 11)),
        ([10, 10.9], (9.95, 10.95)),
        ([0, 0.4], (0, 1)),
        ([39.9, 40], (39, 40)),
        ([1.23456, 3.45678], (1.235, 3.457)),
    ],
)
def test_a_short_interval_is_widened_to_a_second(pair: list[float], made: tuple[float, float]) -> None:
    other = [20, 22] if pair[0] < 20 else [5, 6]
    found = check_draft(
        draft(evidence=sorted([pair, other])), video="videos/a.mp4", duration=40.0, family="event-counting"
    )
    assert Interval(*made) in found.evidence


@pytest.mark.parametrize(
    ("spans", "sentence"),
    [
        ([(0, 0.1), (1, 51)], ""),
        ([(0, 0.09), (1, 2)], "the interval 0-0.09 s must be 0.1 to 50 s long"),
        ([(0, 1), (1, 51.1)], "the interval 1-51.1 s must be 0.1 to 50 s long"),
        ([(0, 1), (90, 100)], ""),
        ([(0, 1), (90, 100.1)], "the interval 90-100.1 s does not lie in the video of 100 s"),
        ([(0, 1)], "it needs 2 to 24 intervals, found 1"),
        ([(n, n + 1) for n in range(24)], ""),
        ([(n, n + 1) for n in range(25)], "it needs 2 to 24 intervals, found 25"),
        ([(0, 2), (1.9, 3)], "its intervals overlap or are not in order of time"),
    ],
)
def test_intervals_that_an_annotator_may_set(spans: list[tuple[float, float]], sentence: str) -> None:
    assert refusal(check_evidence, [Interval(*span) for span in spans], 100.0) == sentence


def refusal(rule: Callable[..., object], *arguments: Any) -> str:
    try:
        rule(*arguments)
    except DraftError as error:
        return str(error)
    return ""


def test_a_draft_that_is_refused_says_what_it_has() -> None:
    assert refusal(check, draft(options=["1", "2", "3"])) == "it needs 4 different options, found 3"
    assert refusal(check, draft(options=["a", "A", "3", "4"])) == "it needs 4 different options, found 4"
    assert refusal(check, draft(answer="x" * 30)) == f"its answer must be one of A-D, found {'x' * 20!r}"
    assert refusal(check, draft(evidence=[[1], [2, 3]])) == "an interval has two numbers, found 1"
    outside = "the interval 90-101 s does not lie in the video of 100 s"
    assert refusal(check, draft(evidence=[[10, 14], [90, 101]])) == outside
    assert refusal(check, draft(rationales=["x"])) == "it needs a rationale for each of 2 intervals, found 1"
    count = "the right count is '3', but there are 2 intervals"
    assert refusal(check_count, "event-counting", "3", EVIDENCE[:2]) == count
    assert refusal(check_count, "event-counting", "none", EVIDENCE[:2]).startswith("the right count is 'none'")
    assert refusal(check_count, "event-counting", "2 times", EVIDENCE[:2]) == ""
    assert refusal(check_count, "temporal-ordering", "3", EVIDENCE[:2]) == ""
    made = check(draft(answer=" (b). ", rationales=[" a ", "b" * 600], question=" Q? ", options=[" 1", "2 ", "3", "4"]))
    assert (made.answer, made.rationales, made.text) == ("B", ("a", "b" * 500), "Q?")
    assert made.options == ("1", "2", "3", "4")


# --- Label Studio -------------------------------------------------------------------------------

TIMES = ScreenTimes(np.array([0.0, 0.5, 0.6, 2.0]), 2.5)


def test_frames_of_an_interval_and_back() -> None:
    assert [ScreenTimes(np.array(at), 1.0).frame_rate for at in ([0.0], [0.0, 0.5, 1.0])] == [1.0, 2.0]
    assert TIMES.frames(Interval(0.5, 0.6)) == (1, 1)
    assert TIMES.frames(Interval(0.4995, 0.6005)) == (1, 1)
    assert TIMES.frames(Interval(0.498, 0.602)) == (0, 2)
    assert TIMES.frames(Interval(0.0, 2.5)) == (0, 3)
    assert TIMES.frames(Interval(2.2, 2.3)) == (3, 3)
    assert TIMES.interval(Frames(0, 3)) == Interval(0, 2.5)
    assert TIMES.interval(Frames(2, None), fps=2) == Interval(1.0, 2.5)
    assert TIMES.interval(Interval(0.12345, 2.99)) == Interval(0.123, 2.5)  # up to a frame beyond the end
    assert TIMES.interval(Frames(0, 5), fps=2) == Interval(0, 2.5)


@pytest.mark.parametrize(
    ("span", "fps", "sentence"),
    [
        (Frames(3, 4), None, "frames 3-4 are not in a video of 4 frames"),
        (Frames(-1, 2), None, "frames -1-2 are not in a video of 4 frames"),
        (Frames(2, 1), None, "frames 2-1 are not in a video of 4 frames"),
        (Interval(1, 1), None, "1-1 s is not an interval"),
        (Interval(1, 3.2), None, "1-3.2 s is not in a video of 2.5 s"),
        (Frames(0, 6), 2.0, "0-3.5 s is not in a video of 2.5 s"),
    ],
)
def test_a_span_outside_of_the_video(span: Any, fps: float | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        TIMES.interval(span, fps)


def test_notes_stay_with_their_intervals() -> None:
    noted = [(Interval(5, 6), "c"), (Interval(0, 2), "a"), (Interval(2, 3), "b"), (Interval(1, 2), "a")]
    assert merge_noted(noted) == [(Interval(0, 3), "a; b"), (Interval(5, 6), "c")]


def test_a_task_for_label_studio(project: Project, store: Store, tmp_path: Path) -> None:
    made = proposal("videos/a.mp4", (Interval(0.5, 0.6), Interval(0.6, 2.0)))
    task = make_task("videos/a.mp4", TIMES, [JudgedItem("c1", made)])
    shared = {"type": "timelinelabels", "from_name": "interval", "to_name": "video", "origin": "manual"}
    assert task == {
        "data": {"video": "videos/a.mp4", "fps": 1.5, "questions": {"c1": "In which order?"}},
        "annotations": [
            {
                "result": [
                    {
                        "id": f"c1-{place}",
                        **shared,
                        "value": {"ranges": [{"start": frame, "end": last}], "timelinelabels": ["c1"]},
                        "meta": {"text": [f"fact {place}"]},
                    }
                    for place, (frame, last) in enumerate([(2, 2), (3, 3)])
                ]
            }
        ],
    }
    with pytest.raises(InputError, match="no item is proposed yet"):
        export_intervals(project, store.ledger(), tmp_path / "out")


@pytest.mark.parametrize(
    ("region", "found"),
    [
        ({"ranges": [{"start": 9, "end": 5}], "labels": ["x"]}, [Frames(4, 8)]),
        ({"ranges": [{"start": "5", "end": 9}], "labels": ["x", "x"]}, [Frames(4, 8)]),
        ({"sequence": [{"frame": 3}], "videorectangle": ["x"]}, [Frames(2, None)]),
        ({"start": "1", "end": 2, "labels": "x", "timelinelabels": ["x"]}, [Interval(1, 2)]),
    ],
)
def test_regions_of_every_kind(tmp_path: Path, region: dict[str, Any], found: list[Any]) -> None:
    path = tmp_path / "e.json"
    results = [{"result": [{"value": region, "meta": {"text": ["a", 1]}}, {"value": 3}]}, "no object"]
    path.write_text(json.dumps([{"data": {"title": "t", "clip": "b.mp4"}, "predictions": results}]))
    assert [(each.media, each.label, each.span, each.note) for each in read_spans(path)] == [
        ("b.mp4", "x", span, "a 1") for span in found
    ]
    path.write_text(json.dumps([{"data": {"a": "a.mp4", "video": "v.mp4"}, "predictions": results}]))
    assert {each.media for each in read_spans(path)} == {"v.mp4"}


@pytest.mark.parametrize(
    "media", ["a.mp4", "/data/upload/3/1a2b3c4d-a.mp4", "C:\\films\\a.mp4", "https://x.example/v/a.mp4?t=1", "%61.mp4"]
)
def test_a_video_is_found_by_its_name(project: Project, store: Store, tmp_path: Path, media: str) -> None:
    file = tmp_path / "e.json"
    file.write_text(tasks((11, 20, " a  fox "), (41, 50, "a fox"), (61, 70, "a fox"), video=media))
    [item] = import_intervals(project, store, file).proposed
    [judged] = list_items(store.ledger())
    made = judged.proposal
    assert (judged.id, made.video, made.duration, made.family) == (item, "videos/a.mp4", 32.0, "event-counting")
    assert made.evidence == (Interval(1, 2), Interval(4, 5), Interval(6, 7))
    assert made.rationales == ("a fox is seen here.",) * 3
    # the first byte of the question's SHA-256, modulo 4, is the place of the right number, which is at most 3 here
    numbers = [int(option) for option in made.options]
    assert numbers == list(range(numbers[0], numbers[0] + 4))
    assert numbers["ABCD".index(made.answer)] == 3
    assert numbers[0] >= 1
    with pytest.raises(InputError, match=r"^videos/b\.mp4: no such video in the build; .* like videos/a\.mp4\.$"):
        import_intervals(project, store, file, video="videos/b.mp4")


# --- the numbers of a build ---------------------------------------------------------------------


def report(**changes: Any) -> Report:
    rejected = {Stage.VERIFICATION: 3, Stage.LEAVE_ONE_OUT: 2, Stage.SHORTCUT: 1, Stage.ADJUDICATION: 0}
    waiting = dict.fromkeys(rejected, 0) | {Stage.SHORTCUT: 1234}
    plain = {"settled": 1, "settled_sufficiency": 0, "iou": 0.8766, "agreement": 91.26, "minutes_per_item": 13.456}
    counts = {"proposed": 2000, "rejected": rejected, "waiting": waiting, "accepted": 5}
    return Report(**{**counts, **plain, "hours": 1.256, "backbones": {"probe": ("a", "b")}, **changes})


def test_the_numbers_for_machines() -> None:
    record = AnnotatorRecord([0.5, 0.75, 0.87654], 1, 2, 2, 3)
    record.seconds |= {"c1": 60.0, "c2": 100.0}
    found = report(annotators={"ann": record, "bob": AnnotatorRecord()}, not_blind=4, partial_answers=9).to_json()
    assert found.pop("closure").startswith("5 of 2000 proposed")
    assert found == {
        "proposed": 2000,
        "after": dict(zip(report().rejected, (1997, 1995, 1994, 1994), strict=True)),
        "rejected": report().rejected,
        "waiting": report().waiting,
        "accepted": 5,
        "accept_rate": 0.2,
        "settled_by_adjudicator": 1,
        "inter_annotator_iou": 0.877,
        "human_model_agreement": 91.3,
        "minutes_per_item": 13.46,
        "hours": 1.26,
        "backbones": {"probe": ["a", "b"]},
        "annotators": [
            {
                "annotator": 1,
                "judgements": 3,
                "watched_share": 0.709,
                "gold_accuracy": 0.667,
                "gold_judged": 3,
                "minutes_per_item": 1.333,
                "hurried": 1,
                "not_blind": 2,
            },
            {
                "annotator": 2,
                "judgements": 0,
                "watched_share": None,
                "gold_accuracy": None,
                "gold_judged": 0,
                "minutes_per_item": None,
                "hurried": 0,
                "not_blind": 0,
            },
        ],
        "not_blind": 4,
        "partial_answers": 9,
        "unproven": {},
    }
    assert report(accepted=0, rejected=dict.fromkeys(report().rejected, 0)).accept_rate is None


def test_the_numbers_for_people() -> None:
    assert list_facts(report()) == [
        ("accepted", "5, 1,234 in progress"),
        ("accept rate", "0.2 %"),
        ("settled by an adjudicator", "1 of the accepted"),
        ("inter-annotator IoU", "0.88"),
        ("human/model agreement without one interval", "91.3 %"),
        ("mean time per item and annotator", "13.5 minutes"),
        ("time of all people", "1.3 hours"),
        ("backbone of probe", "a, b"),
    ]
    idle = dict(list_facts(report(waiting=dict.fromkeys(report().rejected, 0), agreement=None, iou=None)))
    assert idle["accepted"] == "5"
    assert "%" not in idle["human/model agreement without one interval"]
    table = funnel_table(report())
    rows = [[row.name, *(cell[0].text for cell in row.cells)] for section in table.sections for row in section.rows]
    assert rows == [
        ["1 proposal", "", "2,000", ""],
        ["2 visual verification", "3", "1,997", "0"],
        ["3 leave-one-out", "2", "1,995", "0"],
        ["4 shortcut probe", "1", "1,994", "1,234"],
        ["5 adjudication", "0", "1,994", "0"],
    ]


def test_the_closure_statement_word_by_word() -> None:
    assert closure_statement(report(accepted=0)) == (
        "None of 2000 proposed items is accepted yet, so nothing is guaranteed yet."
    )
    unproven = {"c1": "x", "c2": "y", "c3": "y"}
    said = closure_statement(report(unproven=unproven, settled_sufficiency=2, not_blind=4, partial_answers=9))
    assert said.startswith(
        "5 of 2000 proposed items are accepted. The statement is withheld for 3 accepted items: y (2); x (1)."
        " For 2 of them, annotators who played"
    )
    assert " Of these, 3 were judged so by both annotators and 2 by an adjudicator after the annotators" in said
    assert " In 4 of 9 answers about a partial set, the annotator had seen other clips of the video before." in said
    plain = closure_statement(report())
    assert "For each of them, annotators" in plain
    assert "withheld" not in plain
    assert "before" not in plain
    every = closure_statement(report(accepted=1, unproven={"c1": "x"}))
    assert every == "The statement is withheld for 1 accepted item: x (1)."


@pytest.mark.parametrize(
    ("looking", "reason"),
    [
        (Looking(0.9, 15, 15), ""),
        (Looking(0.89, 15, 15), "an interval was not played"),
        (Looking(1, 15, 30), "judged faster than the clips are long"),
    ],
)
def test_what_counts_as_looked_at(looking: Looking, reason: str) -> None:
    settings = BuildSettings(watched_share=0.9, least_pace=1.0, gold_accuracy=0.5)
    [judged] = list_items(accepted_items(looking).ledger)
    assert why_unproven(judged, {}, settings) == reason
    half = {"cat": AnnotatorRecord(gold_right=1, gold_judged=2)}
    worse = {"cat": AnnotatorRecord(gold_right=1, gold_judged=3)}
    assert why_unproven(judged, half, settings) == reason
    assert why_unproven(judged, worse, settings) == (reason or "an annotator got too many gold items wrong")


def test_the_report_adds_up_time_backbones_and_answers() -> None:
    pen = accepted_items(Looking(1, 60, 15, is_blind=False))
    pen.propose("w1")
    pen.verify("w1", "ann", seconds=5400)
    found = make_report(pen.ledger)
    assert (found.proposed, found.accepted, found.waiting[Stage.VERIFICATION], found.hours) == (2, 1, 1, 1.5)
    assert (found.not_blind, found.partial_answers, found.iou, found.agreement) == (6, 6, 1.0, 100.0)
    assert (found.settled, found.settled_sufficiency) == (0, 0)


# --- what to do next ----------------------------------------------------------------------------


def steps(team: Team) -> list[str]:
    return next_steps(team.judgements.store.ledger(), team.judgements.queue, "B")


def test_an_operator_reads_what_to_do(make_team: Callable[..., Team]) -> None:
    team = make_team("ann")
    assert steps(team) == ["Propose items: trace-ves build propose B --captioner SPEC --proposer SPEC"]


def test_how_many_annotators_are_needed() -> None:
    pen = Pen().propose("c1").propose("c2").propose("c3", proposal("videos/b.mp4"))
    items = list_items(pen.ledger)
    assert fewest_annotators(items, BuildSettings()) == 2 + 2 * 3 * 2
    assert fewest_annotators(items[2:], BuildSettings()) == 2 + 2 * 3
    assert fewest_annotators(items, BuildSettings(allow_not_blind=True)) == 4
    assert fewest_annotators([], BuildSettings()) == 0


class Seen:
    """Who has seen which video."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def has_seen(self, name: str, _video: str) -> bool:
        return name in self.names


def test_who_is_missing_for_partial_sets() -> None:
    pen = Pen().propose("c1").propose("c2")
    for name in ("ann", "bob"):
        pen.verify("c1", name)
    items = list_items(pen.ledger)
    fresh = [f"p{number}" for number in range(6)]
    shortages = list(find_shortages(items, Seen("ann", "bob"), ["ann", "bob", *fresh[:4]]))  # type: ignore[arg-type]
    assert shortages == [("videos/a.mp4", ["c1"], 2)]
    assert list(find_shortages(items, Seen("ann"), ["ann", *fresh])) == []  # type: ignore[arg-type]
    pen.answer("c1", "cat", [None])
    shortages = list(find_shortages(list_items(pen.ledger), Seen(), fresh[:4]))  # type: ignore[arg-type]
    assert shortages == [("videos/a.mp4", ["c1"], 1)]
