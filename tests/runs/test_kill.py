"""However a run ends, by a kill, Ctrl-C or a full disk: a status, a sentence, nothing lost, never a native abort."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import run_to
from trace_ves.benches import load_bench, write_bench

Command = Callable[..., subprocess.Popen[str]]
METHODS = "uniform-8,avp,vca"
GLANCE = ("--method", "uniform-256,vote-5", "--backbone", "glance", "--workers", "4", "--out", "out")


def by_question(path: Path) -> dict[str, Any]:
    """The lines of a run without the time they took; a part of a line would be an error here."""
    found = {}
    for text in path.read_text().splitlines():
        line = json.loads(text)
        assert line["question_id"] not in found  # no question is asked twice
        line.pop("seconds", None)
        found[line["question_id"]] = line
    return found


def lines_in(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))


def wait_for_lines(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 120
    while lines_in(folder) < count:
        time.sleep(0.02)
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end


def test_a_run_killed_many_times_ends_like_one_in_peace(command: Command, bench_folder: Path, workplace: Path) -> None:
    arguments = ("run", str(bench_folder), "--method", METHODS, "--backbone", "models:Slow", "--workers", "4")
    run_to(*arguments, "--out", "peace", MODEL_SECONDS="0")
    draw = random.Random(7)
    kills = 0
    for _ in range(40):
        process = command(*arguments, "--out", "war", MODEL_SECONDS="0.02")
        enough = lines_in(workplace / "war") + draw.randint(8, 12)
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
    assert kills >= 2
    for method in METHODS.split(","):
        name = f"{method}@models-Slow.jsonl"
        assert by_question(workplace / "war" / name) == by_question(workplace / "peace" / name)
        assert len(by_question(workplace / "war" / name)) == 12


def test_ctrl_c_ends_a_run_and_a_second_one_is_refused(command: Command, bench_folder: Path, workplace: Path) -> None:
    run = workplace / "out/uniform-8@models-Held.jsonl"
    arguments = ("run", str(bench_folder), "--method", "uniform-8", "--backbone", "models:Held", "--out", "out")
    first = command(*arguments, "--workers", "1")
    wait_for_lines(workplace / "out", 2, first)
    second = run_to(*arguments, status=2)
    assert "uniform-8@models-Held.jsonl: another process is writing there" in second.stderr
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=60)
    assert first.returncode == 130
    assert said.endswith("trace-ves: interrupted; everything saved so far is kept.\n")
    assert "Traceback" not in said
    assert len(by_question(run)) == 2


def test_ctrl_c_while_glance_looks_is_130_and_no_abort(command: Command, bench_folder: Path, workplace: Path) -> None:
    pytest.importorskip("onnxruntime")
    (workplace / "long").mkdir()
    (workplace / "long" / "videos").symlink_to(bench_folder / "videos")
    items = load_bench(bench_folder).items * 40  # no run comes to their end before it is interrupted
    questions = [replace(each.question, id=f"{number}") for number, each in enumerate(items)]
    write_bench([replace(item, question=each) for item, each in zip(items, questions, strict=True)], workplace / "long")
    process = command("run", "long", *GLANCE)
    wait_for_lines(workplace / "out", 1, process)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.endswith("trace-ves: interrupted; everything saved so far is kept.\n")
    assert "Warning" not in said
    assert any(map(by_question, (workplace / "out").glob("*.jsonl")))


def test_a_full_disk_ends_a_run_with_a_sentence(command: Command, bench_folder: Path, workplace: Path) -> None:
    """No file of the process may grow beyond this: what a full disk does, for one process alone."""
    pytest.importorskip("onnxruntime")
    process = command("run", bench_folder, *GLANCE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (40_000, 40_000))
    _, said = process.communicate(timeout=120)
    assert process.returncode == 2, said
    assert "could not be written (File too large); the lines before it are kept" in said
    assert "Traceback" not in said
    assert any(map(by_question, (workplace / "out").glob("*.jsonl")))


ray = pytest.mark.skipif("not __import__('importlib.util').util.find_spec('ray')", reason="the extra ray is missing")


def assert_same_lines(there: Path, here: Path, model: str) -> None:
    """A run with this model has the lines of one with `Steady`."""
    for method in METHODS.split(","):
        pairs = (there / f"{method}@models-{model}.jsonl", here / f"{method}@models-Steady.jsonl")
        found, expected = ({key: line | {"backbone": ""} for key, line in by_question(path).items()} for path in pairs)
        assert found == expected


@ray
def test_a_closed_cluster_gives_the_lines_of_the_local_engine_though_a_worker_is_killed(
    command: Command, bench_folder: Path, workplace: Path, ray_folder: Path
) -> None:
    stale = ray_folder / "ray" / "ray_current_cluster"  # what an old cluster left behind does not matter
    stale.parent.mkdir(exist_ok=True)
    stale.write_text("127.0.0.1:1")
    arguments = ("run", str(bench_folder), "--method", METHODS, "--workers", "2")
    run_to(*arguments, "--backbone", "models:Steady", "--out", "local")
    cluster = command(*arguments, "--backbone", "models:Deadly", "--out", "ray", "--engine", "ray")
    _, said = cluster.communicate(timeout=500)
    assert cluster.returncode == 0, said
    address, mode, length = (workplace / "killed").read_text().split()
    assert (address.partition(":")[0], mode, length) == ("127.0.0.1", "token", "64")
    assert_same_lines(workplace / "ray", workplace / "local", "Deadly")


NODES = """
import os, sys, time
from ray._common.utils import get_system_memory
from ray._private import services
from ray._private.utils import get_used_memory
from ray.cluster_utils import Cluster

