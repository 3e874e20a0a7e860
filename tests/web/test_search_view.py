"""One view of a search for every way of showing it: nothing is left out, and no hostile record breaks a page."""

import io
import json
import re
from dataclasses import replace
from html import unescape
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

from tests.fakes import Still
from tests.web.web_bench import FACTS
from trace_ves.benches import load_bench
from trace_ves.cli import answer_panel
from trace_ves.cli.answer_panel import SearchScreen, show_clip, show_result
from trace_ves.cli.progress import LateProgress
from trace_ves.core import Clip, Frame, Interval, Question, Termination
from trace_ves.observer import UNLIMITED, Decided, Event, Progress, RoundStarted, StageStarted
from trace_ves.records import Call, Item, ObservationLog, Prediction
from trace_ves.records.search import Decision, Drop, Expand, Stop, TraceRecord
from trace_ves.runs.asking import AskResult
from trace_ves.web.listing import QuestionInfo
from trace_ves.web.search_view import (
    LONGEST_RECORD,
    LONGEST_TEXT,
    NOT_FOUND,
    STABLE,
    Found,
    SearchView,
    clock,
    decision_text,
    describe_event,
    fact_text,
    shorten,
    view_answer,
    view_search,
)
from trace_ves.web.timeline import Bar, Evidence, Lane, Timeline, axis, make_timeline, pack
from trace_ves.web.views import environment

DATA = Path(__file__).parents[1] / "data" / "v0_1_0"
INFO = QuestionInfo(Question("q", "", ""))


# --- an answer of `ask` -------------------------------------------------------------------------


def results(run: str) -> dict[str, AskResult]:
    """The answers of a run on record, with grey frames in their clips, by the way each search went."""
    questions = {item.question.id: item.question for item in load_bench(DATA / "witness").items}
    found = {}
    for line in (DATA / "witness-runs" / f"{run}@scripted.jsonl").read_text().splitlines():
        record = json.loads(line)
        question = questions[record["question_id"]]
        found[question.text.rpartition("(")[2].rstrip(")")] = result_of(question, record)
    return found


def result_of(question: Question, record: dict[str, Any]) -> AskResult:
    prediction = Prediction.from_json(record)
    bundle = tuple(
        Clip(clip.span, clip.strategy, tuple(Frame(n, t, Still(90)) for n, t in enumerate(clip.timestamps)))
        for clip in prediction.bundle
    )
    log = ObservationLog(prediction.observations)
    termination = Termination(prediction.termination)
    return AskResult(question, prediction.answer, termination, bundle, log, prediction, 120.0)


def test_a_stable_answer_says_what_each_clip_shows(plain: AskResult) -> None:
    words = view_answer(plain)
    assert [seen.facts for seen in words.clips] == [(fact,) for fact in FACTS]
    assert (words.still_open, words.remark) == ((), "")
    steady = plain.prediction.to_json()
    for each in steady["trajectory"]["rounds"][-1]["records"]:
        each["answer"] = steady["answer"]  # every bundle gave it
    assert view_answer(result_of(plain.question, steady)).ending == STABLE


def test_a_search_that_was_not_settled_says_why_and_what_is_open() -> None:
    contradicted = view_answer(results("trace")["replay"]).ending
    assert "A second look at the same clips gave another answer" in contradicted
    assert "guess" in contradicted
    ended = view_answer(unsettled({"action": "EXPAND", "intervals": [[30.0, 40.0]]}))
    assert ended.ending.startswith("Frames or rounds ran out before the evidence settled: take this as a guess.")
    assert ended.still_open == ("a blue van passes", "a yellow door opens")
    assert view_answer(unsettled(None)).ending.startswith("Nothing was left to look at")


def unsettled(action: dict[str, Any] | None) -> AskResult:
    """The plain search as if it had ended with its first clip and this decision."""
    plain = results("trace")["plain"]
    record = plain.prediction.to_json() | {"termination": "no-stable-prefix"}
    search = record["trajectory"]
    search |= {"stable_prefix": None, "fallback": {"prefix": ["a1"], "answer": "A", "agrees": True}}
    search["rounds"][-1] |= {"replay": None, "decisions": [{"action": action, "refused": []}]}
    return result_of(plain.question, record)


@pytest.mark.parametrize(
    ("run", "words"), [("uniform-16", "looked once"), ("avp", "The model said"), ("vca", "The model said")]
)
def test_other_methods_say_what_their_stop_is_worth(run: str, words: str) -> None:
    assert words in view_answer(results(run)["plain"]).ending


