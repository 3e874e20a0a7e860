"""A table of questions about one video, one question about a folder of videos: kept, continued, ranked, paid for."""

import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.conftest import Call, Model, serving

from trace_ves.cli.ask_many import rank, read_answer
from trace_ves.cli.question_table import read_questions
from trace_ves.core import InputError, Interval, Question
from trace_ves.records import ClipRecord, Prediction
from trace_ves.records.transcript import read_transcript
from trace_ves.web.open_library import asked_questions

TABLE = """id,question,options,who asked
one,Which colour is seen?,red | blue,Ann
two,What is it?,,"Bob, Ben"
,Is it blue?,yes|no,
"""


class Counting(Model):
    """Answers what the words of a question say, and counts the questions it was asked."""

    asked: list[str]

    def answer(self, text: str, images: int) -> dict[str, Any]:
        question = text.partition("Question: ")[2].partition("\n")[0]
        Counting.asked.append(question)
        return {"answer": "=1+1" if "sum" in question else "A" if '"A"' in text else "red"}


@pytest.fixture
def backbone() -> Iterator[str]:
    Counting.asked = []
    yield from serving(Counting)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "questions.csv").write_text(TABLE)
    return tmp_path / "questions.csv"


@pytest.fixture
def ask(cli: Call, clip: Path, backbone: str, table: Path) -> Call:
    """Answer the table with one call for each question."""
    return partial(cli, "ask", clip, "--questions", table, "--backbone", backbone, "--method", "uniform-4")


