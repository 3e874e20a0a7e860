"""What runs cost, and what was said in their calls, as the page has it."""

import re
from dataclasses import replace
from datetime import date
from html import unescape
from pathlib import Path

import pytest

from tests.web.conftest import serving
from tests.web.test_server import get, page
from trace_ves.core.jsonl import dump_line
from trace_ves.records import Call, Prediction, Usage
from trace_ves.records.transcript import CallTranscript, ModelText, Transcript, transcripts_path
from trace_ves.runs.cost import cost_lines
from trace_ves.runs.prices import Price, Prices
from trace_ves.web.costs import GROUPINGS, Costs
from trace_ves.web.open_library import open_library
from trace_ves.web.views import costs_page

HOSTILE = '<script>alert(1)</script> & "quoted" </pre>'
PRICED = "openai:priced"
PRICES = Prices({PRICED: Price(input=1.0, cached=0.5, output=10.0, date=date(2026, 5, 1))})


def lines(seconds: float = 2.0) -> list[Prediction]:
    look = Call("temporal-proposal", (1.0, 2.0), usage=Usage(1000, 400, 50), seconds=seconds)
    read = Call("evidence-assembly", (1.0,), usage=Usage(500, 0, 20), seconds=1.5, fault="no JSON")
    return [
        Prediction("q1", "A", (1.0, 2.0), 2, method="trace", backbone=PRICED, observations=(look,)),
        Prediction("q2", "B", (1.0, 2.0), 3, method="trace", backbone=PRICED, observations=(look, read)),
    ]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    run = tmp_path / "trace@priced.jsonl"
    run.write_bytes(b"".join(dump_line(line.to_json()) for line in lines()))
    told = Transcript(
        "q2",
        (f"Look at this. {HOSTILE}", "Read the clips."),
        (
            CallTranscript("temporal-proposal", 0, replies=(ModelText('{"candidates": []}'),)),
            CallTranscript("evidence-assembly", 1, replies=(ModelText(f"I think {HOSTILE}", "it is no JSON"),)),
        ),
    )
    transcripts_path(run).write_bytes(dump_line(told.to_json()))
    return tmp_path


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_costs_are_those_of_the_typed_lines(runs: Path, grouping: str) -> None:
    retried = replace(lines()[0], question_id="q3", answer=None, error="down")  # it was paid for and asked again
    (runs / "trace@priced.failed").write_bytes(dump_line(retried.to_json()))
    library = open_library(runs)
    table = Costs(library, PRICES).table(grouping)
    wanted = cost_lines([("trace@priced", [*lines(), retried])], PRICES, by=GROUPINGS[grouping])
    assert sorted(map(repr, table.lines)) == sorted(map(repr, wanted))
    assert "List prices of 2026-05-01." in costs_page(library, table, grouping, "")
    assert table.whole.dollars == pytest.approx(sum(line.dollars or 0 for line in wanted))
    assert [line.dollars for line in table.lines] == sorted((line.dollars for line in wanted), reverse=True)


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_a_page_shows_the_most_expensive_lines_of_several_runs(
    runs: Path, grouping: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = (replace(line, backbone="own:free") for line in lines(seconds=3.0))
    (runs / "other.jsonl").write_bytes(b"".join(dump_line(line.to_json()) for line in others))
    library = open_library(runs)
    at_once = Costs(library, PRICES).table(grouping)
    spent = [(line.dollars or 0, line.spent) for line in at_once.lines]  # then tokens count, then seconds
    expense = [(paid, each.usage.input_tokens + each.usage.output_tokens, each.seconds) for paid, each in spent]
    assert expense == sorted(expense, reverse=True)
    assert at_once.whole.questions == 4
    monkeypatch.setattr("trace_ves.web.costs.MOST_LINES", 1)
    first = Costs(library, PRICES).table(grouping)
    assert (first.lines, first.total, first.whole) == (at_once.lines[:1], at_once.total, at_once.whole)


def test_a_run_that_grows_costs_more(runs: Path) -> None:
    library = open_library(runs)
    costs = Costs(library)
    before = costs.table("run").whole
    with (runs / "trace@priced.jsonl").open("ab") as file:
        file.write(dump_line(Prediction("q3", "A", (1.0,), 1, observations=(Call("look", (1.0,)),)).to_json()))
    library.runs["trace@priced"].refresh()
    after = costs.table("run").whole
    assert (before and before.questions, after and after.questions) == (2, 3)


def test_prompts_and_replies_stand_with_their_calls(runs: Path) -> None:
    with serving(open_library(runs)) as address:
        shown = get(address, page("question", run="trace@priced", id="q2")).text
        assert "<script>alert" not in shown
        said = re.findall(r"<details class=\"said\"( open)?><summary>(.*?) <span.*?<pre>(.*?)</pre>", shown, re.DOTALL)
        assert [(opened, title, unescape(text)) for opened, title, text in said] == [
            ("", "Prompt", f"Look at this. {HOSTILE}"),
            ("", "Reply", '{"candidates": []}'),
            ("", "Prompt", "Read the clips."),
            (" open", "What the model said", f"I think {HOSTILE}"),
        ]
        assert "This reply could not be used: it is no JSON" in shown
        assert 'class="said"' not in get(address, page("question", run="trace@priced", id="q1")).text
        # transcripts are searched too
        for words, found in (("READ clips", ["q2"]), ("read nowhere", []), ("q1", ["q1"])):
            listed = get(address, page("run", name="trace@priced", text=words)).text
            assert re.findall(r"data-row[^>]*>(q\d)<", listed) == found


def test_a_damaged_transcript_is_said_and_one_from_elsewhere_is_not_read(runs: Path, tmp_path: Path) -> None:
    sidecar = runs / "trace@priced.transcripts"
    sidecar.write_bytes(b'{"question_id": "q2", "prompts": 7}\n')
    with serving(open_library(runs)) as address:
        damaged = get(address, page("question", run="trace@priced", id="q2"))
        assert damaged.status == 200
        assert "the transcript of" in damaged.text
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.write_bytes(dump_line(Transcript("q2", ("secret",), (CallTranscript("temporal-proposal", 0),)).to_json()))
    sidecar.unlink()
    sidecar.symlink_to(elsewhere)
    with serving(open_library(runs)) as address:
        assert "secret" not in get(address, page("question", run="trace@priced", id="q2")).text
        assert 'data-total="0"' in get(address, page("run", name="trace@priced", text="secret")).text