@pytest.mark.parametrize("answer", [None, "unknown", "Not visible in the clips.", "It cannot be determined", "n/a"])
def test_not_found_is_an_answer(plain: AskResult, answer: str | None) -> None:
    open_question = replace(plain.question, options=())
    view = view_answer(replace(plain, question=open_question, prediction=replace(plain.prediction, answer=answer)))
    assert (view.found, view.answer, view.ending, view.clips) == (Found.NO, "not found", NOT_FOUND, ())


def test_a_forced_answer_shows_no_storyboard_and_lists_what_was_read(plain: AskResult) -> None:
    """The clips had never been read together: what their largest part settled counts."""
    record = plain.prediction.to_json() | {"termination": "no-stable-prefix"}
    search = record["trajectory"]
    first, *_ = (names for step in search["rounds"] for names in step["bundles"] if names)
    search |= {"stable_prefix": None, "fallback": {"prefix": [*first, "a9"], "answer": "A", "agrees": False}}
    view = view_answer(result_of(plain.question, record))
    assert (len(view.settled), len(view.still_open)) == (1, 2)
    assert {*view.settled} == {fact for clip in view.clips for fact in clip.facts}
    view = view_answer(result_of(plain.question, record | {"bundle": [search["storyboard"]]}))
    assert view.clips == ()
    assert [clip.span for clip in view.others]


def test_the_last_reading_of_a_bundle_counts(plain: AskResult) -> None:
    record = plain.prediction.to_json()
    [first] = record["trajectory"]["rounds"]
    again = [each | {"answer": letter} for each, letter in zip(first["records"], "BCD", strict=True)]
    record["trajectory"]["rounds"].append(first | {"number": 2, "records": again})
    view = view_answer(result_of(plain.question, record))
    readings = [view.reading_of(tuple(names)) for names in (*first["bundles"], ["a9"])]
    assert [each and each.answer for each in readings] == ["B", "C", "D", None]


def counted(answer: str) -> AskResult:
    """The plain search as if it had counted."""
    plain = results("trace")["plain"]
    record = plain.prediction.to_json()
    record["trajectory"]["claims"] = [{"id": "count", "text": "how many times it is seen", "kind": "count"}]
    for step in record["trajectory"]["rounds"]:
        for number, prefix in enumerate(step["records"], 1):
            prefix["facts"] = {"count": {"count": number}}
    question = replace(plain.question, options=("2", "3", "4", "5"))
    return result_of(question, record | {"answer": answer})


def printed(result: AskResult, width: int = 100, seconds: Any = None, **options: Any) -> str:
    out = io.StringIO()
    show_result(result, console=Console(file=out, width=width, **options), seconds=seconds)
    return out.getvalue()


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", text)


def test_a_terminal_with_colours_gets_pictures_and_a_file_does_not(plain: AskResult) -> None:
    coloured = printed(plain, force_terminal=True, color_system="truecolor")
    assert coloured.count("▀") == 3 * 24 * 7  # two rows of pixels in each row of a picture
    assert "90;90;90" in coloured  # the grey of the frames
    assert "▀" in printed(plain, 80, force_terminal=True, color_system="256")
    assert "▀" not in printed(plain, 79, force_terminal=True, color_system="truecolor")
    text = printed(plain, seconds={"short": 0.049, "long": 0.05})
    assert re.search(r"seconds +long 0\.1 +│", text)
    assert "▀" not in text
    assert FACTS[1] in text
    assert "The answer counts 5, with 3 clips as evidence: a clip may show several" in printed(counted("D"))
    opened = printed(unsettled(None))
    assert re.search(r"still open +a blue van passes +│\n│ +a yellow door opens", opened), opened


def test_a_clip_frame_by_frame(plain: AskResult) -> None:
    out = io.StringIO()
    [clip, *_] = view_answer(plain).clips
    show_clip(clip, console=Console(file=out, width=100, force_terminal=True, color_system="truecolor"))
    heading, fact, *shown = [line.rstrip() for line in without_colours(out.getvalue()).splitlines()]
    assert (heading, fact) == ("0:21.0-0:26.0  3 frames of 36 px", FACTS[0])
    assert shown == ["  ".join(f"{at:<24}" for at in ("22.00 s", "24.00 s", "26.00 s")).rstrip(), *PICTURES, ""]
    out = io.StringIO()
    show_clip(clip, console=Console(file=out, width=100))
    assert out.getvalue() == f"{heading}\n{fact}\nframes at 22.00 s, 24.00 s, 26.00 s\n"
    assert answer_panel._draw_thumbnail(Frame(0, 1.0, Still(90, height=2))).plain == "▀" * 24


