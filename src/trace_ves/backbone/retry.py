"""When to ask a service again, and what to say when there is no use in it. Pure rules; knows no SDK and no clock."""

from __future__ import annotations

import email.utils
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.provider import ServiceFailure, cut

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_QUOTE: Final = 300
_MAY_PASS: Final = frozenset({408, 409, 425, 429})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request may take, all attempts together, and how long to wait between them."""

    attempt_seconds: float = 180.0
    """The longest a single attempt may take."""
    deadline_seconds: float = 600.0
    """The longest a request may take: attempts, waits and a repair."""
    unreached_attempts: int = 4
    """How often a service is tried that nobody has reached yet: a wrong address should not cost ten minutes."""
    first_wait_seconds: float = 1.0
    longest_wait_seconds: float = 60.0

    def wait_seconds(self, failure: ServiceFailure, attempt: int, luck: float) -> float:
        """How long to wait after the failed attempt with this number, from 0.

        Doubled each time, and never shorter than the service asks for; `luck` in [0, 1] spreads requests that failed
        together.
        """
        doubled = min(self.longest_wait_seconds, self.first_wait_seconds * 2.0 ** min(attempt, 30))
        return max(
            doubled * (0.5 + luck / 2), (failure.retry_after_seconds or 0.0) + luck * self.first_wait_seconds / 2
        )


def may_pass(failure: ServiceFailure) -> bool:
    """Whether the same call may succeed later: no response, too many requests, or trouble on the service's side."""
    if failure.permanent:
        return False
    return failure.status is None or failure.status in _MAY_PASS or failure.status >= 500


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """How long a response asks to wait: milliseconds, seconds or a date; None where it does not say, or nonsense."""
    for header, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(header)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
            except (ValueError, OverflowError):
                continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def sentence(name: str, failure: ServiceFailure, *, key_hint: str) -> str:
    """Why a call cannot succeed, and what to do about it."""
    said = f": {cut(failure.message, _LONGEST_QUOTE)}" if failure.message else ""
    if failure.status in {401, 403}:
        return f"{name}: the service refused the credentials (HTTP {failure.status}); check {key_hint}."
    if failure.status == 404:
        return f"{name}: the service knows no such model or address (HTTP 404){said}"
    if failure.status is None:
        return f"{name}: the service could not be used{said}"
    return f"{name}: the service refused the request (HTTP {failure.status}){said}"


def not_there(name: str, failure: ServiceFailure, *, attempts: int) -> str:
    """Why a service is given up that has never been reached."""
    return f"{name}: nobody answers there after {attempts} attempts ({failure.message}); is the server running?"


def out_of_time(name: str, failure: ServiceFailure, *, attempts: int, deadline_seconds: float) -> str:
    """Why a request was given up that might have succeeded later."""
    status = f"HTTP {failure.status}" if failure.status is not None else "no response"
    said = f", {cut(failure.message, _LONGEST_QUOTE)}" if failure.message else ""
    tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    return f"{name}: no answer within {deadline_seconds:g} s after {tries}; the last one met {status}{said}"
