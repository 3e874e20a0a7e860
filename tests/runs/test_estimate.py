"""An estimate sends nothing, and comes near to what a run of the same method is then charged."""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.cache_servers import cache_server, environment
from tests.cli.conftest import run_to
from tests.lab_over_http import LabOverHttp, Replies
from trace_ves import evaluate
from trace_ves.backbone import open_backbone
from trace_ves.core import InputError
from trace_ves.records import Usage
from trace_ves.runs.cost import Spent
from trace_ves.runs.estimate import estimate, estimate_table
from trace_ves.runs.prices import Price, load_prices
from trace_ves.twin.synthetic.bench import make_twin, write_twin

GEMINI = "gemini:gemini-3-flash-preview"


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("estimate") / "twin"
    write_twin(folder, make_twin(24, 4711), videos=False)
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    one_each = {question["video"]: question for question in reversed(questions)}  # what they share is not estimated
    (folder / "questions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in one_each.values()))
    return folder


@pytest.mark.parametrize(
    ("method", "spec", "limit"),
    [("trace", "anthropic:claude-sonnet-5", 12), ("vote-3", GEMINI, 4), ("uniform-16", "openai:gpt-5.6-terra", 4)],
)
def test_the_estimate_is_near_to_what_a_run_through_the_providers_server_is_charged(
    method: str, spec: str, limit: int, twin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call goes through the SDK to a server on loopback that counts by the provider's published cache rules."""
    pytest.importorskip(spec.partition(":")[0].replace("gemini", "google.genai"))
    replies = Replies()
    with cache_server(spec, replies.answer) as server:
        for name, value in environment(server).items():
            monkeypatch.setenv(name, value)
        backbone = LabOverHttp(open_backbone(spec, cache=False), replies)
        results = evaluate(twin, method, backbone, out=tmp_path / "runs", workers=2, limit=limit)
    price = load_prices().of(spec)
    (cost,) = results.costs
    charged = price.of(cost.total.usage)
    durations = [json.loads(line)["duration"] for line in (twin / "questions.jsonl").read_text().splitlines()][:limit]
    expected = estimate(method, spec, durations, price)
    assert expected.dollars() == pytest.approx(charged, rel=0.2)
    counted = cost.total.usage
    measured = sum(expected.by_stage.values(), Spent()).usage
    assert (measured.cached_tokens > 0) == (counted.cached_tokens > 0) == (method in {"trace", "vote-3"})
    read = [call.usage.input_tokens for line in results.runs[0].predictions for call in line.observations]
    assert sum(read) == sum(prompt.tokens for prompt in server.prompts)


def test_what_is_shown_adds_up_and_the_cheaper_tier_halves_it() -> None:
    price = Price(1.0, 0.1, 4.0, flex=0.5)
    plain = estimate("uniform-8", GEMINI, [300.0] * 100, price)
    assert plain.by_stage["direct-answer"].frames == 8 * plain.measured
    half = estimate("uniform-8", GEMINI, [300.0] * 100, price, model_options={"service_tier": "flex"})
    assert half.dollars() == pytest.approx((plain.dollars() or 0) / 2)
    thinking = plain.dollars(thinking_tokens=500)
    assert thinking == pytest.approx((plain.dollars() or 0) + 100 * 500 * 4.0 / 1_000_000)
    table = estimate_table([plain, estimate("blind", "openai:unheard-of", [300.0], None)])
    assert "for 100 questions without thinking" in (table.note or "")
    assert "openai:unheard-of: no price; give one with --price" in (table.note or "")
    assert json.loads(json.dumps(plain.to_json()))["by_stage"]["direct-answer"]["calls"] == 1


def test_a_stage_without_a_rule_is_a_sentence(twin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "poet.py").write_text(
        "import trace_ves as t\n"
        "def look(q, o):\n"
        "    o.ask([t.Request(t.Prompt('write-a-poem', '$question'), {'question': 'x'}, t.answer_reply(q))])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"poet:look cannot be estimated: .*no rule for the stage 'write-a-poem'"):
        estimate("poet:look", GEMINI, [60.0], None)
    results = evaluate(twin, "poet:look", "lab", out=tmp_path / "runs", limit=4)
    errors = [prediction.error or "" for (failed,) in [results.errors.values()] for prediction in failed]
    assert len(errors) == sum("no rule for the stage 'write-a-poem'" in error for error in errors) == 4


def test_ask_prints_an_estimate_and_sends_nothing(bench_folder: Path, tmp_path: Path) -> None:
    """Without a key there is nobody to send it to."""
    question = ("ask", bench_folder / "videos" / "a.mp4", "Which?", "-o", "w", "-o", "x", "--estimate")
    ask = partial(run_to, *question, "--method", "uniform-8", "--backbone", GEMINI, cwd=tmp_path)
    plain = ask()
    assert "uniform-8 with gemini:gemini-3-flash-preview (1 question)" in plain.stdout
    assert "nothing is sent" in plain.stderr
    (found,) = json.loads(ask("--json").stdout)
    (high,) = json.loads(ask("--json", "--detail", "gemini=high,openai=low").stdout)
    (flex,) = json.loads(ask("--json", "--service-tier", "flex").stdout)
    stage = found["by_stage"]["direct-answer"]
    assert (found["questions"], stage["calls"], stage["frames"]) == (1, 1, 8)
    assert high["by_stage"]["direct-answer"]["input_tokens"] - stage["input_tokens"] == 8 * (1120 - 280)
    assert flex["dollars"] == pytest.approx(found["dollars"] / 2)
    refused = ask("--detail", "claude=high", status=2)
    assert "'claude' is not a backbone with a detail; choose from azure, gemini, groq," in refused.stderr
    assert list(tmp_path.iterdir()) == []
    free = estimate("uniform-8", "glance", [60.0], None).by_stage["direct-answer"]
    assert (free.frames > 0, free.usage) == (True, Usage())