PICTURES = ["  ".join(["▀" * 24] * 3)] * 7


def test_three_other_clips_are_listed(plain: AskResult, monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_answer(plain)
    others = tuple(replace(view.clips[0], span=Interval(at, at + 1)) for at in range(5))
    monkeypatch.setattr("trace_ves.cli.answer_panel.view_answer", lambda _: replace(view, others=others))
    assert re.findall(r"also seen +(\S+)", printed(plain)) == ["0:00.0-0:01.0", "0:01.0-0:02.0", "0:02.0-0:03.0"]


def test_what_models_say_is_not_markup(plain: AskResult) -> None:
    record = plain.prediction.to_json()
    record["trajectory"]["claims"][0]["text"] = "when this happens: [red]a van[/red] [link=x]"
    assert "[red]a van[/red] [link=x]" in printed(result_of(plain.question, record))


# --- a search under way -------------------------------------------------------------------------


def shown(*events: Event, budget: int = 128) -> str:
    """What a terminal shows after these events."""
    out = io.StringIO()
    with SearchScreen(Console(file=out, width=100, force_terminal=True)) as screen:
        for event in events:
            screen(Progress(event, 40, budget))
    return without_colours(out.getvalue())


def test_a_stage_is_named_with_its_round_its_spans_and_the_budget() -> None:
    text = shown(RoundStarted(2), StageStarted("anchor-extraction", (Interval(60, 75.5),)))
    assert f" round 2: looking closely 1:00.0-1:15.5\n  budget {'━' * 12}╸{'━' * 27} 40 of 128 frames\n" in text
    assert "my-check" in shown(StageStarted("my-check"))
    assert "40 frames" in shown(StageStarted("direct-answer"), budget=UNLIMITED)
    assert "nothing is left to look at" in shown(Decided(Decision(None)))


def test_a_bar_appears_after_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now, drawn = [5.0], []
    monkeypatch.setattr("trace_ves.cli.progress.Live", lambda **options: drawn.append(options) or Live(**options))
    monkeypatch.setattr("trace_ves.cli.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    for seconds, quiet, calls, expected in (
        (1.9, False, [("drawing", 1, 4)], "^$"),
        (2.0, True, [("drawing", 1, 4)], "^$"),
        (2.0, False, [("[b] a", 1, 4), ("[b] a", 3, 4, "[b] it")], r"\[b\] a ━{30}╺?━+  75% \[b\] it \S+\n+\r$"),
        (2.0, False, [("drawing", 9, 9), ("saving", 1, 4)], r"saving ━{10}╺?━+  25%  \S+\n+\r$"),
    ):
        out = io.StringIO()
        with LateProgress(Console(file=out, width=100, force_terminal=True, quiet=quiet)) as progress:
            now[0] += seconds
            for call in calls:
                progress(*call)
        assert re.search(expected, without_colours(out.getvalue()))
        assert [each["transient"] for each in drawn] == [True] * (expected != "^$")
        drawn.clear()
    out = io.StringIO()
    with LateProgress(Console(file=out)) as progress:
        now[0] += 9
        progress("drawing", 1, 4)
        progress.print("[red] " + "x" * 99)
    assert out.getvalue() == "[red] " + "x" * 99 + "\n"


def test_the_time_before_a_stage_is_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", iter((10.0, 12.0, 15.0)).__next__)
    screen = SearchScreen(Console(file=io.StringIO()))
    screen(Progress(StageStarted("anchor-extraction"), 0, 128))
    screen(Progress(RoundStarted(2), 0, 128))
    assert screen.seconds == {"decoding": 2.0, "anchor extraction": 3.0}


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (Stop(2), "bundle 3 is stable; replay it"),
        (Drop(frozenset({"a2"})), "drop a2, which misleads"),
        (Drop(frozenset({"a2", "a1"})), "drop a1, a2, which mislead"),
        (Expand((Interval(30, 40), Interval(3600, 3661.5))), "look for more in 0:30.0-0:40.0, 1:00:00.0-1:01:01.5"),
        (Expand(()), "look for more in any part"),
        (None, "nothing is left to look at"),
    ],
)
def test_decisions_in_words(action: Any, words: str) -> None:
    assert decision_text(Decision(action)) == describe_event(Decided(Decision(action))) == words


