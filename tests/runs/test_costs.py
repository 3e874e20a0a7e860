"""Prices turn usage into money, costs are split by stage, and the table of a run tells where it stands."""

import io
import math
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from trace_ves.backbone.protocol import Generation
from trace_ves.backbone.registry import registrations
from trace_ves.cli.run_table import RunTable, Tally, format_duration
from trace_ves.core import Answer, InputError, Interval, Question
from trace_ves.records import Call, Item, ObservationLog, Prediction, Usage
from trace_ves.runs.answering import Job
from trace_ves.runs.cost import CostLimit, LimitedBackbone, RunCost, Spent, cost_lines, cost_table
from trace_ves.runs.estimate import Estimate
from trace_ves.runs.prices import Price, Prices, add_price_notes, load_prices, parse_price, price_notes
from trace_ves.runs.run import Plan


def test_tokens_written_into_a_cache_have_a_price_of_their_own_and_flex_is_a_part_of_it() -> None:
    price = Price(input=2.0, cached=0.2, output=10.0, cache_write=2.5, flex=0.5)
    usage = Usage(1_000_000, 400_000, 100_000, cache_write_tokens=500_000)
    full = 0.1 * 2 + 0.4 * 0.2 + 0.5 * 2.5 + 1.0
    assert price.of(usage) == pytest.approx(full)
    assert price.of(usage + usage, flex=usage) == pytest.approx(1.5 * full)
    assert Price(2.0, 0.2, 10.0).of(usage) == pytest.approx(0.6 * 2 + 0.4 * 0.2 + 1.0)  # writing costs no more


FLEX = Price(2.0, 0.2, 10.0, flex=0.5)
LONG = replace(FLEX, long_above=200_000, long_input=2.0, long_output=1.5)
LONG_CALLS = [
    Call("look", usage=Usage(tokens, 0, 100_000), service_tier=tier)
    for tier, tokens in ((None, 200_000), (None, 300_000), ("flex", 300_000))
]


@pytest.mark.parametrize(
    ("price", "calls", "expected"),
    [
        (FLEX, [Call("look", usage=Usage(1_000_000), service_tier=tier) for tier in (None, "flex")], 3.0),
        (LONG, LONG_CALLS, (0.4 + 1.0) + (1.2 + 1.5) + 0.5 * (1.2 + 1.5)),
    ],
)
def test_sums_limits_and_tables_charge_by_tier_and_length(price: Price, calls: list[Call], expected: float) -> None:
    log = ObservationLog(tuple(calls))
    line = Prediction.of(item(0).question, Answer("A"), log, method="m", backbone="b", seconds=1.0)
    assert Prediction.from_json(line.to_json()).observations[-1].service_tier == "flex"
    tally = Tally(1, price)
    tally.add(item(0), line)
    prices = Prices({"b": price})
    limit, resumed, limited = (CostLimit(2 * expected - 0.01, prices) for _ in range(3))
    for times in (1, 2):
        limit.add("b", line)
        assert (limit.spent, limit.reached) == (pytest.approx(times * expected), times == 2)
    resumed.add("b", line.summary())
    replies = [Generation("", call.usage, service_tier=call.service_tier) for call in calls]
    inner: Any = SimpleNamespace(name="b", generate=lambda _: replies)
    LimitedBackbone(inner, limited).generate([])
    sums = [RunCost.of("run", [line], price).dollars, tally.dollars, resumed.spent, limited.spent]
    assert sums == pytest.approx([expected] * 4)


def test_a_surcharge_may_begin_at_a_hundred_thousand_tokens_and_thinking_makes_a_long_call_dearer() -> None:
    spent = Spent()
    spent.add(Call("look", usage=Usage(100_001)))
    assert spent.dollars(Price(1.0, 0.1, 1.0, long_above=100_000, long_input=2.0)) == pytest.approx(0.200002)
    long = Spent()
    long.add(LONG_CALLS[1])
    thinking = Estimate("m", 1, 1, {"look": long}, LONG).dollars(thinking_tokens=100_000)
    assert thinking == pytest.approx((1.2 + 1.5) + 1.5)


