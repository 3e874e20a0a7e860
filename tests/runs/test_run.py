"""A run: every question once, in files that can be continued, retried, and are refused to another configuration."""

import json
import re
import shutil
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from trace_ves.benches import Bench, load_bench
from trace_ves.core import InputError
from trace_ves.records.disk_cache import checksum
from trace_ves.records.run_file import read_configuration
from trace_ves.records.transcript import read_transcript, transcripts_path
from trace_ves.runs.answering import Job, RunOptions
from trace_ves.runs.run import answer_locally, run
from trace_ves.ves import audit, load_runs

LOCAL = partial(answer_locally, workers=3)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_question_is_asked_once_by_every_method(bench: Bench, workplace: Path) -> None:
    jobs = [Job(method, "models:Steady") for method in ("uniform-8", "blind", "random", "avp", "vca")]
    paths = run(bench, jobs, workplace / "out", LOCAL)
    assert [path.name for path in paths.values()] == [f"{job.method}@models-Steady.jsonl" for job in jobs]
    for path in paths.values():
        assert sorted(line["question_id"] for line in lines(path)) == [f"q{number:02d}" for number in range(12)]
    assert all(path.stat().st_mode & 0o111 == 0 for path in (workplace / "out").iterdir())  # no file is a program
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
    assert (made.method, made.backbone, made.bench) == ("uniform-8", "models:Steady", str(bench.path))


def test_what_was_said_in_each_call_stands_beside_the_run(bench: Bench, workplace: Path) -> None:
    job = Job("avp", "models:Steady")
    [path] = run(bench, [job], workplace / "out", LOCAL, limit=2).values()
    for line in lines(path):
        said = read_transcript(path, line["question_id"])
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


def test_a_second_run_asks_only_what_is_not_finished_question_by_question(bench: Bench, workplace: Path) -> None:
    jobs = [Job(method, "models:Steady") for method in ("uniform-8", "blind")]
    asked: list[tuple[str, str]] = []

    def listing(tasks: Any, options: RunOptions) -> Any:
        asked.extend((task.question.id, task.job.method) for task in tasks)
        return LOCAL(tasks, options)

    for limit in (3, 3, 12, 5):
        run(bench, jobs, workplace / "out", listing, limit=limit)
    assert asked == [(f"q{number:02d}", job.method) for number in range(12) for job in jobs]


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
    shutil.copy(bench.path, moved)
    shutil.copy(bench.path.parent / "videos/a.mp4", moved / "videos")
    jobs = [Job("uniform-4", "models:Steady"), Job("blind", "models:Steady")]
    uniform, blind = run(load_bench(moved), jobs, workplace / "out", LOCAL).values()
    assert sum("error" in line for line in lines(uniform)) == 8
    assert all("b.mp4" in line["error"] or "c.mp4" in line["error"] for line in lines(uniform) if "error" in line)
    assert not any("error" in line for line in lines(blind))


def test_another_configuration_is_refused_with_its_name(bench_folder: Path, workplace: Path) -> None:
    copy, out = workplace / "questions.jsonl", workplace / "out"
    text = (bench_folder / "questions.jsonl").read_text()
    copy.write_text(text)
    run(load_bench(copy), [Job("blind", "models:Steady")], out, LOCAL, limit=2)
    made = {path: path.read_bytes() for path in out.iterdir()}

    def refuse(named: str, budget: int | None = None, **options: Any) -> None:
        with pytest.raises(InputError, match=f"made with {named} = .*give another --out"):
            run(load_bench(copy), [Job("blind", "models:Steady", budget)], out, LOCAL, options=RunOptions(options))

    refuse("budget", budget=99)
    refuse("temperature", temperature=0.5)
    refuse("thinking", thinking="low")
    refuse("detail", detail="high")
    copy.write_text(text.replace("Which? #0", "Which one? #0"))
    refuse("bench_sha256")
    assert {path: path.read_bytes() for path in out.iterdir()} == made
    copy.write_text(text)
    sidecar = out / "blind@models-Steady.run.toml"
    sidecar.write_text(sidecar.read_text().replace('trace_ves = "', 'trace_ves = "9.'))
    refuse("trace_ves")


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


def test_a_wrong_duration_is_an_error_before_anything_is_asked(bench: Bench, workplace: Path) -> None:
    wrong = replace(bench, items=tuple(replace(item, duration=64.1) for item in bench.items))
    with pytest.raises(InputError, match=r"'q00' gives videos/a.mp4 64.1 s, but the video has 60.0 s."):
        run(wrong, [Job("blind", "models:Steady")], workplace / "out", LOCAL)
    assert not list((workplace / "out").iterdir())


def test_two_jobs_for_one_file_are_refused(bench: Bench, workplace: Path) -> None:
    with pytest.raises(InputError, match="name each method once"):
        run(bench, [Job("blind", "models:Steady"), Job("blind", "models-Steady")], workplace / "out", LOCAL)


def test_a_budget_holds_for_every_method(bench: Bench, workplace: Path) -> None:
    jobs = [Job(method, "models:Steady", 20) for method in ("uniform-8", "uniform-64", "avp", "vca")]
    paths = run(bench, jobs, workplace / "out", LOCAL, limit=2)
    assert all(line["frames_supplied"] <= 20 for path in paths.values() for line in lines(path))
    assert all("raise the budget" in line["error"] for line in lines(paths[jobs[1]]))
    assert not any("error" in line for job in (jobs[0], *jobs[2:]) for line in lines(paths[job]))
