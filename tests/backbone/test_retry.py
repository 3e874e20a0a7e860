"""The rules of waiting."""

from __future__ import annotations

import email.utils
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.backbone.provider import ServiceError
from trace_ves.backbone.retry import RetryPolicy, is_retryable, retry_after_seconds


@pytest.mark.parametrize(
    ("status", "passes"),
    [(None, True), (408, True), (429, True), (500, True), (529, True), (400, False), (401, False), (404, False)],
)
def test_what_may_pass(status: int | None, passes: bool) -> None:
    assert is_retryable(ServiceError(status, "")) is passes
    assert is_retryable(ServiceError(status, "", permanent=True)) is False


@given(st.integers(0, 10_000), st.floats(0, 1), st.none() | st.floats(0, 1e6))
def test_waits_double_up_to_a_limit_and_are_as_long_as_asked(attempt: int, jitter: float, asked: float | None) -> None:
    policy = RetryPolicy(first_wait_seconds=1.0, longest_wait_seconds=60.0)
    wait = policy.wait_seconds(ServiceError(429, "", retry_after_seconds=asked), attempt, jitter)
    assert wait >= max(asked or 0.0, min(60.0, 2.0**attempt if attempt < 10 else 60.0) / 2)
    assert wait <= max(60.0, (asked or 0.0) + 0.5)


def test_waits_grow_as_stated() -> None:
    policy = RetryPolicy(first_wait_seconds=1.0, longest_wait_seconds=60.0)
    refused = ServiceError(503, "")
    assert [policy.wait_seconds(refused, attempt, 1.0) for attempt in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [policy.wait_seconds(refused, attempt, 0.0) for attempt in range(4)] == [0.5, 1, 2, 4]
    asked = ServiceError(429, "", retry_after_seconds=10.0)
    assert policy.wait_seconds(asked, 0, 0.0) == 10.0
    assert policy.wait_seconds(asked, 0, 1.0) == 10.5  # those that were told the same do not come back at once
    assert policy.wait_seconds(asked, 5, 1.0) == 32.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_how_long_a_response_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers) == seconds


def test_a_date_to_wait_for() -> None:
    date = email.utils.formatdate(time.time() + 100, usegmt=True)
    assert retry_after_seconds({"retry-after": date}) == pytest.approx(100, abs=5)