def test_every_default_model_and_every_family_has_a_price_with_its_page_and_day() -> None:
    prices = load_prices()
    defaults = [f"{known.scheme}:{known.default_model}" for known in registrations().values() if known.default_model]
    families = [
        "vertex:gemini-3-flash-preview",
        "anthropic:claude-haiku-4-5-20251001",
        "openai:qwen3-vl-plus@https://dashscope.aliyuncs.com/compatible-mode/v1",
        "openai:doubao-seed-2-1-pro@https://ark.cn-beijing.volces.com/api/v3",
    ]
    listed = [price for price in prices.by_spec.values() if price.input > 0]
    assert len(listed) > 50
    for price in [*listed, *map(prices.of, defaults), *map(prices.of, families)]:
        assert price.page.startswith("https://"), price
        assert price.date is not None, price
        assert 0 < price.cached <= price.input < price.output, price
    claude = prices.of("anthropic:claude-sonnet-5")
    assert claude.cache_write == pytest.approx(1.25 * claude.input)
    assert prices.of("gemini:gemini-3-flash-preview").flex == 0.5


@pytest.mark.parametrize("dollars", [0, -1, math.nan, math.inf])
def test_a_limit_that_is_none_is_refused(dollars: float) -> None:
    with pytest.raises(InputError, match="--max-cost must be more than 0 dollars"):
        CostLimit(dollars, Prices({}))


def test_an_announced_change_counts_from_its_day_and_tables_say_from_when_prices_are() -> None:
    prices, spec = load_prices(), "gemini:gemini-4-argon"
    days = [prices.of(spec, date(2026, 11, 30)), prices.of(spec, date(2026, 12, 1))]
    assert [(each.input, each.output, each.until is None) for each in days if each] == [(2, 10, False), (4, 20, True)]
    dated = Price(1, 1, 1, date=date(2026, 5, 1), page="https://x", verified=False)
    ended = Price(1, 1, 1, date=date(2026, 6, 1), until=date(2026, 6, 2))
    assert price_notes([dated, ended, None]) == [
        "List prices of 2026-05-01 to 2026-06-01.",
        "Not verified with the provider: https://x.",
        "A price ended on 2026-06-02; check it.",
    ]
    assert add_price_notes("$1", [dated]) == "$1 (list prices of 2026-05-01; not verified with the provider: https://x)"
    unverified = {spec for spec, price in prices.by_spec.items() if not price.verified}
    assert spec + "*" in unverified
    assert all("github.com" in (prices.by_spec[each].page or "") for each in unverified)


def test_a_price_from_the_command_line_stands_in_where_there_is_none() -> None:
    prices = load_prices(otherwise=parse_price("1, 0.1, 4"))
    assert prices.of("openai:unheard-of") == Price(1.0, 0.1, 4.0)
    assert prices.of("glance") == Price(0, 0, 0)
    assert load_prices().missing(["glance", "openai:unheard-of", "openai:unheard-of"]) == ["openai:unheard-of"]
    for text in ("", "1", "1,2", "a,b,c", "1,2,-3", "1,2,inf", "1,2,3,4"):
        with pytest.raises(InputError, match="must be three numbers of at least 0"):
            parse_price(text)


