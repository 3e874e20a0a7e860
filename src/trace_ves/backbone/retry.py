"""The retry policy: which failures are retried, how long to wait, and the messages about them."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from trace_ves.backbone.model_settings import Thinking
from trace_ves.backbone.provider import ServiceError, truncate

if TYPE_CHECKING:
    from rich.text import Text

    from trace_ves.backbone.registry import BackboneOptions

ATTEMPT_SECONDS: Final = 180.0
SLOW_ATTEMPT_SECONDS: Final = 600.0
FLEX_SECONDS: Final = 900.0
DEADLINE_SECONDS: Final = 600.0
_LONGEST_QUOTE: Final = 300
_RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429})
PERMANENT_CAUSES: Final = {  # Messages about calls that never succeed; services send them with any status
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "unsupported input": r"image input is not supported|mmproj|not support (?:image|vision|multimodal)|"
        r"support image input|not a (?:multimodal|vision) model",
        "too large": r"request (?:is )?too large|payload size exceeds|prompt is too long|maximum context length|"
        r"context (?:size|window)|context_length_exceeded",
        "no quota": r"\blimit:? 0\b|\bper day\b|PerDay|\((?:RPD|TPD)\)",
        "no credit": r"insufficient[ _](?:quota|credits?|funds|balance)|credit balance",
    }.items()
}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long one attempt and a whole request may take, and how long to wait between attempts."""

    attempt_seconds: float = ATTEMPT_SECONDS  # Timeout of one attempt
    deadline_seconds: float = DEADLINE_SECONDS  # Timeout of a request: attempts, waits and a repair
    unreached_attempts: int = 4  # Attempts at a service that never responded, as with a wrong address
    first_wait_seconds: float = 1.0
    longest_wait_seconds: float = 60.0

    @classmethod
    def of(cls, options: BackboneOptions, *, is_local: bool = False) -> RetryPolicy:
        """The policy for these options; self-hosted servers and long thinking get more time."""
        is_slow = is_local or options.model.thinking is Thinking.HIGH
        return cls()._with_timeout(options.timeout_seconds or (SLOW_ATTEMPT_SECONDS if is_slow else ATTEMPT_SECONDS))

    @property
    def for_flex(self) -> RetryPolicy:
        """The policy for the tier `flex`, where a response may take 15 minutes."""
        return self._with_timeout(max(self.attempt_seconds, FLEX_SECONDS))

    def _with_timeout(self, seconds: float) -> RetryPolicy:
        """The policy with this timeout for an attempt, and time for three of them."""
        return replace(self, attempt_seconds=seconds, deadline_seconds=max(DEADLINE_SECONDS, 3 * seconds))

    def wait_seconds(self, failure: ServiceError, attempt: int, jitter: float) -> float:
        """Seconds to wait after the failed attempt with this number, from 0; they double each time.

        `jitter` in [0, 1] spreads requests that failed together.
        """
        backoff = min(self.longest_wait_seconds, self.first_wait_seconds * 2.0 ** min(attempt, 30)) * (0.5 + jitter / 2)
        return max(backoff, (failure.retry_after_seconds or 0.0) + jitter * self.first_wait_seconds / 2)


def is_retryable(failure: ServiceError) -> bool:
    """Whether the same call may succeed later: no response, a rate limit, or an error of the service."""
    if failure.permanent or any(cause.search(failure.message) for cause in PERMANENT_CAUSES.values()):
        return False
    return failure.status is None or failure.status in _RETRYABLE_STATUSES or failure.status >= 500


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """The seconds that a response asks to wait; None if its headers have no valid number."""
    for header, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            seconds = float(headers[header]) * unit
            if 0 <= seconds < float("inf"):
                return seconds
    return None


