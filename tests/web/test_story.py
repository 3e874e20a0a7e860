"""Stories are told from typed records: nothing of a search is left out, and no hostile record breaks a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trace_ves.core import Question
from trace_ves.records import Prediction
from trace_ves.records.search import AvpRecord, VcaRecord
from trace_ves.web.library import QuestionInfo
from trace_ves.web.search_view import (
    LONGEST_RECORD,
    LONGEST_TEXT,
    OwnRecord,
    TraceStory,
    decision_text,
    fact_text,
    story_of,
)
from trace_ves.web.timeline import timeline
from trace_ves.web.views import environment

OLD = Path(__file__).parents[1] / "data" / "v0_1_0"


def searches(pattern: str) -> list[dict[str, Any]]:
    files = sorted(OLD.glob(f"*-runs/{pattern}@*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [line["trajectory"] for line in lines if line.get("trajectory")]


def told(trajectory: dict[str, Any]) -> str:
    """The story as a page has it, without its tags."""
    prediction = Prediction("q", "A", trajectory=trajectory)
    each = {"story": story_of(trajectory), "name": "m", "prediction": prediction}
    macros = environment().get_template("_story.html").make_module({})
    html: str = macros.tell(each, None)  # type: ignore[attr-defined]  # a macro of the template
    return str(html)


@pytest.mark.parametrize("record", searches("trace*"))
def test_everything_of_a_trace_search_of_version_0_1_0_is_told(record: dict[str, Any]) -> None:
    story = story_of(record)
    assert isinstance(story, TraceStory)
    page = environment().from_string("{{ text }}")
    shown = told(record)
    words = [claim["text"].replace("when this happens: ", "") for claim in record["claims"]]
    words += [note["note"] for note in record["notes"]]
    for each in record["rounds"]:
        words += each["refused"] + [anchor["id"] for anchor in each["anchors"]]
        words += [found["status"] for found in each["records"]]
        for decision in each["decisions"]:
            words += [(decision["action"] or {"action": "END"})["action"], *decision["refused"]]
    read_anything = any(each["records"] for each in record["rounds"])
    assert not read_anything or all(page.render(text=word) in shown for word in words)
    for each in story.record.rounds:
        assert len(story.prefixes(each)) == len(each.records)
        assert all(decision_text(decision) for decision in each.decisions)
        assert all(fact_text(value) for found in each.records for value in found.facts.values())
    final = record["stable_prefix"] or (record["fallback"] or {}).get("prefix", [])
    assert all(story.fates[name] == "answer" for name in final)
    lanes = timeline(QuestionInfo(Question("q", "", "")), Prediction("q", None), story).lanes
    bars = sum(len(lane.bars) for lane in lanes)
    assert bars == sum(len(each["candidates"]) + len(each["anchors"]) for each in record["rounds"])


@pytest.mark.parametrize("record", searches("avp"))
def test_everything_of_an_avp_search_of_version_0_1_0_is_told(record: dict[str, Any]) -> None:
    assert isinstance(story_of(record), AvpRecord)
    page, shown = environment().from_string("{{ text }}"), told(record)
    for each in record["rounds"]:
        assert page.render(text=each["evidence"]["description"]) in shown
        assert all(page.render(text=piece["description"]) in shown for piece in each["evidence"]["key_evidence"])
        assert page.render(text=(each.get("reflection") or {}).get("justification", "")) in shown


@pytest.mark.parametrize("record", searches("vca"))
def test_everything_of_a_vca_search_of_version_0_1_0_is_told(record: dict[str, Any]) -> None:
    assert isinstance(story_of(record), VcaRecord)
    page, shown = environment().from_string("{{ text }}"), told(record)
    for step in record["steps"]:
        assert f"segment {step['explored']['segment']}" in shown
        assert all(page.render(text=score["explanation"]) in shown for score in step.get("scores", []))


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = {"down": value}
    return value


@pytest.mark.parametrize("levels", [10, 100, 330, 500, 900, 5000])
def test_a_deep_record_is_shown_or_said_to_be_too_deep(levels: int) -> None:
    story = story_of(deep(levels))
    assert isinstance(story, OwnRecord)
    assert "bottom" in story.text or story.text == "It is nested too deeply to be shown."
    assert "method&#39;s own record" in told(deep(levels)) or "method's own record" in told(deep(levels))


def test_a_huge_record_is_cut() -> None:
    story = story_of({"mine": ["x" * 10**6] * 100})
    assert isinstance(story, OwnRecord)
    assert len(story.text) <= LONGEST_RECORD


def test_a_long_string_of_a_search_is_cut_where_it_is_shown() -> None:
    record = searches("trace")[0]
    record["notes"] = [{"start": 0, "end": 1, "note": "x" * 10**6}]
    story = story_of(record)
    assert isinstance(story, TraceStory)
    assert len(story.record.notes[0].note) == LONGEST_TEXT
    assert len(told(record)) < 200_000


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": [{"number": 1, "bundles": [["a1"]], "records": []}]},
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
    assert isinstance(story_of(record), TraceStory)
    assert "End" in told(record)
