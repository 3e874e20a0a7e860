"""`trace-ves run` and `counterfactual` as a person types them, what they may cost, and runs made by strangers."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests import program
from tests.cli.conftest import run_to
from tests.fakes import OPENAI, Response, Server
from trace_ves import evaluate
from trace_ves.runs.cost import CostLimit
from trace_ves.runs.prices import load_prices


def run(bench: object, *more: str, method: str = "uniform-8", model: str = "Steady", status: int = 0) -> program.Done:
    words = ("run", bench, "--method", method, "--backbone", f"models:{model}", "--out", "out", *more)
    return run_to(*words, status=status)


def test_audit_and_cost_are_printed_and_a_second_time_nothing_is_asked(bench_folder: Path, workplace: Path) -> None:
    (workplace / "prices.toml").write_text('["models:*"]\ninput = 1000\ncached = 0\noutput = 0\n')
    priced = (bench_folder, "--prices", "prices.toml")
    first = run(*priced, method="uniform-8, blind")
    assert "VES audit\n" in first.stdout
    assert "Cost per question, by stage" not in first.stdout
    assert "More: --full prints every table; trace-ves view out;" in first.stdout
    assert "uniform-8@models-Steady: Done 12/12" in first.stderr
    assert "Cost $8.64" in first.stderr
    assert run(*priced, method="uniform-8, blind") == (0, first.stdout, "")
    full = run(*priced, "--full", method="uniform-8, blind").stdout
    assert "Cost per question, by stage" in full
    assert "$0.7200" in full  # 800 tokens less 80 cached ones, at a thousand dollars a million


def test_errors_end_with_status_1_and_say_how_to_go_on(bench_folder: Path, workplace: Path) -> None:
    done = run(bench_folder, method="blind", model="Failing", status=1)
    assert "8 of the 12 questions of blind ended in an error, the first 'q0" in done.stderr
    assert "--retry-errors asks them again" in done.stderr


# --- a run file may be a stranger's: it never chooses code, or an address to which a key is sent ---


def test_a_run_cannot_send_the_readers_key_anywhere_or_import_code(workplace: Path, bench_folder: Path) -> None:
    (workplace / "evil.py").write_text("from pathlib import Path\nPath('taken').touch()\ndef main():\n    pass\n")
    with closing(Server()) as server:
        for backbone in (f"openai:x@{server.url}/v1", "evil:main"):
            line = {"question_id": "q00", "answer": "A", "timestamps": [6.0, 7.0, 31.0, 32.0], "backbone": backbone}
            (workplace / "run.jsonl").write_text(json.dumps(line) + "\n")
            check = ("counterfactual", bench_folder, "run.jsonl")
            done = run_to(*check, status=2, OPENAI_API_KEY="the-reader's-key")
            refused = f"the run names the backbone '{backbone}', which a file may not choose; if you trust it, "
            assert f"{refused}pass --backbone {backbone}" in done.stderr
    assert (server.received, server.got, (workplace / "taken").exists()) == ([], [], False)


# --- a run with --max-cost stops when it is reached, keeps what it has, and goes on where it stopped ---


@pytest.fixture
def server() -> Iterator[Server]:
    with closing(Server()) as made:
        made.respond(Response(body=OPENAI.ok('{"answer": "A"}', read=100_000, output=0)))  # 10 cents at the price below
        yield made


@pytest.fixture
def paid(tmp_path: Path) -> Path:
    """Ten questions without a video."""
    question = {"video": "v.mp4", "question": "?", "options": ["a", "b"], "answer": "A", "duration": 9.0}
    lines = [json.dumps(question | {"id": f"q{number}"}) + "\n" for number in range(10)]
    (tmp_path / "questions.jsonl").write_text("".join(lines))
    return tmp_path / "questions.jsonl"


def command(bench: Path, server: Server, *options: str, workers: int = 1) -> list[str]:
    words = ["run", bench, "--method", "blind", "--workers", workers, "--backbone", f"openai:m@{server.url}/v1"]
    return [*map(str, [*words, "--out", bench.parent / "out"]), *options]


def pay(bench: Path, server: Server, *options: str, workers: int = 1) -> program.Done:
    return program.run(*command(bench, server, "--price", "1,1,1", *options, workers=workers))


def lines(bench: Path) -> list[str]:
    """The finished lines of the run; one that is being written has no end yet."""
    texts = [path.read_text() for path in (bench.parent / "out").glob("*.jsonl")]
    return [line for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n")]


def test_a_run_stops_at_its_limit_and_the_same_command_with_a_higher_one_goes_on(paid: Path, server: Server) -> None:
    first = pay(paid, server, "--max-cost", "0.35")
    assert (first.returncode, len(lines(paid))) == (3, 4), first.stderr
    assert "stopped: the run has cost $0.4000, and --max-cost is $0.35." in first.stderr
    again = pay(paid, server, "--max-cost", "0.35")
    assert (again.returncode, len(lines(paid))) == (3, 4)  # nothing more was asked
    asked = len(server.received)
    whole = pay(paid, server, "--max-cost", "1")
    assert (whole.returncode, len(lines(paid))) == (0, 10), whole.stderr
    assert "stopped" not in whole.stderr  # the limit was reached with the last question
    assert len(server.received) <= asked + 6


def test_a_run_that_is_killed_goes_on_within_its_limit_and_loses_nothing(paid: Path, server: Server) -> None:
    """Ten cents an answer, two workers: at most two answers are under way when it is killed, and when it stops."""
    server.respond(Response(body=OPENAI.ok('{"answer": "A"}', read=100_000), before=lambda: time.sleep(0.2)))
    limited = ("--max-cost", "0.55", "--json")
    words = [sys.executable, "-m", "trace_ves", *command(paid, server, "--price", "1,1,1", *limited, workers=2)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        while len(lines(paid)) < 2:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    kept = lines(paid)
    assert 2 <= len(kept) < 6
    resumed = pay(paid, server, *limited, workers=2)
    assert resumed.returncode == 3, resumed.stderr
    after = lines(paid)
    assert after[: len(kept)] == kept
    assert len({json.loads(line)["question_id"] for line in after}) == len(after)
    (cost,) = [each["cost"] for each in json.loads(resumed.stdout)["runs"]]
    assert cost["total"]["dollars"] == pytest.approx(0.1 * len(after))
    assert 0.55 <= cost["total"]["dollars"] <= 0.55 + 2 * 0.1
    assert len(server.received) <= len(after) + 2 + 2  # paid for, what was under way both times included
    whole = pay(paid, server, workers=2)
    assert (whole.returncode, len(lines(paid))) == (0, 10), whole.stderr
    assert lines(paid)[: len(after)] == after


def test_a_limit_without_a_price_is_refused_and_a_model_without_one_says_so_once(paid: Path, server: Server) -> None:
    refused = run_to(*command(paid, server, "--max-cost", "1"), status=2)
    assert f"--max-cost needs a price for openai:m@{server.url}/v1; give one with --price" in refused.stderr
    assert server.received == []
    helped = {"backbones": {"gist-probe": [f"openai:m@{server.url}/v1"]}}
    paid.with_name("construction.json").write_text(json.dumps(helped))
    plain = program.run(*command(paid, server, "--limit", "2"))
    assert (plain.returncode, plain.stderr.count("has no price, so its cost is unknown")) == (0, 1)
    assert "this bench's gist-probe" in plain.stderr


def test_a_question_that_failed_and_was_asked_again_keeps_its_cost(paid: Path, server: Server) -> None:
    gone = Response(status=404, body=OPENAI.error("gone"))
    cut = Response(body=OPENAI.ok('{"answer": ', read=100_000))  # paid for, and then its second attempt fails
    server.respond(cut, gone, *server.script)
    for options, dollars in (((), 0.2), (("--retry-errors",), 0.3), (("--max-cost", "0.25"), 0.3)):
        done = pay(paid, server, "--limit", "2", "--json", *options)
        for failed in (paid.parent / "out").glob("*.failed"):
            failed.write_text(failed.read_text() + '{"question_id": "q0", ')  # a kill cut the line
        (cost,) = [each["cost"] for each in json.loads(done.stdout)["runs"]]
        assert cost["total"]["dollars"] == cost["by_stage"]["direct-answer"]["dollars"] == pytest.approx(dollars)
    assert cost["by_question"]["q0"]["dollars"] == pytest.approx(0.2)
    more = pay(paid, server, "--max-cost", "0.25")
    assert (more.returncode, len(lines(paid))) == (3, 2), more.stderr
    limit = CostLimit(5.0, load_prices())
    evaluate(paid, "blind", "glance", out=paid.parent / "free", cost_limit=limit)
    assert (limit.stopped, limit.spent) == (False, 0.0)