def test_three_spans_of_a_stage_are_named_and_others_counted() -> None:
    spans = tuple(Interval(at, at + 1) for at in range(5))
    named = "looking closely 0:00.0-0:01.0, 0:01.0-0:02.0, 0:02.0-0:03.0"
    for count, more in ((3, ""), (4, " and 1 more"), (5, " and 2 more")):
        assert describe_event(StageStarted("anchor-extraction", spans[:count] + spans[:1])) == named + more
    assert describe_event(StageStarted("anchor-extraction")) == "looking closely"
    assert describe_event(RoundStarted(4)) == "round 4"
    assert [clock(seconds) for seconds in (0, 59.96, 3599.99, 7325.25)] == [
        "0:00.0",
        "1:00.0",
        "1:00:00.0",
        "2:02:05.2",
    ]
    assert [clock(seconds, 0) for seconds in (59.4, 59.6, 3600, 1e13)] == ["0:59", "1:00", "1:00:00", clock(1e12, 0)]
    assert [shorten("abcd", longest) for longest in (3, 4)] == ["ab…", "abcd"]


LOOKED = "round 1: looked at 0:15.0-0:31.0, 0:58.0-1:14.0, {}; kept 0:21.0-0:26.0, 1:03.0-1:08.0, {}"
SETTLED = [
    "  bundle 3 is stable; replay it",
    "  a second look at the same clips agreed",
    "One reading of all 3 clips settled every claim, and a second look agreed.",
]


def test_the_account_of_a_search() -> None:
    found = results("trace")
    claims = "to be settled: a blue van passes; a red balloon rises; a yellow door opens"
    plain = view_answer(found["plain"])
    assert plain.account() == [claims, LOOKED.format("1:32.0-1:48.0", "1:37.0-1:43.0"), *SETTLED]
    dropped = view_answer(found["drop"])
    assert dropped.account() == [
        claims,
        LOOKED.format("0:02.0-0:12.0", "0:02.0-0:12.0"),
        "  drop a3, which misleads",
        "round 2: no new segments; nothing kept",
        "  look for more in 0:12.0-0:15.0, 0:31.0-0:58.0, 1:14.0-2:00.0",
        "round 3: looked at 1:32.0-1:48.0; kept 1:37.0-1:43.0",
        *SETTLED,
    ]
    assert [fate for fate in dropped.fates.values() if fate != "answer"] == ["dropped"]
    assert [clip.span for clip in dropped.others] == [Interval(2, 12)]
    assert "  a second look at the same clips disagreed" in view_answer(found["replay"]).account()
    assert plain.effort == "88 frames in 9 calls to scripted, by trace"
    assert plain.calls[0] == "looking over the video for places to search: 32 frames"
    assert view_answer(found["refine"]).fates["a1"] == "refined"
    uniform = view_answer(results("uniform-16")["plain"])
    assert uniform.account() == [*uniform.calls, uniform.ending]


def test_what_a_count_leaves_open() -> None:
    five = "The answer counts 5, with 3 clips as evidence: a clip may show several, or some were not found."
    assert view_answer(counted("D")).remark == five
    record = counted("D").prediction.to_json()
    record["trajectory"] |= {"unexplored": [[1.0, 2.0], [3.0, 4.0]], "not_promising": [[5.0, 6.0]]}
    shown = view_answer(result_of(counted("D").question, record)).remark
    open_spans = "Not looked at closely: 0:01.0-0:02.0, 0:03.0-0:04.0."
    assert shown == f"{five} {open_spans} Judged not promising from single frames: 0:05.0-0:06.0."
    three = view_answer(counted("B"))
    assert [seen.facts for seen in three.clips] == [(), (), ("how many times it is seen: at least 3",)]
    assert three.remark == ""
    lasting = [QuestionInfo.of_item(Item(INFO.question, "A", (), seconds)) for seconds in (float("inf"), 3.0)]
    assert [info.duration for info in lasting] == [None, 3.0]


# --- a record of any run file -------------------------------------------------------------------