@pytest.mark.parametrize(
    ("spec", "dollars"),
    [
        ("gemini:gemini-2.5-pro", 1.25),
        ("gemini:gemini-2.5-pro-preview-06-05", 1.25),
        ("gemini:gemini-2.5-flash-lite", 0.10),
        ("gemini:gemini-2.5-flash", 0.30),
        ("glance", 0),
        ("glance:64", 0),
        ("hf:Qwen/Qwen3-VL-8B", 0),
        ("openai:gpt-4o", 2.50),
        ("openai:gpt-4o@http://localhost:8000/v1", None),
        ("openai:unheard-of", None),
    ],
)
def test_the_longest_match_counts_and_an_unknown_model_has_no_price(spec: str, dollars: float | None) -> None:
    price = load_prices().of(spec)
    assert (price.input if price else None) == dollars


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = ", "not valid TOML"),
        ("x = 3", "must be a table"),
        ("[x]\ninput = 1\noutput = 1", "cached must be dollars"),
        ("[x]\ninput = -1\ncached = 0\noutput = 1", "input must be dollars"),
        ("[x]\ninput = inf\ncached = 0\noutput = 1", "input must be dollars"),
        ("[x]\ninput = true\ncached = 0\noutput = 1", "input must be dollars"),
    ],
)
def test_own_prices_come_first_and_a_wrong_one_is_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    own = tmp_path / "prices.toml"
    own.write_text('["openai:mine@http://localhost/v1"]\ninput = 1\ncached = 0\noutput = 2.5\n')
    prices = load_prices(own)
    assert prices.of("openai:mine@http://localhost/v1") == Price(1.0, 0.0, 2.5)
    assert prices.of("glance") == Price(0, 0, 0)
    own.write_text(text)
    with pytest.raises(InputError, match=sentence):
        load_prices(own)


PREDICTIONS = [
    Prediction(
        f"q{number}",
        "A",
        (1.0, 2.0),
        5,
        observations=(
            Call("look", (1.0, 2.0, 2.0), (48,) * 3, Usage(3000, 1000, 10), 1.5),
            Call("look", (1.0,), (48,), Usage(1000, 0, 10), 0.5, fault="no JSON"),
            Call("answer", (2.0,), (48,), Usage(1000, 0, 20), 2.0),
        ),
        usage=Usage(5000, 1000, 40),
        seconds=5.0,
    )
    for number in range(2)
]


def test_costs_are_split_by_stage_and_per_question() -> None:
    cost = RunCost.of("trace", PREDICTIONS, Price(1.0, 0.1, 10.0))
    counts = {stage: (spent.calls, spent.frames, spent.faults) for stage, spent in cost.by_stage.items()}
    assert counts == {"look": (4, 8, 2), "answer": (2, 2, 0)}
    assert cost.total.frames == sum(prediction.frames_supplied for prediction in PREDICTIONS)
    assert cost.dollars == pytest.approx(2 * (4000 * 1.0 + 1000 * 0.1 + 40 * 10) / 1e6)
    [section] = cost_table([cost]).sections
    assert [[cell[0].text for cell in row.cells][:6] for row in section.rows] == [
        ["2.00", "4.0", "4,000", "1,000", "20", "2.0"],
        ["1.00", "1.0", "1,000", "0", "20", "2.0"],
        ["3.00", "5.0", "5,000", "1,000", "40", "4.0"],
    ]


