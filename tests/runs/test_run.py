"""A run: every question once, in files that can be continued, retried, and are refused to another configuration."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from trace_ves.benches import load_bench, write_bench
from trace_ves.core import InputError
from trace_ves.records.disk_cache import checksum
from trace_ves.records.run_file import read_configuration
from trace_ves.records.transcript import read_transcript, transcripts_path
from trace_ves.runs.job import Job, RunOptions
from trace_ves.runs.run import answer_locally, run
from trace_ves.ves import audit, load_runs

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.benches import Bench

LOCAL = partial(answer_locally, workers=3)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_question_is_asked_once_by_every_method(bench: Bench, workplace: Path) -> None:
    jobs = [Job(method, "models:Steady") for method in ("uniform-8", "blind", "random", "avp", "vca")]
    paths = run(bench, jobs, workplace / "out", LOCAL)
    assert [path.name for path in paths.values()] == [f"{job.method}@models-Steady.jsonl" for job in jobs]
    for path in paths.values():
        assert sorted(line["question_id"] for line in lines(path)) == [f"q{number:02d}" for number in range(12)]
    report = audit(bench.items, load_runs(list(paths.values())))
    assert report.run("uniform-8").metrics["Fr"] == 8
    assert report.run("blind").metrics["Fr"] == 0
    assert all("from the same frames" in warning for warning in report.warnings)  # the fake model decides nothing


def test_a_line_tells_what_was_looked_at_and_which_file(bench: Bench, bench_folder: Path, workplace: Path) -> None:
    started = time.monotonic()
    [path] = run(bench, [Job("uniform-8", "models:Steady")], workplace / "out", LOCAL, limit=1).values()
    [line] = lines(path)
    assert line["timestamps"] == line["observations"][0]["timestamps"] == line["bundle"][0]["timestamps"]
    assert line["frames_supplied"] == 8
    assert line["usage"] == {"input_tokens": 800, "cached_tokens": 80, "output_tokens": 5}
    assert line["video"] == checksum(bench_folder / "videos/a.mp4").to_json()
    assert line["backbone"] == "models:Steady"
    assert 0 < line["seconds"] <= time.monotonic() - started + 0.001
    made = read_configuration(path)
    assert made is not None
    assert (made.method, made.backbone, made.bench) == ("uniform-8", "models:Steady", str(bench.path))


def test_what_was_said_in_each_call_stands_beside_the_run(bench: Bench, workplace: Path) -> None:
    job = Job("avp", "models:Steady")
    [path] = run(bench, [job], workplace / "out", LOCAL, limit=2).values()
    for line in lines(path):
        said = read_transcript(path, line["question_id"])
        assert said is not None
        assert [call.stage for call in said.calls] == [call["stage"] for call in line["observations"]]
        for call, observed in zip(said.calls, line["observations"], strict=True):
            assert [t for clip in call.clips for t in clip.timestamps] == observed["timestamps"]
            assert "Which? #" in said.prompt_of(call)
            assert [reply.problem for reply in call.replies] == [observed.get("fault")]
    before = transcripts_path(path).read_bytes()
    run(bench, [job], workplace / "out", LOCAL, limit=3)
    assert transcripts_path(path).read_bytes().startswith(before)
    assert read_transcript(path, "q02") is not None
    assert [run.name for run in load_runs([workplace / "out"])] == ["avp"]  # the sidecar is no run


def test_subtitles_are_off_unless_asked_for_and_a_run_with_them_says_so(bench_folder: Path, workplace: Path) -> None:
    shutil.copytree(bench_folder, workplace / "bench")
    (workplace / "bench" / "videos" / "a.srt").write_text("1\n00:00:05,000 --> 00:00:09,000\nHere it is.\n")
    bench = load_bench(workplace / "bench")
    job, spoken = Job("trace", "models:Steady"), RunOptions(subtitles=True)
    [plain] = run(bench, [job], workplace / "plain", LOCAL, limit=2).values()
    assert not any("subtitles" in line for line in lines(plain))
    [path] = run(bench, [job], workplace / "spoken", LOCAL, limit=2, options=spoken).values()
    first, second = sorted(lines(path), key=lambda line: str(line["question_id"]))
    assert first["subtitles"] == {"source": "a.srt", "cues": 1}
    assert {call["stage"] for call in first["observations"] if call.get("subtitles")} == {"temporal-proposal"}
    assert "subtitles" not in second  # the video b has none
    with pytest.raises(InputError, match="made with subtitles = True, and now it would be nothing"):
        run(bench, [job], workplace / "spoken", LOCAL)
    with pytest.raises(InputError, match="the method does not read subtitles"):
        run(bench, [Job("uniform-8", "models:Steady")], workplace / "other", LOCAL, options=spoken)


def test_a_second_run_asks_only_what_is_not_finished(bench: Bench, workplace: Path) -> None:
    job = Job("uniform-8", "models:Steady")
    asked: list[str] = []

    def counting(tasks: Any, options: RunOptions) -> Any:
        asked.extend(task.question.id for task in tasks)
        return LOCAL(tasks, options)

    for limit in (3, 3, 12, 5):
        run(bench, [job], workplace / "out", counting, limit=limit)
    assert Counter(asked) == Counter(f"q{number:02d}" for number in range(12))


def test_all_methods_answer_a_question_before_the_next_one_begins(bench: Bench, workplace: Path) -> None:
    asked: list[tuple[str, str]] = []

    def listing(tasks: Any, options: RunOptions) -> Any:
        asked.extend((task.question.id, task.job.method) for task in tasks)
        return LOCAL(tasks, options)

    run(bench, [Job(m, "models:Steady") for m in ("uniform-8", "blind")], workplace / "out", listing, limit=2)
    assert asked == [("q00", "uniform-8"), ("q00", "blind"), ("q01", "uniform-8"), ("q01", "blind")]


def test_failing_questions_are_recorded_and_the_rest_goes_on(bench: Bench, workplace: Path) -> None:
    job = Job("uniform-8", "models:Failing")
    [path] = run(bench, [job], workplace / "out", LOCAL).values()
    errors = {line["question_id"]: line["error"] for line in lines(path) if "error" in line}
    assert len(lines(path)) == 12
    assert errors["q03"] == "the service is down"
    assert re.fullmatch(r"RuntimeError: a bug \(models\.py:\d+\)", errors["q04"])
    assert len(errors) == 8
    assert all(line["answer"] is None and "termination" not in line for line in lines(path) if "error" in line)

    run(bench, [job], workplace / "out", LOCAL)
    assert sum("error" in line for line in lines(path)) == 8  # finished is finished, until asked to retry

    (workplace / "mended").touch()
    run(bench, [job], workplace / "out", LOCAL, retry_errors=True)
    assert sorted(line["question_id"] for line in lines(path)) == [f"q{number:02d}" for number in range(12)]
    assert not any("error" in line for line in lines(path))
    assert len(lines(path.with_suffix(".failed"))) == 8  # what was once written is not lost


def test_a_missing_video_fails_its_questions_alone_and_hinders_no_blind_method(bench: Bench, workplace: Path) -> None:
    moved = workplace / "bench"
    (moved / "videos").mkdir(parents=True)
    assert bench.path is not None
    shutil.copy(bench.path, moved)
    shutil.copy(bench.path.parent / "videos/a.mp4", moved / "videos")
    jobs = [Job("uniform-4", "models:Steady"), Job("blind", "models:Steady")]
    uniform, blind = run(load_bench(moved), jobs, workplace / "out", LOCAL).values()
    assert sum("error" in line for line in lines(uniform)) == 8
    assert all("b.mp4" in line["error"] or "c.mp4" in line["error"] for line in lines(uniform) if "error" in line)
    assert not any("error" in line for line in lines(blind))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"budget": 99}, "budget"),
        ({"options": RunOptions({"temperature": 0.5})}, "temperature"),
        ({"options": RunOptions({"thinking": "low"})}, "thinking"),
        ({"options": RunOptions({"detail": "high"})}, "detail"),
        ({"question": "Which one? #0"}, "bench_sha256"),
        ({"version": "0.0.1"}, "trace_ves"),
    ],
)
def test_another_configuration_is_refused_with_its_name(
    bench_folder: Path, workplace: Path, change: dict[str, Any], named: str
) -> None:
    copy = workplace / "questions.jsonl"
    text = (bench_folder / "questions.jsonl").read_text()
    copy.write_text(text)
    run(load_bench(copy), [Job("blind", "models:Steady")], workplace / "out", LOCAL, limit=2)
    before = (workplace / "out/blind@models-Steady.jsonl").read_bytes()
    if "question" in change:
        copy.write_text(text.replace("Which? #0", change["question"]))
    if "version" in change:
        sidecar = workplace / "out/blind@models-Steady.run.toml"
        sidecar.write_text(sidecar.read_text().replace('trace_ves = "', 'trace_ves = "9.'))
    job = Job("blind", "models:Steady", change.get("budget"))
    with pytest.raises(InputError, match=f"made with {named} = .*give another --out"):
        run(load_bench(copy), [job], workplace / "out", LOCAL, options=change.get("options"))
    assert (workplace / "out/blind@models-Steady.jsonl").read_bytes() == before


def test_edited_code_is_another_configuration(bench: Bench, workplace: Path) -> None:
    (workplace / "mine.py").write_text("from models import first_letter\n")
    run(bench, [Job("mine:first_letter", "models:Steady")], workplace / "out", LOCAL, limit=2)
    (workplace / "mine.py").write_text("from models import first_letter  # edited\n")
    with pytest.raises(InputError, match="method_sha256"):
        run(bench, [Job("mine:first_letter", "models:Steady")], workplace / "out", LOCAL)
    run(bench, [Job("blind", "models:Steady")], workplace / "out", LOCAL, limit=2)
    (workplace / "models.py").write_text((workplace / "models.py").read_text() + "\n# edited\n")
    with pytest.raises(InputError, match="backbone_sha256"):
        run(bench, [Job("blind", "models:Steady")], workplace / "out", LOCAL)


def with_durations(bench: Bench, folder: Path, seconds: float) -> Bench:
    """The same bench with other durations, its videos beside it."""
    assert bench.path is not None
    write_bench([replace(item, duration=seconds, evidence=()) for item in bench.items], folder)
    (folder / "videos").symlink_to(bench.path.parent / "videos")
    return load_bench(folder)


def test_a_wrong_duration_is_an_error_before_anything_is_asked(bench: Bench, workplace: Path) -> None:
    wrong = with_durations(bench, workplace / "wrong", 64.1)
    words = r"'q00' gives videos/a.mp4 64.1 s, and the video has 60.0 s. .* 2 more videos differ"
    with pytest.raises(InputError, match=words):
        run(wrong, [Job("blind", "models:Steady")], workplace / "out", LOCAL)
    assert not list((workplace / "out").iterdir())
    rounded = with_durations(bench, workplace / "rounded", 62.9)
    [path] = run(rounded, [Job("uniform-8", "models:Steady")], workplace / "out", LOCAL, limit=3).values()
    assert not any("error" in line for line in lines(path))


def test_two_jobs_for_one_file_are_refused(bench: Bench, workplace: Path) -> None:
    with pytest.raises(InputError, match="name each method once"):
        run(bench, [Job("blind", "models:Steady"), Job("blind", "models-Steady")], workplace / "out", LOCAL)


def test_a_budget_holds_for_every_method(bench: Bench, workplace: Path) -> None:
    jobs = [Job(method, "models:Steady", 20) for method in ("uniform-8", "uniform-64", "avp", "vca")]
    paths = run(bench, jobs, workplace / "out", LOCAL, limit=2)
    assert all(line["frames_supplied"] <= 20 for path in paths.values() for line in lines(path))
    assert all("raise the budget" in line["error"] for line in lines(paths[jobs[1]]))
    assert not any("error" in line for job in (jobs[0], *jobs[2:]) for line in lines(paths[job]))