def searches(pattern: str) -> list[dict[str, Any]]:
    files = sorted(DATA.glob(f"*-runs/{pattern}@*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [line["trajectory"] for line in lines if line.get("trajectory")]


def view(trajectory: dict[str, Any]) -> SearchView:
    return view_search(Prediction("q", "A", trajectory=trajectory))


def told(trajectory: dict[str, Any]) -> str:
    """The story as a page has it, with its text as a reader sees it."""
    prediction = Prediction("q", "A", trajectory=trajectory)
    each = {"search": view_search(prediction), "name": "m", "prediction": prediction}
    macros = environment().get_template("_story.html").make_module({})
    return unescape(str(macros.tell(each, None)))  # type: ignore[attr-defined]  # a macro of the template


@pytest.mark.parametrize("record", searches("trace*"))
def test_everything_of_a_trace_search_of_version_0_1_0_is_told(record: dict[str, Any]) -> None:
    story = view(record)
    assert isinstance(story.record, TraceRecord)
    words = [claim["text"].replace("when this happens: ", "") for claim in record["claims"]]
    words += [note["note"] for note in record["notes"]]
    for each in record["rounds"]:
        words += each["refused"] + [anchor["id"] for anchor in each["anchors"]]
        words += [found["status"] for found in each["records"]]
        for decision in each["decisions"]:
            words += [(decision["action"] or {"action": "END"})["action"], *decision["refused"]]
    read_anything = any(each["records"] for each in record["rounds"])
    assert not read_anything or all(word in told(record) for word in words)
    for each in story.record.rounds:
        assert len(story.prefixes(each)) == len(each.records)
        assert all(decision_text(decision) for decision in each.decisions)
        assert all(fact_text(value) for found in each.records for value in found.facts.values())
    final = record["stable_prefix"] or (record["fallback"] or {}).get("prefix", [])
    assert all(story.fates[name] == "answer" for name in final)
    lanes = make_timeline(INFO, Prediction("q", None), story).lanes
    bars = sum(len(lane.bars) for lane in lanes)
    assert bars == sum(len(each["candidates"]) + len(each["anchors"]) for each in record["rounds"])


@pytest.mark.parametrize("record", searches("avp") + searches("vca"))
def test_everything_of_a_search_of_another_method_is_told(record: dict[str, Any]) -> None:
    words = []
    for each in record.get("rounds", []):
        words += [piece["description"] for piece in (each["evidence"], *each["evidence"]["key_evidence"])]
        words.append((each.get("reflection") or {}).get("justification", ""))
    for step in record.get("steps", []):
        words += [f"segment {step['explored']['segment']}", *(score["explanation"] for score in step.get("scores", []))]
    shown = told(record)
    assert view(record).kind == ("avp" if "rounds" in record else "vca")
    assert words
    assert all(word in shown for word in words)


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = {"down": value}
    return value


@pytest.mark.parametrize("levels", [10, 100, 330, 500, 900, 5000])
def test_a_deep_record_is_shown_or_said_to_be_too_deep(levels: int) -> None:
    story = view(deep(levels))
    assert story.kind == "own"
    assert "bottom" in story.own_record or story.own_record == "This record is nested too deeply to show."
    assert "method's own record" in told(deep(levels))


def test_a_huge_record_and_a_long_string_are_cut() -> None:
    assert view({"é": [1]}).own_record == '{\n "é": [\n  1\n ]\n}'
    assert 0 < len(view({"mine": ["x" * 10**6] * 100}).own_record) <= LONGEST_RECORD
    record = searches("trace")[0]
    record["notes"] = [{"start": 0, "end": 1, "note": "x" * 10**6}]
    assert len(view(record).record.notes[0].note) == LONGEST_TEXT
    assert len(told(record)) < 200_000


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": [{"number": 1, "bundles": [["a1"]], "records": []}]},
        {"rounds": [{"number": 1, "bundles": [["nobody"]], "records": [{"answer": "A", "status": "answerable"}]}]},
        {"rounds": [{"number": 1, "replay": {"prefix": ["nobody"], "answer": "A", "agrees": False}}]},
        {"rounds": [{"number": 1, "bundles": [], "records": [{"answer": None, "status": "answerable"}]}]},
        {"rounds": [{"number": 1, "decisions": [{"action": {"action": "DROP", "anchors": ["nobody"]}}]}]},
        {"rounds": [{"number": 10**300}]},
        {"stable_prefix": ["nobody"]},
        {"fallback": {"prefix": ["nobody"], "answer": None, "agrees": True}},
        {"notes": [{"start": 1e300, "end": -1e300, "note": ""}]},
        {"claims": []},
    ],
)
def test_a_search_that_contradicts_itself_is_told_as_far_as_it_goes(change: dict[str, Any]) -> None:
    record = searches("trace")[0] | change
    assert view(record).kind == "trace"
    assert make_timeline(INFO, None, view(record)).duration > 0
    assert "End" in told(record)