def test_cost_lines_can_be_grouped_by_run_method_stage_and_question() -> None:
    prices = Prices({"mine": Price(1.0, 0.1, 10.0)})
    mine = [replace(each, method="trace", backbone="mine") for each in PREDICTIONS]
    other = [replace(each, method="blind", backbone="unheard-of") for each in PREDICTIONS[:1]]
    stranger = Prediction("q0", "A", (1.0,), 1, usage=Usage(10, 0, 1), seconds=2.0)
    failed = Prediction("q1", None, error="down")
    runs = [("a", mine), ("b", other), ("c", [stranger, failed])]
    lines = cost_lines(runs, prices)
    told = [f"{line.run} {line.question_id} {line.stage}" for line in lines if line.questions == 1]
    looks = ["a q0 look", "a q0 answer", "a q1 look", "a q1 answer", "b q0 look", "b q0 answer"]
    assert told == [*looks, "c q0 not recorded"]
    assert len(lines) == 7
    by_run = cost_lines(runs, prices, by=("run",))
    grouped = [(line.run, line.questions, line.stage, line.method) for line in by_run]
    assert grouped == [("a", 2, None, None), ("b", 1, None, None), ("c", 1, None, None)]
    assert by_run[0].dollars == pytest.approx(RunCost.of("a", mine, prices.of("mine")).dollars)
    assert by_run[0].spent.cached_share == pytest.approx(0.2)
    assert (by_run[1].dollars, by_run[2].spent.seconds) == (None, 2.0)
    by_stage = cost_lines(runs, prices, by=("method", "stage"))
    (looks,) = [line for line in by_stage if (line.method, line.stage) == ("trace", "look")]
    assert (looks.questions, looks.spent.calls, looks.to_json()["cached_share"]) == (2, 4, 0.25)
    (everything,) = cost_lines(runs, prices, by=())
    assert (everything.questions, everything.spent.calls, everything.dollars) == (4, 9, None)
    assert cost_lines([("a", mine)], prices, by=("question_id",))[1].to_json() == {
        "question_id": "q1",
        "questions": 1,
        **RunCost.of("a", mine, prices.of("mine")).to_json()["by_question"]["q1"],  # type: ignore[index]  JSON
    }


def test_a_model_without_a_price_says_so() -> None:
    cost = RunCost.of("trace", PREDICTIONS, None)
    table = cost_table([cost, RunCost.of("dear", PREDICTIONS, Price(1e3, 1e2, 1e4, date=date(2026, 5, 1)))])
    assert table.sections[0].rows[0].cells[-1][0].text == "?"
    unpriced = "? marks a model without a price; give one with --price or --prices."
    assert table.note == f"In all: dear $9.00. List prices of 2026-05-01. {unpriced}"
    assert cost.to_json()["total"]["dollars"] is None  # type: ignore[index]  JSON


def item(number: int) -> Item:
    return Item(Question(f"q{number}", "v", "?", ("a", "b")), "AB"[number % 2], (Interval(0, 1),), 10.0)


def test_a_tally_counts_what_was_there_before_apart_from_the_rate() -> None:
    tally = Tally(total=10, price=Price(1.0, 0.1, 10.0))
    for number in range(4):
        tally.add(item(number), Prediction(f"q{number}", "A"))
    assert tally.cells() == ("4/10", "0", "", "$0.00", "50.0%", "")
    tally.add_now(item(4), Prediction("q4", "A", seconds=10.0), elapsed=10.0)
    tally.add_now(item(5), Prediction("q5", None, seconds=10.0, error="down"), elapsed=20.0)
    assert tally.cells() == ("6/10", "1", "6.0/min", "$0.00", "50.0%", "40 s")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (61, "1 min 01 s"), (3600, "1 h 00 min"), (7500, "2 h 05 min")]
)
def test_durations_as_people_say_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_the_table_shows_every_job_and_plain_output_a_line_when_it_is_done() -> None:
    job, other, out = Job("trace", "glance"), Job("blind", "openai:gpt-4o"), io.StringIO()
    console = Console(file=out, force_terminal=False, width=120)
    with RunTable(load_prices(), console) as table:
        retried = {other: [Prediction("q0", None, usage=Usage(1_000_000), error="down")]}
        table.begin(Plan((item(0), item(1)), (job, other), {job: {}, other: {"q0": Prediction("q0", "A")}}, retried))
        table.finished(job, item(0), Prediction("q0", "A"))
        assert out.getvalue() == ""
        table.finished(job, item(1), Prediction("q1", "A"))
        console.print(table)
    assert "trace@glance: Done 2/2" in out.getvalue()
    assert "Acc so far 50.0%" in out.getvalue()
    rows = [line.split() for line in out.getvalue().splitlines() if line.strip()]
    assert rows[-1] == ["List", "prices", "of", "2026-08-05."]
    assert rows[-2] == ["blind@openai-gpt-4o", "1/2", "0", "$2.50", "100.0%"]
