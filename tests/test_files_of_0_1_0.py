"""Runs, caches, builds, saved answers and releases of version 0.1.0 open unchanged; see data/v0_1_0/README.md."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests import program
from trace_ves.web.app import page_app
from trace_ves.web.library import Library
from trace_ves.web.open_library import library_of_answer, open_library, read_saved_answer

DATA = Path(__file__).parent / "data" / "v0_1_0"
RED = "openai:red@http://127.0.0.1:9/v1"
RED_TRACE = "trace@openai-red-http-127.0.0.1-9-v1"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The files, for one test to write to."""
    return shutil.copytree(DATA, tmp_path / "old")


def trace_ves(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed."""
    done = program.run(*arguments, **environment)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


def words_of(library: Library, path: str, **query: str) -> str:
    """The text of a page, without its markup."""
    response = TestClient(page_app(library)).get(path, params=query)
    assert response.status_code == 200
    page = re.sub(r"<(script|style).*?</\1>", " ", response.text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def lines_of(path: Path) -> dict[str, dict[str, Any]]:
    return {line["question_id"]: line for line in map(json.loads, path.read_text().splitlines())}


@pytest.mark.parametrize("bench", ["colours", "twin", "witness"])
def test_an_audit_gives_the_numbers_of_then(bench: str) -> None:
    runs = sorted((DATA / f"{bench}-runs").glob("*.jsonl"))
    then = json.loads((DATA / f"{bench}-audit.json").read_text())
    now = json.loads(trace_ves("audit", DATA / bench, *runs, "--json", "-").stdout)
    assert now["bench"].items() >= then["bench"].items()
    for run_now, run_then in zip(now["runs"], then["runs"], strict=True):
        for key in ("name", "questions", "metrics", "ci95", "families"):
            assert run_now[key] == run_then[key], (run_then["name"], key)
    assert now["comparisons"] == then["comparisons"]


@pytest.mark.parametrize(("bench", "actions"), [("twin", {"STOP"}), ("witness", {"STOP", "DROP", "REFINE", "EXPAND"})])
def test_every_question_of_every_run_has_its_story(bench: str, actions: set[str]) -> None:
    seen: set[str] = set()
    library = open_library(DATA / f"{bench}-runs", bench=DATA / bench)
    for run in sorted((DATA / f"{bench}-runs").glob("*.jsonl")):
        assert run.stem.partition("@")[0] in words_of(library, "/run", name=run.stem)
        for question, line in lines_of(run).items():
            page = words_of(library, "/question", run=run.stem, id=question)
            assert f"{line['frames_supplied']} supplied" in page or line["frames_supplied"] == 0, question
            assert "error" not in line or "not a video that can be read" in page, question
            if line["method"] == "trace":
                seen |= told_rounds(page, line["trajectory"])
    assert seen >= actions


def told_rounds(page: str, trajectory: dict[str, Any]) -> set[str]:
    """The actions of a search; every round, anchor and action of the record is on its page."""
    actions: set[str] = set()
    for number, step in enumerate(trajectory["rounds"], 1):
        assert f"Round {number} " in page
        taken = {name for name in ("STOP", "DROP", "REFINE", "EXPAND") if f'"{name}"' in json.dumps(step)}
        assert all(name in page for name in taken)
        assert all(f" {anchor['id']} " in page for anchor in step["anchors"])
        actions |= taken
    assert actions
    return actions


def test_a_story_is_exported_with_its_frames(tmp_path: Path) -> None:
    out = tmp_path / "story.html"
    trace_ves(
        *("view", DATA / "colours-runs", "--bench", DATA / "colours", "--export", out),
        *("--question", "q0", "--run", RED_TRACE),
    )
    assert out.read_text().count("data:image/jpeg") >= 3


def test_a_saved_answer_opens_under_its_question(tmp_path: Path) -> None:
    record = json.loads((DATA / "answer" / "record.json").read_text())
    library = library_of_answer(*read_saved_answer(DATA / "answer"), tmp_path, videos=DATA / "answer")
    page = words_of(library, "/question", run="answer", id=record["question"])
    assert record["question"] in page
    assert f"{record['frames_supplied']} supplied" in page


def test_a_counterfactual_log_is_continued_without_asking_again(old: Path) -> None:
    for bench, name, options in (("colours", RED_TRACE, ["--backbone", RED]), ("twin", "trace@glance", [])):
        log, run = (old / f"{bench}-runs" / folder / f"{name}.jsonl" for folder in ("counterfactual", "."))
        before = log.read_bytes()
        summary = json.loads(trace_ves("counterfactual", old / bench, run, *options, "--json").stdout)
        assert log.read_bytes() == before  # nobody listens at the model's address: nothing was asked
        assert bench == "twin" or summary["evidence"]["questions"] == 1


WORDS_OF_THEN = (
    "Answer the question about the video. What you see of it stands above: every frame has its time in the video, in "
    "seconds. Where no frame stands above, you have the words alone.\n\nQuestion: $question\nOptions, by letter (none "
    "for an open question): $options\n\nAnswer with one letter of the options, or with a few words where there are "
    "none. Answer null only if what you see does not let you prefer any option.\n"
)
"""The prompt of direct answering in version 0.1.0. Prompts have changed since; the same words find their reply."""


def test_a_reply_paid_for_then_is_not_paid_for_again(old: Path) -> None:
    from trace_ves import video
    from trace_ves.backbone.protocol import Prompt, Request
    from trace_ves.backbone.registry import open_backbone
    from trace_ves.backbone.replies import AnswerReply, answer_reply, question_variables
    from trace_ves.backbone.response_cache import CachedBackbone
    from trace_ves.benches import load_bench
    from trace_ves.observer import Observer

    then = lines_of(DATA / "colours-runs" / f"{RED_TRACE.replace('trace', 'uniform-16', 1)}.jsonl")
    cached = CachedBackbone(open_backbone(RED), old / "replies.sqlite")  # nobody listens at this address
    for item in load_bench(old / "colours").items:
        observer = Observer(video.open(old / "colours" / item.question.video), cached)
        clip = observer.survey(observer.whole, 16, height=360)
        words, question = Prompt("direct-answer", WORDS_OF_THEN), item.question
        request = Request(words, question_variables(question), answer_reply(question), (clip,))
        [reply] = observer.ask([request])
        assert isinstance(reply, AnswerReply)
        assert reply.answer == then[question.id]["answer"]


def test_a_run_goes_on_or_says_in_one_sentence_why_not(old: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    shutil.copy(old / "replies.sqlite", cache)
    path = old / "colours-runs" / f"{RED_TRACE.replace('trace', 'trace-without-replay', 1)}.jsonl"
    before = path.read_bytes()
    done = program.run(
        *("run", old / "colours", "--backbone", RED, "--cache", "--workers", "1"),
        *("--method", "trace-without-replay", "--out", old / "colours-runs"),
        TRACE_VES_CACHE_DIR=str(cache),
    )
    after = path.read_bytes()
    assert after.startswith(before)
    went_on = done.returncode == 0 and lines_of(path).keys() == {"q0", "q1"}
    refused = done.returncode == 2 and after == before and "Traceback" not in done.stderr
    assert went_on or (refused and "this run was made with" in done.stderr.splitlines()[-1]), done.stderr


def test_the_frames_of_a_line_are_written_from_its_video(tmp_path: Path) -> None:
    run = DATA / "colours-runs" / f"{RED_TRACE}.jsonl"
    trace_ves("frames", run, "q0", tmp_path / "frames", "--bench", DATA / "colours")
    distinct = set(lines_of(run)["q0"]["timestamps"])
    assert len(list((tmp_path / "frames").glob("*.jpg"))) >= len(distinct)


def test_a_release_is_whole(tmp_path: Path) -> None:
    assert "7 of 7 files" in trace_ves("release", "--check", DATA / "colours-release").stdout
    assert "2 videos named but not included." in trace_ves("release", DATA / "twin", tmp_path / "without-runs").stdout
    trace_ves("release", DATA / "twin", DATA / "twin-runs" / "trace@glance.jsonl", tmp_path / "again")
    copied = (tmp_path / "again" / "runs" / "trace@glance.jsonl").read_bytes()
    assert copied == (DATA / "twin-runs" / "trace@glance.jsonl").read_bytes()


def test_a_build_stands_where_it_stood(old: Path, tmp_path: Path) -> None:
    (old / "built" / "videos").mkdir()
    shutil.copy(old / "colours" / "videos" / "colours.mp4", old / "built" / "videos" / "a.mp4")
    status = json.loads(trace_ves("build", "status", old / "built", "--json").stdout)
    assert (status["proposed"], status["accepted"], status["inter_annotator_iou"]) == (3, 1, 1.0)
    assert (status["waiting"]["visual-verification"], status["waiting"]["adjudication"]) == (1, 1)
    assert "ann" in trace_ves("build", "invite", old / "built", "ann").stdout  # a new token ends the old one
    trace_ves("build", "export", old / "built", tmp_path / "bench")
    [line] = (tmp_path / "bench" / "questions.jsonl").read_text().splitlines()
    assert json.loads(line)["evidence"] == [[10, 14], [40, 46], [80, 85]]