# --- its timeline: where bars, ticks and marks are, computed by hand ---------------------------

STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)


@pytest.mark.parametrize(
    ("duration", "step"),
    [
        (0.5, 1),
        *((10 * step, step) for step in STEPS),
        *((10 * fine + 0.5, coarse) for fine, coarse in pairwise(STEPS)),
        (72001, 7200),
        (144000, 14400),
    ],
)
def test_the_axis_has_at_most_eleven_round_marks(duration: float, step: int) -> None:
    assert axis(duration) == tuple((at, clock(at, 0)) for at in range(0, int(duration) + 1, step))


@pytest.mark.parametrize(
    ("spans", "gap", "rows"),
    [
        ([(start, start + 5) for start in reversed(range(8))], 1.0, [0, 1, 2, 3, 4, 5, 0, 1]),
        ([(0, 5), (1, 6), *((start, 20) for start in range(2, 9))], 1.0, [0, 1, 2, 3, 4, 5, 0, 1, 5]),
        ([(0, 4), (4.99, 5), (5, 6)], 1.0, [0, 1, 0]),
        # in the full last row the latest end counts
        ([*((0, 14 - n) for n in range(6)), (1, 2), (4, 5)], 0.0, [0, 1, 2, 3, 4, 5, 5, 5]),
    ],
)
def test_bars_that_touch_get_separate_rows_up_to_six(
    spans: list[tuple[float, float]], gap: float, rows: list[int]
) -> None:
    packed = pack([Bar(start, end, "", "kept", "") for start, end in spans], gap)
    assert [bar.row for bar in packed] == rows
    assert [(bar.start, bar.end) for bar in packed] == sorted(spans)


def test_heights_ticks_and_percentages() -> None:
    assert Lane("t").height == 18
    assert Lane("b", (Bar(0, 1, "", "", "", 0), Bar(0, 1, "", "", "", 2))).height == 45
    assert Lane("t", ticks=(1.0004, 0.5, 1.0, 0.0)).path == "M0 0V1M500 0V1M1000 0V1"
    states = [Evidence(0, 1, frames).state for frames in (0, 1, 2, 3)]
    assert states == ["missed", "thin", "covered", "covered"]
    line = Timeline(80.0, (), (Lane("a"), Lane("b", top=25)), ())
    assert (line.height, line.milliseconds) == (43, 80_000)
    assert (Timeline(0.0001, (), (), ()).height, Timeline(0.0001, (), (), ()).milliseconds) == (0, 1)
    assert [line.percent(at) for at in (-1, 0, 20, 80, 90)] == ["0.0000%", "0.0000%", "25.0000%", *["100.0000%"] * 2]
    widths = [line.width(*span) for span in ((20, 40), (-5, 20), (60, 100), (90, 95), (50, 40))]
    assert widths == ["25.0000%", "25.0000%", "25.0000%", "0.0000%", "0.0000%"]


def test_an_answer_with_calls_has_a_lane_for_each_stage() -> None:
    calls = [("direct-answer", (1.0, 2.0)), ("mine", ()), ("other", (2.0, 3.0)), ("direct-answer", (2.0,))]
    prediction = Prediction("q", "A", (1.0, 2.0, 3.0), observations=tuple(Call(stage, at) for stage, at in calls))
    info = QuestionInfo.of_item(Item(INFO.question, "A", (Interval(1, 2), Interval(9, 12)), 8.0))
    found = make_timeline(info, prediction, None)
    assert found.duration == 12.0
    assert found.evidence == (Evidence(1, 2, 2), Evidence(9, 12, 0))
    assert [(lane.ticks, lane.count, lane.top) for lane in found.lanes] == [((1, 2), 3, 0), ((2, 3), 2, 25)]
    assert len({lane.colour for lane in found.lanes}) == 2
    [lane] = make_timeline(INFO, Prediction("q", "A", timestamps=(4.0, 5.0)), None).lanes
    assert (lane.title, lane.ticks, lane.count) == ("frames", (4, 5), 2)
    assert make_timeline(INFO, None, None).duration == 1.0
    assert make_timeline(INFO, Prediction("q", "A", timestamps=(0.25, 0.5)), None).duration == 0.5
    assert make_timeline(QuestionInfo(INFO.question, duration=30.0), prediction, None).duration == 30.0
