"""An estimate sends nothing, and comes near to what a run of the same method is then charged."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from trace_ves import evaluate
from trace_ves.backbone.content import TextPart, lay_out
from trace_ves.backbone.frame_tokens import frame_tokens
from trace_ves.backbone.lab.lab import Lab
from trace_ves.backbone.protocol import Generation
from trace_ves.backbone.structured import reply_schema
from trace_ves.core import InputError
from trace_ves.cost.estimate import estimate
from trace_ves.cost.prices import Price, load_prices
from trace_ves.cost.tables import estimate_table
from trace_ves.records import Usage
from trace_ves.synthetic.bench import make_twin, write_twin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trace_ves.backbone.protocol import R, Request

GEMINI = "gemini:gemini-3-flash-preview"


class Charging(Lab):
    """The laboratory with a cash register that counts as Gemini does: 280 tokens a frame, four letters a token."""

    def generate(self, batch: Sequence[Request[R]]) -> list[Generation[R]]:
        return [
            Generation(generation.reply, self._charged(request, generation), generation.seconds)
            for request, generation in zip(batch, super().generate(batch), strict=True)
        ]

    def _charged(self, request: Request[R], generation: Generation[R]) -> Usage:
        parts = lay_out(request, lambda frame, _: frame)
        words = "".join(part.text for part in parts if isinstance(part, TextPart)) + json.dumps(
            reply_schema(request.reply)
        )
        said = generation.reply.model_dump_json() if hasattr(generation.reply, "model_dump_json") else ""
        return Usage(280 * request.frames_supplied + len(words) // 4, 0, len(said) // 4)


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("estimate") / "twin"
    write_twin(folder, make_twin(30, 4711), videos=False)
    return folder


@pytest.mark.parametrize("method", ["trace", "avp", "uniform-16", "vote-3"])
def test_the_estimate_is_near_to_what_a_full_run_is_charged(method: str, twin: Path, tmp_path: Path) -> None:
    price = load_prices().of(GEMINI)
    assert price is not None
    results = evaluate(twin, method, Charging(), out=tmp_path / "runs", workers=2)
    (cost,) = results.costs
    charged = price.of(cost.total.usage)
    durations = [json.loads(line)["duration"] for line in (twin / "questions.jsonl").read_text().splitlines()]
    expected = estimate(method, GEMINI, durations, price).dollars()
    assert expected == pytest.approx(charged, rel=0.2)


def test_what_is_shown_adds_up_and_the_cheaper_tier_halves_it() -> None:
    price = Price(1.0, 0.1, 4.0, flex=0.5)
    plain = estimate("uniform-8", GEMINI, [300.0] * 100, price)
    assert plain.by_stage["direct-answer"].frames == 8 * plain.measured
    half = estimate("uniform-8", GEMINI, [300.0] * 100, price, flex=True)
    assert half.dollars() == pytest.approx((plain.dollars() or 0) / 2)
    thinking = plain.dollars(thinking_tokens=500)
    assert thinking == pytest.approx((plain.dollars() or 0) + 100 * 500 * 4.0 / 1_000_000)
    table = estimate_table([plain, estimate("blind", "openai:unheard-of", [300.0], None)])
    assert "for 100 questions without thinking" in (table.note or "")
    assert "openai:unheard-of: no price; give one with --price" in (table.note or "")
    assert json.loads(json.dumps(plain.to_json()))["by_stage"]["direct-answer"]["calls"] == 1


def test_a_method_that_the_simulation_cannot_answer_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "poet.py").write_text(
        "import trace_ves as t\n"
        "def look(q, o):\n"
        "    o.ask([t.Request(t.Prompt('write-a-poem', '$question'), {'question': 'x'}, t.answer_reply(q))])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"poet:look cannot be estimated: .*no rule for the stage 'write-a-poem'"):
        estimate("poet:look", GEMINI, [60.0], None)


@pytest.mark.parametrize(
    ("spec", "size", "detail", "tokens"),
    [
        (GEMINI, (640, 360), "auto", 280),
        (GEMINI, (1280, 720), "auto", 560),
        (GEMINI, (640, 360), "high", 1120),
        ("gemini:gemini-2.5-flash", (640, 360), "auto", 64),
        ("openai:gpt-4o", (1024, 1024), "high", 765),  # the documentation's own examples
        ("openai:gpt-4o", (2048, 4096), "high", 1105),
        ("openai:gpt-4o", (4096, 8192), "low", 85),
        ("openai:gpt-5-mini", (1024, 1024), "high", 1659),  # 1,024 patches, each 1.62 tokens
        ("openai:gpt-5-mini", (1800, 2400), "high", 2353),  # 1,452 patches after shrinking
        ("openai:gpt-5.4-mini", (640, 360), "auto", 234),
        ("anthropic:claude-sonnet-5", (1000, 1000), "auto", 1334),
        ("openai:Qwen/Qwen3-VL-8B@http://localhost/v1", (640, 360), "auto", 240),
    ],
)
def test_the_tokens_of_a_frame_follow_the_published_formulas(
    spec: str, size: tuple[int, int], detail: str, tokens: int
) -> None:
    assert frame_tokens(spec, *size, detail) == tokens


def test_the_command_prints_an_estimate_and_writes_and_sends_nothing(twin: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trace_ves", "run", str(twin), "--method", "uniform-8", "--backbone", GEMINI]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out"), "--estimate"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "Estimated cost per question, by stage" in done.stdout
    assert "direct-answer" in done.stdout
    assert not (tmp_path / "out").exists()
