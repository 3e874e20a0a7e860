"""Which failures are retried, how many requests start and when, how long to wait, and what is shown meanwhile."""

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from tests.fakes import ScriptedProvider, make_request, quick_backbone

from trace_ves.backbone import attempts, retry
from trace_ves.backbone.attempts import Attempts, Slots
from trace_ves.backbone.provider import Completion, CompletionRequest, ServiceError
from trace_ves.backbone.registry import BackboneOptions
from trace_ves.backbone.retry import (
    Announcer,
    RetryPolicy,
    WaitingNotices,
    is_retryable,
    refusal_message,
    retry_after_seconds,
)
from trace_ves.core import BackboneError


def test_what_may_pass() -> None:
    for status in (None, 408, 409, 425, 429, 500, 529, 400, 401, 404, 410, 426, 499):
        failure = ServiceError(status, "You exceeded your quota, check your billing details. limit: 15")
        assert is_retryable(failure) is (status not in {400, 401, 404, 410, 426, 499}), status
        assert is_retryable(replace(failure, permanent=True)) is False


def test_waits_grow_as_stated() -> None:
    policy = RetryPolicy(first_wait_seconds=1.0, longest_wait_seconds=60.0)
    refused = ServiceError(503, "")
    assert [policy.wait_seconds(refused, attempt, 1.0) for attempt in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [policy.wait_seconds(refused, attempt, 0.0) for attempt in range(4)] == [0.5, 1, 2, 4]
    asked = ServiceError(429, "", retry_after_seconds=10.0)
    assert policy.wait_seconds(asked, 0, 0.0) == 10.0
    assert policy.wait_seconds(asked, 0, 1.0) == 10.5  # those that were told the same do not come back at once
    assert policy.wait_seconds(asked, 5, 1.0) == 32.0


def test_how_long_a_response_asks_to_wait() -> None:
    for stated, seconds in (("7", 7.0), ("0.5", 0.5), ("0", 0.0)):
        assert retry_after_seconds({"retry-after": stated}) == seconds
    assert retry_after_seconds({"retry-after-ms": "250", "retry-after": "7"}) == 0.25
    for unclear in ({}, *({"retry-after": stated} for stated in ("soon", "-3", "nan", "inf"))):
        assert retry_after_seconds(unclear) is None


SMALLER = "use fewer or smaller frames."


@pytest.mark.parametrize(
    ("status", "message", "sentence"),
    [
        (None, "no.", "m: the service cannot be used: no."),
        (401, "no", "m: the service refused the key (HTTP 401): no; check KEY."),
        (403, "", "m: the service denied access (HTTP 403); check KEY."),
        (404, "no", "m: the service does not know this model or address (HTTP 404): no."),
        (399, "x", "m: the server redirects to another address (HTTP 399): x; use the final address."),
        (400, "x" * 300, f"m: the service refused the request (HTTP 400): {'x' * 300}."),
        (402, "x" * 301, f"m: the service refused the request (HTTP 402): {'x' * 300}…."),
        (405, "no", "m: the service refused the request (HTTP 405): no."),
        (413, "", f"m: the service refused the request (HTTP 413); {SMALLER}"),
        (400, "context size", f"m: the service refused the request (HTTP 400): context size; {SMALLER}"),
        (414, "no", "m: the service refused the request (HTTP 414): no."),
    ],
)
def test_why_a_call_failed_for_good(status: int | None, message: str, sentence: str) -> None:
    assert refusal_message("m", ServiceError(status, message), key_hint="KEY") == sentence


def test_what_nobody_has_chosen() -> None:
    assert (RetryPolicy(), retry.SHORTEST_SECONDS, retry.SLOW_SECONDS) == (RetryPolicy(180, 600, 4, 1, 60), 1, 20)
    assert RetryPolicy.of(BackboneOptions()) == RetryPolicy()
    assert RetryPolicy().wait_seconds(ServiceError(503, ""), 10**9, 1.0) == 60.0


def test_of_many_waits_one_is_told_in_ten_seconds_with_how_many_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(retry, "time", SimpleNamespace(monotonic=lambda: clock.now))
    announcer = Announcer("[m]")  # no markup for a screen

    def wait(at: float, seconds: float) -> list[str]:
        caplog.clear()
        clock.now = at
        with announcer.waits("HTTP 503", seconds):
            pass
        return caplog.messages

    assert wait(0.0, 0.99) == []
    assert wait(0.0, 1.0) == ["[m]: HTTP 503; trying again in 1 s."]
    assert wait(0.99, 30.0) == []
    with announcer.waits("", 0.0), announcer.waits("", 0.0):
        assert wait(1.0, 30.0) == ["[m]: HTTP 503; trying again in 30 s, 3 requests waiting."]
    assert wait(10.99, 30.0) == []
    with announcer.waits("", 0.0):
        assert wait(11.0, 30.0) == ["[m]: HTTP 503; trying again in 30 s, 2 requests waiting."]
    assert wait(21.0, 30.0) == ["[m]: HTTP 503; trying again in 30 s."]
    with WaitingNotices() as notices:
        assert wait(40.0, 30.0) == []  # a screen shows it instead
        assert notices.lines() == ["[m]: HTTP 503; trying again in 30 s"]
        clock.now = 69.9
        shown = notices.__rich__()
        assert (shown.plain, shown.style) == ("  [m]: HTTP 503; trying again in 0 s", "yellow")
        clock.now = 70.0
        assert notices.lines() == []
    assert wait(90.0, 30.0) == ["[m]: HTTP 503; trying again in 30 s."]
    assert notices.lines() == []  # once left, it collects nothing


def test_a_warning_is_told_once_whatever_its_numbers(caplog: pytest.LogCaptureFixture) -> None:
    announcer = Announcer("m")
    for sentence in ("1,234 of 5 dropped.", "7 of 12 dropped.", "Another."):
        announcer.warn_once(sentence)
    assert caplog.messages == ["1,234 of 5 dropped.", "Another."]


GOOD = Completion(json.dumps({"colour": "red"}))


@pytest.mark.parametrize(("status", "words"), [(429, "HTTP 429, rate limit: busy"), (503, "HTTP 503: busy")])
def test_a_wait_for_the_next_attempt_is_a_log_line_with_its_seconds(
    status: int, words: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "SHORTEST_SECONDS", 0.1)
    failure = ServiceError(status, "busy", retry_after_seconds=0.2)
    quick_backbone(ScriptedProvider(failure, GOOD)).generate([make_request()])
    assert caplog.messages == [f"scripted:m: {words}; trying again in 0 s."]


def test_a_slow_response_is_told_while_it_is_awaited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(attempts, "SLOW_SECONDS", 0.6)
    told = threading.Event()
    monkeypatch.setattr(caplog.handler, "emit", lambda record: (caplog.records.append(record), told.set()))

    class Slow(ScriptedProvider):
        def complete(self, *_: Any, **__: Any) -> Completion:
            assert told.wait(20)
            assert threading.current_thread().daemon  # so that nothing waits for it when the program ends
            return GOOD

    quick_backbone(Slow()).generate([make_request()])
    (record,) = caplog.records
    assert record.getMessage() == "scripted:m: no response for 0.6 s; giving this attempt up in 10 s."


def test_the_table_of_a_run_shows_what_is_waited_for() -> None:
    from trace_ves.cli.run_table import RunTable
    from trace_ves.runs.prices import load_prices
    from trace_ves.runs.run import Plan

    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with RunTable(load_prices(), console) as table:
        table.begin(Plan((), (), {}))
        with Announcer("openai:m").waits("HTTP 429, rate limit", 90.0):
            table.print("a line, with which the table is drawn again")
    assert "openai:m: HTTP 429, rate limit; trying again in" in console.file.getvalue()  # type: ignore[attr-defined]


# --- how many requests start, and when: with a clock of our own, so that nothing is waited for ---


class Clock:
    """Time passes only in waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float | None = None) -> bool:
        assert seconds is not None, "this wait would never end"
        self.now += seconds
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(attempts, "time", SimpleNamespace(monotonic=made.monotonic))
    return made


@pytest.fixture
def slots(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Slots:
    made = Slots(1)
    monkeypatch.setattr(made._changed, "wait", clock.wait)
    return made


def starts(slots: Slots, clock: Clock, count: int) -> list[float]:
    """When so many requests start that each take no time, in seconds after 1000."""
    found = []
    for _ in range(count):
        with slots.hold():
            found.append(round(clock.now - 1000.0, 6))
    return found


def test_without_a_rate_limit_nobody_waits_and_each_slot_is_given_back(slots: Slots, clock: Clock) -> None:
    assert starts(slots, clock, 3) == [0, 0, 0]
    with slots.hold():
        with slots.lend(), slots.hold():
            pass
        with pytest.raises(AssertionError, match="this wait would never end"):
            slots._acquire()
    assert clock.now == 1000.0


def test_after_a_rate_limit_requests_start_at_the_rate_that_was_accepted_and_then_faster(
    slots: Slots, clock: Clock
) -> None:
    starts(slots, clock, 4)
    clock.now += 10
    with slots.hold():
        slots.slow_down(clock.now, 20.0)  # in 30 s, 5 requests of which 4 were accepted: one in 7.5 s
    assert starts(slots, clock, 3) == [30, 37.5, 45]
    slots.speed_up()
    assert starts(slots, clock, 3) == [52.5, 59.625, 66.75]  # 7.125 s


def test_requests_sent_before_the_pause_only_correct_its_rate(slots: Slots, clock: Clock) -> None:
    starts(slots, clock, 4)
    slots.slow_down(clock.now, 12.0)  # 3 of 4 accepted
    slots.slow_down(clock.now + 11.9, 99.0)  # 2 of 4
    assert starts(slots, clock, 2) == [12, 18]
    for _ in range(3):
        slots.slow_down(1000.0, 99.0)  # none: one in 12 s, not less
    assert starts(slots, clock, 2) == [24, 36]
    slots.slow_down(1012.0, 5.0)  # sent after the pause: one of its own, after 4 starts in 29 s
    assert starts(slots, clock, 2) == [41, 50.666667]


def test_only_the_starts_of_the_last_minute_count(slots: Slots, clock: Clock) -> None:
    for seconds in (0.0, 1.0, 60.0):
        clock.now = 1000.0 + seconds
        starts(slots, clock, 1)
    assert list(slots._starts) == [1000.0, 1001.0, 1060.0]
    clock.now = 1060.5
    starts(slots, clock, 1)
    assert list(slots._starts) == [1001.0, 1060.0, 1060.5]


def test_a_pause_without_any_start_is_as_long_as_asked(slots: Slots, clock: Clock) -> None:
    slots.slow_down(clock.now, 3.0)
    assert starts(slots, clock, 2) == [3, 6]


def test_an_attempt_ends_at_the_deadline_and_time_in_the_queue_for_a_slot_does_not_count(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Queue(Slots):
        @contextmanager
        def lend(self) -> Iterator[None]:
            yield
            clock.now += 50

    class Timed(ScriptedProvider):
        def complete(self, *_: Any, timeout_seconds: float, **__: Any) -> Completion:
            timeouts.append(timeout_seconds)
            return GOOD

    timeouts: list[float] = []
    waits: list[float] = []
    monkeypatch.setattr(attempts, "_run_within", lambda send, seconds, _: (waits.append(seconds), send())[1])
    policy = RetryPolicy(10.0, 20.0, first_wait_seconds=0.0)
    tried = Attempts(Timed(), BackboneOptions(), policy, Queue(1))
    for deadline in (900.0, 1005.5, 2000.0):
        tried._attempt(CompletionRequest((), {}), frozenset(), deadline)
    assert (timeouts, waits) == ([0.001, 5.5, 10.0], [1.001, 6.5, 11.0])  # the thread gets a second more
    exchange = tried.begin(CompletionRequest((), {}), threading.Event())
    assert exchange.deadline == 1020
    tried._wait_for_retry(ServiceError(503, "busy"), 1, 0.0, exchange, policy)
    assert exchange.deadline == 1070


def test_what_is_said_when_a_request_is_given_up() -> None:
    provider = ScriptedProvider(ServiceError(503, "busy"), ServiceError(503, "busy.", retry_after_seconds=99.0))
    with pytest.raises(BackboneError) as caught:
        quick_backbone(provider).generate([make_request()])
    sentence = "scripted:m: no answer within 20 s after 2 attempts; the last ended with HTTP 503: busy."
    assert (str(caught.value), provider.calls) == (sentence, 2)


@pytest.mark.parametrize("first", [GOOD, ServiceError(503, "busy")])
def test_one_that_answered_once_is_waited_for(first: Completion | ServiceError) -> None:
    gone = ServiceError(None, "gone", unreachable=True)
    provider = ScriptedProvider(first, *[gone] * 6, GOOD)  # never reached, it would get four
    backbone = quick_backbone(provider)
    replies = [backbone.generate([make_request()])[0].reply.colour for _ in range(2)]
    assert (replies, provider.calls) == (["red", "red"], 8 if isinstance(first, Completion) else 9)
