"""docs/backbones.md says what the code does."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import make_clip, make_request

from trace_ves.backbone import registry
from trace_ves.backbone.anthropic import provider as anthropic
from trace_ves.backbone.frame_tokens import frame_tokens
from trace_ves.backbone.gemini import provider as gemini
from trace_ves.backbone.openai import provider as openai
from trace_ves.backbone.prompt_caches import prompt_cache
from trace_ves.backbone.provider import TextPart, request_parts
from trace_ves.backbone.remote import CONCURRENCY, SAMPLED_TEMPERATURE
from trace_ves.backbone.response_cache import default_path
from trace_ves.backbone.retry import DEADLINE_SECONDS

TEXT = (Path(__file__).parents[2] / "docs" / "backbones.md").read_text(encoding="utf-8")


def test_specs_numbers_and_limits_are_those_of_the_code() -> None:
    for name in (*registry.spec_forms(), *registry.account_variables(), default_path().name):
        assert f"`{name}`" in TEXT
    assert f"{CONCURRENCY} at a time" in TEXT
    assert f"until {DEADLINE_SECONDS / 60:g} minutes" in " ".join(TEXT.split())
    assert f"the others at {SAMPLED_TEMPERATURE}" in TEXT
    for name, limits in (("Gemini, Vertex", gemini.LIMITS), ("OpenAI", openai.LIMITS), ("Anthropic", anthropic.LIMITS)):
        assert re.search(rf"\| {name} \| {limits.images}[^|]*\| {limits.payload_bytes // 2**20} MiB \|", TEXT)
    assert f"of 200,000 tokens {anthropic.LIMITS_200K.images} |" in TEXT
    for budgets in (gemini.THINKING_BUDGETS, anthropic.THINKING_BUDGETS):
        assert ", ".join(str(tokens) for tokens in budgets.values() if tokens) in TEXT


def test_the_example_of_what_is_sent_is_what_is_sent() -> None:
    request = make_request("Which colour is the ball?", make_clip(70.0, [1, 2]), make_clip(4.0, [3]))
    sent = "\n".join(part.text if isinstance(part, TextPart) else "[JPEG]" for part in request_parts(request))
    assert f"```\n{sent}\n```" in TEXT


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("anthropic:claude-sonnet-5", "| Minimum tokens | {};"),
        ("anthropic:claude-opus-5", "; Opus 5, Sonnet 5.5 {};"),
        ("anthropic:claude-sonnet-5-5", "; Opus 5, Sonnet 5.5 {};"),
        ("anthropic:claude-opus-4-7", "; Opus 4.7 {};"),
        ("anthropic:claude-haiku-4-5", "; Opus 4.5, 4.6, Haiku 4.5 {} |"),
        ("openai:gpt-5.6-terra", "| {} | {} |"),
        ("vertex:gemini-3.8-flash", "| {}; Gemini 2.5 "),
        ("gemini:gemini-2.5-flash", "; Gemini 2.5 {} |"),
    ],
)
def test_the_least_tokens_of_a_prompt_cache_are_those_of_the_code(spec: str, words: str) -> None:
    least = f"{prompt_cache(spec).least_tokens:,}"
    assert words.format(least, least) in TEXT


@pytest.mark.usefixtures("keys")
def test_the_python_in_it_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["backbone"].name == "anthropic:claude-sonnet-5"


def test_the_table_of_frame_tokens_is_that_of_the_code() -> None:
    models = {
        "Gemini 3 and later": "gemini:gemini-3-flash-preview",
        "Gemini 2.5": "gemini:gemini-2.5-flash",
        "GPT-5.2 and later, GPT-5 mini": "openai:gpt-5.4-mini",
        "GPT-5, GPT-5.1": "openai:gpt-5.1",
        "GPT-4.1 mini": "openai:gpt-4.1-mini",
        "GPT-4o, GPT-4.1": "openai:gpt-4o",
        "Claude": "anthropic:claude-sonnet-5",
        "Qwen3-VL": "openai:q@http://x/v1",
    }
    rows = re.findall(
        r"^\| ([^|]+) \| (low|medium|high|has none) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", TEXT, re.MULTILINE
    )
    assert {name for name, *_ in rows} == set(models)
    for name, detail, *shown in rows:
        chosen = "auto" if detail == "has none" else detail
        counted = [frame_tokens(models[name], round(px * 16 / 9), px, chosen) for px in (224, 360, 480, 720)]
        assert [int(number) for number in shown] == counted