def get_node(*arguments, once=services.get_node):
    for _ in range(600):  # Ray itself waits 30 s for a node, which a busy machine can exceed
        try:
            return once(*arguments)
        except RuntimeError:
            time.sleep(0.5)

services.get_node = get_node

def add(**environment):
    os.environ.update(environment)
    node = cluster.add_node(num_cpus=1, include_dashboard=False, include_log_monitor=False)
    for name in environment:
        del os.environ[name]
    return node

cluster = Cluster()
add(RAY_memory_monitor_refresh_ms="0")
share = (get_used_memory() + 3e9) / get_system_memory()
add(RAY_memory_monitor_refresh_ms="100", RAY_memory_usage_threshold=str(share), NODE="tight")
doomed = add(RAY_memory_monitor_refresh_ms="0", NODE="doomed")
print(cluster.address, flush=True)
sys.stdin.readline()
cluster.remove_node(doomed, allow_graceful=False)
print("killed", flush=True)
sys.stdin.readline()
cluster.shutdown()
"""
TROUBLED = """
class Troubled(Steady):
    name = "models:Troubled"
    def answer(self, request):
        node = os.environ.get("NODE", "")
        if node and not Path(node).exists():
            Path(node).touch()
            eaten = []
            for _ in range(600):  # until the memory monitor or the end of the node comes
                eaten.append(b"x" * 250_000_000 if node == "tight" and len(eaten) < 40 else b"")
                time.sleep(0.1)
            Path("unharmed").touch()
        while not (Path("tight").exists() and Path("doomed").exists()):
            time.sleep(0.05)  # the third node leaves work for the others
        return super().answer(request)
"""


@ray
def test_three_nodes_of_which_one_dies_and_one_runs_out_of_memory(
    command: Command, bench_folder: Path, workplace: Path, ray_folder: Path
) -> None:
    (workplace / "models.py").write_text((workplace / "models.py").read_text() + TROUBLED)
    arguments = ("run", str(bench_folder), "--method", METHODS, "--workers", "3")
    run_to(*arguments, "--backbone", "models:Steady", "--out", "quiet")
    loopback = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    health = {"RAY_health_check_period_ms": "500", "RAY_health_check_initial_delay_ms": "0"}
    env, pipe = os.environ | loopback | health | {"RAY_TMPDIR": str(ray_folder)}, subprocess.PIPE
    nodes = subprocess.Popen([sys.executable, "-c", NODES], env=env, stdin=pipe, stdout=pipe, text=True)
    try:
        address = nodes.stdout.readline().strip()
        cluster = ("--backbone", "models:Troubled", "--out", "ray", "--engine", "ray", "--address", address)
        process = command(*arguments, *cluster, **loopback)
        while not (workplace / "doomed").exists():
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.05)
        nodes.stdin.write("kill\n")
        nodes.stdin.flush()
        assert nodes.stdout.readline() == "killed\n"
        _, said = process.communicate(timeout=500)
        assert process.returncode == 0, said
    finally:
        nodes.communicate("end\n", timeout=300)
    assert (workplace / "tight").exists()
    assert not (workplace / "unharmed").exists()
    logs = "".join(path.read_text(errors="replace") for path in ray_folder.glob("ray/session_*/logs/raylet*"))
    assert "memory usage above threshold" in logs  # the kill was Ray's, not the system's
    assert_same_lines(workplace / "ray", workplace / "quiet", "Troubled")
