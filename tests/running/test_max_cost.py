"""A run with --max-cost stops when it is reached, keeps what it has, and goes on where it stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.fakes import DIALECTS, Response, Server
from trace_ves import evaluate
from trace_ves.core import InputError
from trace_ves.cost.limit import CostLimit
from trace_ves.cost.prices import load_prices

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPENAI = DIALECTS["openai"]
QUESTIONS = [
    {"id": f"q{i}", "video": "v.mp4", "question": f"{i}?", "options": ["a", "b"], "answer": "A", "duration": 9.0}
    for i in range(10)
]


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    made.respond(Response(body=OPENAI.ok('{"answer": "A"}', read=100_000, output=0)))  # 10 cents at the price below
    yield made
    made.close()


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    return tmp_path / "questions.jsonl"


def run(bench: Path, server: Server, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trace_ves", "run", str(bench), "--method", "blind", "--workers", "1"]
    command += ["--backbone", f"openai:m@{server.url}/v1", "--out", str(bench.parent / "out"), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=os.environ)


def answered(bench: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in (bench.parent / "out").glob("*.jsonl"))


def test_a_run_stops_at_its_limit_and_the_same_command_with_a_higher_one_goes_on(bench: Path, server: Server) -> None:
    first = run(bench, server, "--price", "1,1,1", "--max-cost", "0.35")
    assert first.returncode == 3, first.stderr
    assert "stopped: the run has cost $0.4000, and --max-cost is $0.35." in first.stderr
    assert answered(bench) == 4
    again = run(bench, server, "--price", "1,1,1", "--max-cost", "0.35")
    assert (again.returncode, answered(bench)) == (3, 4)  # nothing more was asked
    asked = len(server.received)
    whole = run(bench, server, "--price", "1,1,1", "--max-cost", "1")
    assert (whole.returncode, answered(bench)) == (0, 10), whole.stderr
    assert "stopped" not in whole.stderr  # the limit was reached with the last question
    assert len(server.received) <= asked + 6


def test_a_limit_without_a_price_is_refused_and_a_model_without_one_says_so_once(bench: Path, server: Server) -> None:
    refused = run(bench, server, "--max-cost", "1")
    assert refused.returncode == 2
    assert f"--max-cost cannot be kept: openai:m@{server.url}/v1 has no price; give one with --price" in refused.stderr
    assert server.received == []
    plain = run(bench, server, "--limit", "2")
    assert plain.returncode == 0
    assert plain.stderr.count("has no price, so its cost is unknown") == 1


def test_from_python(bench: Path, server: Server, tmp_path: Path) -> None:
    prices = load_prices()
    limit = CostLimit(5.0, prices)
    evaluate(bench, "blind", "glance", out=tmp_path / "runs", cost_limit=limit, prices=prices)
    assert (limit.stopped, limit.spent) == (False, 0.0)
    with pytest.raises(InputError, match="more than 0 dollars"):
        CostLimit(0, prices)
