"""However a run ends, by Ctrl-C or a full disk: a status, a sentence, nothing lost, and never a native abort."""

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from trace_ves.benches import load_bench, write_bench

pytest.importorskip("onnxruntime")

GLANCE = ("--method", "uniform-256,vote-5", "--backbone", "glance", "--workers", "4", "--out", "out")


def whole_lines(folder: Path) -> int:
    """Lines that are whole JSON objects; a part of one would be an error here."""
    texts = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return sum(bool(json.loads(text)["question_id"]) for text in texts)


@pytest.fixture(scope="module")
def long_bench(bench_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So many questions that no run comes to their end before it is interrupted."""
    folder = tmp_path_factory.mktemp("long")
    items = load_bench(bench_folder).items
    many = [
        replace(item, question=replace(item.question, id=f"{item.question.id}-{copy}"))
        for copy in range(40)
        for item in items
    ]
    write_bench(many, folder)
    (folder / "videos").symlink_to(bench_folder / "videos")
    return folder


@pytest.mark.parametrize("wait", [0.0, 0.13, 0.4])
def test_ctrl_c_while_glance_looks_is_130_and_no_abort(
    command: Callable[..., subprocess.Popen[str]], long_bench: Path, workplace: Path, wait: float
) -> None:
    process = command("run", str(long_bench), *GLANCE)
    while not any(b"\n" in path.read_bytes() for path in (workplace / "out").glob("*.jsonl")):
        time.sleep(0.02)
        assert process.poll() is None, process.communicate()
    time.sleep(wait)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.endswith("trace-ves: interrupted; everything saved so far is kept.\n")
    assert "Warning" not in said
    assert whole_lines(workplace / "out") >= 1


@pytest.mark.parametrize("room", [9_000, 40_000])
def test_a_full_disk_ends_a_run_with_a_sentence_and_the_lines_before_it(
    bench_folder: Path, workplace: Path, room: int
) -> None:
    """No file of the process may grow beyond this: what a full disk does, for one process alone."""
    done = subprocess.run(
        [sys.executable, "-c", "from trace_ves.cli import main; main()", "run", str(bench_folder), *GLANCE],
        cwd=workplace,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "could not be written (File too large); the lines before it are kept" in done.stderr
    assert "Traceback" not in done.stderr
    assert whole_lines(workplace / "out") >= 1
