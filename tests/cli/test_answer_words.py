"""An answer explains itself: why it stopped, what each clip shows, what is open; from searches of every kind."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.fakes import Still

from trace_ves.cli.answer_panel import show_result
from trace_ves.core import Clip, Frame, Question, Termination
from trace_ves.records import ObservationLog, Prediction
from trace_ves.runs.asking import AskResult
from trace_ves.web.search_view import STABLE, answer_words

DATA = Path(__file__).parents[1] / "data" / "v0_1_0"


def results(run: str) -> dict[str, AskResult]:
    """The answers of a run on record, with grey frames in their clips, by the way each search went."""
    questions = {}
    for line in (DATA / "witness" / "questions.jsonl").read_text().splitlines():
        record = json.loads(line)
        questions[record["id"]] = Question(record["id"], record["video"], record["question"], tuple(record["options"]))
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


def test_a_stable_answer_says_what_each_clip_shows() -> None:
    words = answer_words(results("trace")["plain"])
    assert words.ending == STABLE
    assert [seen.facts for seen in words.clips] == [
        ("a red balloon rises (0:21.0 - 0:26.0)",),
        ("a blue van passes (1:03.0 - 1:08.0)",),
        ("a yellow door opens (1:37.0 - 1:43.0)",),
    ]
    assert (words.still_open, words.remark) == ((), "")


def test_a_search_that_was_not_settled_says_why_and_what_is_open() -> None:
    found = results("trace")
    contradicted = answer_words(found["replay"])
    assert "A second look at the same clips gave another answer" in contradicted.ending
    assert "guess" in contradicted.ending
    ended = answer_words(unsettled({"action": "EXPAND", "intervals": [[30.0, 40.0]]}))
    assert ended.ending.startswith("Frames or rounds ran out before the evidence settled: take this as a guess.")
    assert ended.still_open == ("a blue van passes", "a yellow door opens")
    assert answer_words(unsettled(None)).ending.startswith("Nothing was left to look at")


def unsettled(action: dict[str, Any] | None) -> AskResult:
    """The plain search as if it had ended with its first clip and this decision."""
    plain = results("trace")["plain"]
    record = plain.prediction.to_json() | {"termination": "no-stable-prefix"}
    search = record["trajectory"]
    search |= {"stable_prefix": None, "fallback": {"prefix": ["a1"], "answer": "A", "agrees": True}}
    search["rounds"][-1] |= {"replay": None, "decisions": [{"action": action, "refused": []}]}
    return result_of(plain.question, record)


@pytest.mark.parametrize(
    ("run", "words"), [("uniform-16", "looked once"), ("avp", "itself said"), ("vca", "itself said")]
)
def test_other_methods_say_what_their_stop_is_worth(run: str, words: str) -> None:
    assert words in answer_words(results(run)["plain"]).ending


def test_no_answer_is_said_to_be_none() -> None:
    plain = results("trace")["plain"]
    assert "none is made up" in answer_words(replace(plain, answer=None)).ending


def counted(answer: str) -> AskResult:
    """The plain search as if it had counted."""
    plain = results("trace")["plain"]
    record = plain.prediction.to_json()
    record["trajectory"]["claims"] = [{"id": "count", "text": "how many times it is seen", "kind": "count"}]
    for step in record["trajectory"]["rounds"]:
        for number, prefix in enumerate(step["records"], 1):
            prefix["facts"] = {"count": {"count": number}}
    question = replace(plain.question, options=("2", "3", "4", "5"))
    return replace(result_of(question, record), answer=answer)


def test_a_count_beyond_its_clips_is_remarked() -> None:
    assert answer_words(counted("D")).remark.startswith("The answer counts 5, but rests on 3 clips")
    assert answer_words(counted("B")).remark == ""
    facts = [seen.facts for seen in answer_words(counted("B")).clips]
    assert ("how many times it is seen: 3",) in facts


def printed(result: AskResult, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=100, **options)
    show_result(result, console=console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_with_colours_gets_pictures_and_a_file_does_not() -> None:
    plain = results("trace")["plain"]
    coloured = printed(plain, force_terminal=True, color_system="truecolor")
    assert coloured.count("▀") >= 3 * 24
    assert "90;90;90" in coloured  # the grey of the frames
    text = printed(plain)
    assert "▀" not in text
    assert "a blue van passes (1:03.0 - 1:08.0)" in text


def test_what_models_say_is_not_markup() -> None:
    record = results("trace")["plain"].prediction.to_json()
    record["trajectory"]["claims"][0]["text"] = "when this happens: [red]a van[/red] [link=x]"
    shown = printed(result_of(results("trace")["plain"].question, record))
    assert "[red]a van[/red] [link=x]" in shown
