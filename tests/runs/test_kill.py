"""Real runs, killed with SIGKILL many times, end with the same lines as one that was left in peace."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

METHODS = "uniform-8,avp,vca"


def by_question(path: Path) -> dict[str, Any]:
    """The lines of a run without the time they took."""
    found = {}
    for text in path.read_text().splitlines():
        line = json.loads(text)
        assert line["question_id"] not in found  # no question is asked twice
        line.pop("seconds", None)
        found[line["question_id"]] = line
    return found


def lines_in(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))


def test_a_run_killed_many_times_ends_like_one_in_peace(
    command: Callable[..., subprocess.Popen[str]], bench_folder: Path, workplace: Path
) -> None:
    arguments = ("run", str(bench_folder), "--method", METHODS, "--backbone", "models:Slow", "--workers", "4")
    peaceful = command(*arguments, "--out", "peace", MODEL_SECONDS="0")
    assert peaceful.wait(60) == 0, peaceful.stderr and peaceful.stderr.read()
    draw = random.Random(7)
    kills = 0
    for _ in range(60):
        process = command(*arguments, "--out", "war", MODEL_SECONDS="0.02")
        enough = lines_in(workplace / "war") + draw.randint(1, 5)
        while process.poll() is None and lines_in(workplace / "war") < enough:
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.02))
        if process.poll() is None:
            process.kill()
            kills += 1
        process.communicate()
        if process.returncode == 0:
            break
    assert process.returncode == 0
    assert kills >= 4
    for method in METHODS.split(","):
        name = f"{method}@models-Slow.jsonl"
        assert by_question(workplace / "war" / name) == by_question(workplace / "peace" / name)
        assert len(by_question(workplace / "war" / name)) == 12


def wait_for_lines(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while lines_in(folder) < count:
        time.sleep(0.02)
        assert process.poll() is None
        assert time.monotonic() < end


def test_two_runs_cannot_write_one_file_at_a_time(
    command: Callable[..., subprocess.Popen[str]], bench_folder: Path, workplace: Path
) -> None:
    arguments = ("run", str(bench_folder), "--method", "uniform-8", "--backbone", "models:Held", "--out", "out")
    first = command(*arguments, "--workers", "1")
    wait_for_lines(workplace / "out", 1, first)
    second = command(*arguments)
    _, complaint = second.communicate(timeout=60)
    assert second.returncode == 2
    assert "Traceback" not in complaint
    assert "uniform-8@models-Held.jsonl" in complaint
    (workplace / "go").touch()
    assert first.wait(60) == 0
    first.communicate()


def test_ctrl_c_ends_at_once_and_keeps_what_was_finished(
    command: Callable[..., subprocess.Popen[str]], bench_folder: Path, workplace: Path
) -> None:
    import signal

    run = workplace / "out/uniform-8@models-Held.jsonl"
    arguments = ("run", str(bench_folder), "--method", "uniform-8", "--backbone", "models:Held", "--out", "out")
    process = command(*arguments, "--workers", "1")
    wait_for_lines(workplace / "out", 2, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "interrupted; what was finished is kept" in said
    assert "Traceback" not in said
    assert len(by_question(run)) == 2


ray = pytest.mark.skipif("not __import__('importlib.util').util.find_spec('ray')", reason="the extra ray is missing")


@ray
def test_ray_gives_the_lines_of_the_local_engine_though_a_worker_is_killed(
    command: Callable[..., subprocess.Popen[str]], bench_folder: Path, workplace: Path
) -> None:
    arguments = ("run", str(bench_folder), "--method", METHODS, "--workers", "2")
    local = command(*arguments, "--backbone", "models:Steady", "--out", "local")
    assert local.wait(60) == 0
    local.communicate()
    cluster = command(*arguments, "--backbone", "models:Deadly", "--out", "ray", "--engine", "ray")
    _, said = cluster.communicate(timeout=120)
    assert cluster.returncode == 0, said
    assert (workplace / "killed").exists()
    for method in METHODS.split(","):
        there = by_question(workplace / "ray" / f"{method}@models-Deadly.jsonl")
        here = by_question(workplace / "local" / f"{method}@models-Steady.jsonl")
        assert {key: line | {"backbone": ""} for key, line in there.items()} == {
            key: line | {"backbone": ""} for key, line in here.items()
        }


@ray
def test_a_question_that_kills_every_worker_becomes_an_error_and_the_rest_goes_on(
    command: Callable[..., subprocess.Popen[str]], bench_folder: Path, workplace: Path
) -> None:
    process = command(
        *("run", str(bench_folder), "--method", "blind", "--backbone", "models:Deadlier"),
        *("--out", "out", "--engine", "ray", "--workers", "2"),
    )
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1, said
    lines = by_question(workplace / "out/blind@models-Deadlier.jsonl")
    assert [key for key, line in lines.items() if "error" in line] == ["q05"]
    assert lines["q05"]["error"] == "3 workers were lost while answering this question"
    assert len(lines) == 12


@ray
def test_what_a_person_got_wrong_is_said_on_ray_too(
    command: Callable[..., subprocess.Popen[str]], bench_folder: Path, workplace: Path
) -> None:
    process = command(
        *("run", str(bench_folder), "--method", "uniform-8", "--backbone", "models:Nothing"),
        *("--out", "out", "--engine", "ray", "--workers", "1"),
    )
    _, said = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "the module models has no Nothing" in said
    assert not (workplace / "out").exists()
    assert "Traceback" not in said


@ray
def test_a_cluster_of_this_machine_is_closed_to_others(
    command: Callable[..., subprocess.Popen[str]], bench_folder: Path, workplace: Path
) -> None:
    spy = """
class Spy(Steady):
    name = "models:Spy"
    def answer(self, request):
        import ray
        mode, token = os.environ.get("RAY_AUTH_MODE"), os.environ.get("RAY_AUTH_TOKEN", "")
        Path("seen").write_text(f"{ray.get_runtime_context().gcs_address} {mode} {len(token)}")
        return super().answer(request)
"""
    (workplace / "models.py").write_text((workplace / "models.py").read_text() + spy)
    arguments = ("--method", "blind", "--backbone", "models:Spy", "--limit", "2", "--engine", "ray", "--workers", "1")
    _, said = (process := command("run", str(bench_folder), *arguments, "--out", "out")).communicate(timeout=120)
    assert process.returncode == 0, said
    address, mode, length = (workplace / "seen").read_text().split()
    assert (address.partition(":")[0], mode, length) == ("127.0.0.1", "token", "64")


@ray
def test_what_an_old_cluster_left_behind_does_not_matter(
    command: Callable[..., subprocess.Popen[str]], bench_folder: Path, ray_folder: Path
) -> None:
    stale = ray_folder / "ray" / "ray_current_cluster"
    stale.parent.mkdir(exist_ok=True)
    stale.write_text("127.0.0.1:1")
    arguments = (
        "--method",
        "blind",
        "--backbone",
        "models:Steady",
        "--limit",
        "1",
        "--engine",
        "ray",
        "--workers",
        "1",
    )
    _, said = (process := command("run", str(bench_folder), *arguments, "--out", "out")).communicate(timeout=120)
    assert process.returncode == 0, said