def refusal_message(name: str, failure: ServiceError, *, key_hint: str) -> str:
    """The error message for a permanent failure, with advice."""
    status = failure.status
    quote = f": {truncate(failure.message, _LONGEST_QUOTE).rstrip('.')}" if failure.message else ""
    if status is None:
        return f"{name}: the service cannot be used{quote}."
    if status in {401, 403}:
        problem = "refused the key" if status == 401 else "denied access"
        return f"{name}: the service {problem} (HTTP {status}){quote}; check {key_hint}."
    if status == 404:
        return f"{name}: the service does not know this model or address (HTTP 404){quote}."
    if status < 400:
        return f"{name}: the server redirects to another address (HTTP {status}){quote}; use the final address."
    is_large = status == 413 or PERMANENT_CAUSES["too large"].search(failure.message)
    advice = "; use fewer or smaller frames" if is_large else ""
    return f"{name}: the service refused the request (HTTP {status}){quote}{advice}."


NOTICES: Final = logging.getLogger(__name__)
SHORTEST_SECONDS: Final = 1.0  # Shorter waits are not announced
SLOW_SECONDS: Final = 20.0  # A response that takes longer is announced as slow
_QUIET_SECONDS: Final = 10.0  # At least this long between two notices of a backbone: rate limits affect many requests


@dataclass(frozen=True, slots=True)
class Notice:
    """Why a request waits, and until when."""

    backbone: str
    reason: str  # For example `HTTP 429, rate limit`
    then: str  # What happens at the end of the wait: `trying again` or `giving this attempt up`
    until: float  # A time of `time.monotonic`
    waiting: int  # The number of waiting requests of this backbone

    def sentence(self, now: float) -> str:
        """One line with the remaining seconds."""
        others = f", {self.waiting} requests waiting" if self.waiting > 1 else ""
        return f"{self.backbone}: {self.reason}; {self.then} in {max(0.0, self.until - now):.0f} s{others}"


class Announcer:
    """Logs why the requests of one backbone wait, without repetitions. Thread-safe."""

    def __init__(self, backbone: str) -> None:
        self._backbone = backbone
        self._lock = threading.Lock()
        self._waiting = 0
        self._quiet_until = 0.0
        self._warned: set[str] = set()

    def warn_once(self, sentence: str) -> None:
        """Log a sentence, unless one that differs only in its numbers was logged."""
        if (kind := re.sub(r"[\d,]+", "", sentence)) not in self._warned:
            self._warned.add(kind)
            NOTICES.warning("%s", sentence)

    @contextmanager
    def waits(self, reason: str, seconds: float, *, then: str = "trying again") -> Iterator[None]:
        """A context in which one request waits. Logs the wait unless it is short or another was just logged."""
        now = time.monotonic()
        with self._lock:
            self._waiting += 1
            announces = seconds >= SHORTEST_SECONDS and now >= self._quiet_until
            if announces:
                self._quiet_until = now + min(seconds, _QUIET_SECONDS)
            notice = Notice(self._backbone, reason, then, now + seconds, self._waiting)
        try:
            if announces:
                NOTICES.warning("%s.", notice.sentence(now), extra={"notice": notice})
            yield
        finally:
            with self._lock:
                self._waiting -= 1


class WaitingNotices(logging.Handler):
    """A context that collects notices for a live screen instead of printing them."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: dict[str, Notice] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the newest notice of each backbone."""
        notice: Notice | None = getattr(record, "notice", None)
        if notice is not None:
            self._newest[notice.backbone] = notice

    def lines(self) -> list[str]:
        """One line for each waiting backbone."""
        now = time.monotonic()
        return [notice.sentence(now) for notice in list(self._newest.values()) if notice.until > now]

    def __rich__(self) -> Text:
        """The lines; a live screen draws them again at each refresh, so that the seconds count down."""
        from rich.text import Text  # only a live screen needs it

        return Text("\n".join(f"  {line}" for line in self.lines()), style="yellow")

    def __enter__(self) -> Self:
        NOTICES.addHandler(self)
        NOTICES.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        NOTICES.removeHandler(self)
        NOTICES.propagate = True
