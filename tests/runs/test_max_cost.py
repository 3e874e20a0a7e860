"""A run with --max-cost stops when it is reached, keeps what it has, and goes on where it stopped."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import program
from tests.fakes import DIALECTS, Response, Server
from trace_ves import evaluate
from trace_ves.runs.cost import CostLimit
from trace_ves.runs.prices import load_prices

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


def command(bench: Path, server: Server, *options: str, workers: int = 1) -> list[str]:
    words = ["run", bench, "--method", "blind", "--workers", workers, "--backbone", f"openai:m@{server.url}/v1"]
    return [*map(str, [*words, "--out", bench.parent / "out"]), *options]


def run(bench: Path, server: Server, *options: str, workers: int = 1) -> subprocess.CompletedProcess[str]:
    return program.run(*command(bench, server, *options, workers=workers))


def lines(bench: Path) -> list[str]:
    """The finished lines of the run; one that is being written has no end yet."""
    texts = [path.read_text() for path in (bench.parent / "out").glob("*.jsonl")]
    return [line for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n")]


def answered(bench: Path) -> int:
    return len(lines(bench))


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


def test_a_run_that_is_killed_goes_on_within_its_limit_and_loses_nothing(bench: Path, server: Server) -> None:
    """Ten cents an answer, two workers: at most two answers are under way when it is killed, and when it stops."""
    server.respond(Response(body=OPENAI.ok('{"answer": "A"}', read=100_000), before=lambda: time.sleep(0.2)))
    limited = ("--price", "1,1,1", "--max-cost", "0.55", "--json")
    words = [sys.executable, "-m", "trace_ves", *command(bench, server, *limited, workers=2)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        while answered(bench) < 2:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    kept = lines(bench)
    assert 2 <= len(kept) < 6
    resumed = run(bench, server, *limited, workers=2)
    assert resumed.returncode == 3, resumed.stderr
    after = lines(bench)
    assert after[: len(kept)] == kept
    assert len({json.loads(line)["question_id"] for line in after}) == len(after)
    (cost,) = [each["cost"] for each in json.loads(resumed.stdout)["runs"]]
    assert cost["total"]["dollars"] == pytest.approx(0.1 * len(after))
    assert 0.55 <= cost["total"]["dollars"] <= 0.55 + 2 * 0.1
    assert len(server.received) <= len(after) + 2 + 2  # paid for, what was under way both times included
    whole = run(bench, server, "--price", "1,1,1", workers=2)
    assert (whole.returncode, answered(bench)) == (0, 10), whole.stderr
    assert lines(bench)[: len(after)] == after


def test_a_limit_without_a_price_is_refused_and_a_model_without_one_says_so_once(bench: Path, server: Server) -> None:
    refused = run(bench, server, "--max-cost", "1")
    assert refused.returncode == 2
    assert f"--max-cost needs a price for openai:m@{server.url}/v1; give one with --price" in refused.stderr
    assert server.received == []
    plain = run(bench, server, "--limit", "2")
    assert plain.returncode == 0
    assert plain.stderr.count("has no price, so its cost is unknown") == 1


def test_a_question_that_failed_and_was_asked_again_keeps_its_cost(bench: Path, server: Server) -> None:
    gone = Response(status=404, body=OPENAI.error("gone"))
    cut = Response(body=OPENAI.ok('{"answer": ', read=100_000))  # paid for, and then its second attempt fails
    server.respond(cut, gone, *server.script)
    priced = ("--price", "1,1,1", "--limit", "2", "--json")
    for options, dollars in (((), 0.2), (("--retry-errors",), 0.3), (("--max-cost", "0.25"), 0.3)):
        done = run(bench, server, *priced, *options)
        for failed in (bench.parent / "out").glob("*.failed"):
            failed.write_text(failed.read_text() + '{"question_id": "q0", ')  # a kill cut the line
        (cost,) = [each["cost"] for each in json.loads(done.stdout)["runs"]]
        assert cost["total"]["dollars"] == cost["by_stage"]["direct-answer"]["dollars"] == pytest.approx(dollars)
    assert cost["by_question"]["q0"]["dollars"] == pytest.approx(0.2)
    more = run(bench, server, "--price", "1,1,1", "--max-cost", "0.25")
    assert (more.returncode, answered(bench)) == (3, 2), more.stderr


def test_from_python(bench: Path, server: Server, tmp_path: Path) -> None:
    prices = load_prices()
    limit = CostLimit(5.0, prices)
    evaluate(bench, "blind", "glance", out=tmp_path / "runs", cost_limit=limit, prices=prices)
    assert (limit.stopped, limit.spent) == (False, 0.0)