def test_a_table_is_answered_kept_and_continued(ask: Call, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ask("--save", out, "--price", "1,1,1")
    [run] = out.glob("*.jsonl")
    assert read_transcript(run, "two") is not None
    # a row more: only that one is asked; what is finished stays, byte for byte
    before = run.read_bytes()
    table.write_text(TABLE + "four,What is the sum?,,\n")
    more = ask("--save", out, "--json")
    assert len(Counting.asked) == 4
    assert run.read_bytes().startswith(before)
    found = json.loads(more.stdout)
    assert [line["question_id"] for line in found["answers"]] == ["one", "two", "3", "four"]
    assert "'=1+1" in (out / "answers.csv").read_text()
    # the same row in other words is another question
    for old, new in (("two,What is it?,", "two,What was it?,"), ("two,What is it?,", "two,What is it?,red|blue")):
        table.write_text(TABLE.replace(old, new))
        refused = ask("--save", out, status=2).stderr
        assert "'two' is another question there, or has other options; give another folder for --save." in refused
    assert len(Counting.asked) == 4


def test_what_was_killed_in_the_middle_goes_on(ask: Call, tmp_path: Path) -> None:
    ask("--save", tmp_path / "o", "--workers", "1")
    [run] = (tmp_path / "o").glob("*.jsonl")
    lines = run.read_bytes().splitlines(keepends=True)
    run.write_bytes(lines[0] + lines[1][:40])  # as a kill leaves it
    assert [*asked_questions(tmp_path / "o")] == [json.loads(lines[0])["question_id"]]
    said = [line.partition(": ")[0] for line in ask("--save", tmp_path / "o").stderr.splitlines()]
    assert said[:3] == ["1 of 3 are already answered", "2 of 3", "3 of 3"]
    assert len(Counting.asked) == 5
    assert sorted(json.loads(line)["question_id"] for line in run.read_text().splitlines()) == ["3", "one", "two"]


def test_a_folder_is_ranked_by_where_it_was_found(cli: Call, clip: Path, backbone: str, tmp_path: Path) -> None:
    folder = tmp_path / "films"
    (folder / "more" / ".hidden").mkdir(parents=True)
    for name in ("a.mp4", "more/b.MP4", "more/.hidden/c.mp4"):
        shutil.copyfile(clip, folder / name)
    (folder / "broken.mkv").write_bytes(b"no video")
    (folder / "notes.txt").write_text("no video either")
    ask = ("ask", folder, "What is seen?", "--backbone", backbone, "--method", "uniform-4", "--save", tmp_path / "out")
    done = cli(*ask, "--json")
    found = json.loads(done.stdout)
    ranking = [(row["video"], row["found"], row["text"]) for row in found["ranking"]]
    assert ranking == [("a.mp4", "guess", "red"), ("more/b.MP4", "guess", "red")]
    assert re.search(r"left out:.*broken\.mkv", done.stderr)
    stories = sorted((tmp_path / "out" / "answers").glob("*/story.html"))
    written = [story.stat().st_mtime_ns for story in stories]
    cli(*ask)  # what is there is neither asked nor written again
    assert ([story.stat().st_mtime_ns for story in stories], len(Counting.asked)) == (written, len(stories))
    assert len(stories) == 2
    # the page opens what was kept, under the questions' own words
    from trace_ves.web.open_library import open_library

    library = open_library(tmp_path / "out", videos=folder)
    info = library.info("more/b.MP4")
    assert info.question.text == "What is seen?"
    assert library.video_of(info) == (folder / "more" / "b.MP4").resolve()


def test_errors_are_said_and_asked_again(cli: Call, clip: Path, backbone: str, table: Path, tmp_path: Path) -> None:
    ask = ("ask", clip, "--questions", table, "--save", tmp_path / "o", "--backbone")
    cli(*ask, "models_that_fail:Model", "--method", "uniform-4", status=2)
    assert not list(tmp_path.glob("o/*.jsonl"))
    small = cli(*ask, backbone, "--budget", "5", status=1)
    assert "3 answers, 3 errors" in small.stderr
    assert "a budget of 5 frames is too small" in small.stdout
    cli(*ask, backbone, "--budget", "5", status=1)
    [run] = (tmp_path / "o").glob("*.jsonl")
    assert len(run.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("q.csv", "question;options\nWhich one?;x | y\n"),
        ("q.tsv", "\ufeffquestion\tA\tB\tC\nWhich one?\tx\ty\t\n"),
        ("q.csv", 'id,question,options\n1,"Which\none?",x|y\n'),
        ("q.jsonl", '{"question": "Which one?", "options": ["x", "y"]}\n'),
        ("q.jsonl", '{"id": 1, "question": "Which one?", "options": "x|y"}\n\n'),
    ],
)
def test_tables_of_several_kinds_are_read(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    [row] = read_questions(tmp_path / name, "v.mp4")
    assert (row.question.id, row.question.video, row.question.options) == ("1", "v.mp4", ("x", "y"))
    assert row.question.text.split() == ["Which", "one?"]


def test_a_cell_may_be_too_long(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_bytes(b"question\n" + b"x" * 140_000)
    with pytest.raises(InputError, match=r"q\.csv: not a row of CSV \(field larger than field limit"):
        read_questions(tmp_path / "q.csv", "v.mp4")


def line(video: str, text: str | None, *, stable: bool = False, clips: int = 1, error: str | None = None) -> Prediction:
    bundle = tuple(ClipRecord(Interval(10 * n, 10 * n + 5), 1.0, 360, (10.0 * n,)) for n in range(clips))
    ending = "stable-prefix-found" if stable else "no-stable-prefix"
    return Prediction(video, text, (1.0,), 1, termination=ending, bundle=bundle, error=error, extra={"text": text})


SURENESS = [
    line("z", "a dog at the door", stable=True, clips=2),
    line("y", "a dog", stable=True),
    line("x", "perhaps a dog"),
    line("w", "No, there is no dog.", stable=True),
    line("v", "0"),
    line("u", None),
    line("t", None, error="the service is down"),
]


@given(st.permutations(SURENESS))
@settings(max_examples=30)
def test_the_surest_comes_first_in_whatever_order_they_were_asked(lines: list[Prediction]) -> None:
    rows = rank(read_answer(line, Question("q", "v", "A dog?"), of_folder=True) for line in lines)
    assert [row.title for row in rows] == ["z", "y", "x", "u", "v", "w", "t"]
    assert [row.view.found for row in rows] == [*["found"] * 2, "guess", *["not found"] * 3, "error"]
