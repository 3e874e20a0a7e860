"""Requests to a service: attempts until a deadline, shared rate limiting, and features that a service may refuse."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.model_settings import ReplyFormat, ServiceTier, Thinking
from trace_ves.backbone.provider import Completion, CompletionRequest, Provider, ServiceError
from trace_ves.backbone.retry import NOTICES, SLOW_SECONDS, Announcer, RetryPolicy, is_retryable, refusal_message
from trace_ves.core import BackboneError
from trace_ves.records import Usage

if TYPE_CHECKING:
    from trace_ves.backbone.registry import BackboneOptions

_JITTER: Final = random.SystemRandom()
_GRACE_SECONDS: Final = 1.0
_FLEX_ATTEMPTS: Final = 3  # In the tier `flex`, before the standard tier is used
_QUOTA_SECONDS: Final = 60.0  # Providers count requests per minute
_REFUSALS: Final = frozenset({400, 422})
_NOTICES: Final = {  # Logged if the service refuses a feature that the user has requested
    "thinking_off": "the model cannot turn thinking off ({}); the lowest level is used.",
    "flex": "the service refuses the tier flex; the standard tier is used.",
}


class Slots:
    """Limits how many requests are in flight and, after a rate limit, how fast they start. Thread-safe.

    A rate limit pauses all requests. They then start at the rate that the service accepted before, and slowly faster.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._starts: deque[float] = deque()  # Of the last minute; all times are those of `time.monotonic`
        self._next = self._paused = 0.0  # When the next request may start; when the last pause ends
        self._gap = 0.0  # Seconds between two starts
        self._window, self._accepted = 0.0, 0  # Before the last pause: seconds, and accepted requests
        self._changed = threading.Condition()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Wait for a slot and hold it within the block."""
        self._acquire()
        try:
            yield
        finally:
            self._release()

    @contextmanager
    def lend(self) -> Iterator[None]:
        """Release the slot within the block, and wait for one at its end."""
        self._release()
        try:
            yield
        finally:
            self._acquire()

    def _acquire(self) -> None:
        with self._changed:
            while (seconds := self._next - time.monotonic()) > 0 or not self._free:
                self._changed.wait(max(seconds, 0.0) or None)
            self._free -= 1
            now = time.monotonic()
            self._next = now + self._gap
            self._starts.append(now)
            while self._starts[0] < now - _QUOTA_SECONDS:
                self._starts.popleft()

    def _release(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def slow_down(self, start: float, seconds: float) -> None:
        """Pause after a rate limit. A request that started before the last pause only lowers the rate."""
        with self._changed:
            now = time.monotonic()
            if start >= self._paused:
                first = self._starts[0] if self._starts else now
                self._window, self._accepted = now - first + seconds, len(self._starts)
                self._paused = self._next = now + seconds
                self._starts.clear()
            self._accepted -= 1
            self._gap = self._window / max(1, self._accepted)

    def speed_up(self) -> None:
        """Start requests a little faster after a success."""
        with self._changed:
            self._gap *= 0.95


@dataclass(slots=True)
class Exchange:
    """The attempts of one request: their deadline, tokens and service tiers."""

    deadline: float
    stop: threading.Event
    usage: Usage = Usage()
    tiers: set[ServiceTier] = field(default_factory=set)


class Attempts:
    """Sends requests to one provider until it answers, fails permanently, or the deadline passes. Thread-safe."""

    def __init__(self, provider: Provider, options: BackboneOptions, retry: RetryPolicy, slots: Slots) -> None:
        self._provider = provider
        self._requested = options.model.non_defaults  # It is an error if the service refuses one of these
        self._retry = retry
        self.slots = slots
        self.announcer = Announcer(provider.name)
        unused = {"schema"} if options.model.reply_format is ReplyFormat.WORDS else set()
        unused |= {"thinking_off"} if options.model.thinking is not Thinking.NONE else set()
        unused |= {"flex"} if options.service_tier is not ServiceTier.FLEX else set()
        self._features = frozenset(provider.optional) - unused
        self._stages_in_words: set[str] = set()  # The service refused their schemas
        self._reached = False  # Whether the service has ever responded
        self._abandoned: list[Future[Completion]] = []  # Attempts that timed out and are still running

    def features_of(self, stage: str) -> frozenset[str]:
        """The optional features that requests of a stage use."""
        return self._features - ({"schema"} if stage in self._stages_in_words else set())

    def begin(self, call: CompletionRequest, stop: threading.Event) -> Exchange:
        """Start a new request."""
        return Exchange(time.monotonic() + self._policy(call).deadline_seconds, stop)

    def complete(self, call: CompletionRequest, exchange: Exchange) -> Completion:
        """Make attempts until one succeeds. Raises `BackboneError`. The exchange has the tokens of all attempts."""
        failed_attempts = 0
        while True:
            features = self.features_of(call.stage)
            if call.service_tier is ServiceTier.FLEX and "flex" not in features:
                call = replace(call, service_tier=ServiceTier.STANDARD)
            start = time.monotonic()
            try:
                completion = self._attempt(call, features, exchange.deadline)
            except ServiceError as failure:
                exchange.usage += failure.usage
                if failure.attempt is not None:
                    self._abandoned.append(failure.attempt)
                if self._drop_feature(failure, features, call.stage):
                    continue
                failed_attempts += 1
                is_flex = call.service_tier is ServiceTier.FLEX
                if is_flex and is_retryable(failure) and failed_attempts >= _FLEX_ATTEMPTS:
                    call = replace(call, service_tier=ServiceTier.STANDARD)  # flex has no capacity
                    continue
                self._wait_for_retry(failure, failed_attempts, start, exchange, self._policy(call))
            else:
                self.slots.speed_up()
                exchange.usage += completion.usage
                exchange.tiers.add(completion.service_tier)
                return completion

    def claim_late_usage(self) -> Usage:
        """The tokens of abandoned attempts that have ended since the last call."""
        usage = Usage()
        for attempt in [each for each in list(self._abandoned) if each.done()]:
            try:
                self._abandoned.remove(attempt)
            except ValueError:  # another thread has counted it
                continue
            error = attempt.exception()
            usage += attempt.result().usage if error is None else getattr(error, "usage", Usage())
        return usage

    def _policy(self, call: CompletionRequest) -> RetryPolicy:
        return self._retry if call.service_tier is ServiceTier.STANDARD else self._retry.for_flex

    def _attempt(self, call: CompletionRequest, features: frozenset[str], deadline: float) -> Completion:
        if call.thinking is Thinking.NONE and "thinking_off" not in features:
            call = replace(call, thinking=Thinking.LOW)
        timeout_seconds = min(self._policy(call).attempt_seconds, max(deadline - time.monotonic(), 0.001))
        send = partial(self._provider.complete, call, features=features, timeout_seconds=timeout_seconds)
        completion = _run_within(send, timeout_seconds + _GRACE_SECONDS, self.announcer)
        self._reached = True
        return completion

    def _wait_for_retry(
        self, failure: ServiceError, failed_attempts: int, start: float, exchange: Exchange, policy: RetryPolicy
    ) -> None:
        """Wait as the retry policy says, then for a slot. Raises `BackboneError` if a retry cannot succeed in time."""
        name = self._provider.name
        self._reached = self._reached or not failure.unreachable
        if not self._reached and failed_attempts >= policy.unreached_attempts:
            attempts = f"{failed_attempts} attempts ({failure.message})"
            raise BackboneError(
                f"{name}: no connection after {attempts}; is the server running? Check its address."
            ) from None
        if not is_retryable(failure):
            raise BackboneError(refusal_message(name, failure, key_hint=self._provider.key_hint)) from None
        wait_seconds = policy.wait_seconds(failure, failed_attempts - 1, _JITTER.random())
        gives_up = time.monotonic() + wait_seconds >= exchange.deadline
        if not gives_up:
            if failure.status == HTTPStatus.TOO_MANY_REQUESTS:
                self.slots.slow_down(start, failure.retry_after_seconds or policy.first_wait_seconds)
            with self.announcer.waits(failure.summary, wait_seconds), self.slots.lend():
                gives_up = exchange.stop.wait(wait_seconds)
                wait_end = time.monotonic()
            exchange.deadline += time.monotonic() - wait_end  # the time in the queue for a slot does not count
        if gives_up:
            attempts = "1 attempt" if failed_attempts == 1 else f"{failed_attempts} attempts"
            raise BackboneError(
                f"{name}: no answer within {policy.deadline_seconds:g} s after {attempts}; the last ended with "
                f"{failure.summary.rstrip('.')}."
            ) from None

    def _drop_feature(self, failure: ServiceError, features: frozenset[str], stage: str) -> bool:
        """Stop using the optional feature that the service refused; False if it refused something else."""
        if failure.status not in _REFUSALS:
            return False
        for feature, refusal in self._provider.optional.items():
            if feature not in features or feature in self._requested:
                continue
            if re.search(refusal, failure.message, re.IGNORECASE):
                name = self._provider.name
                if feature in _NOTICES and feature in self._features:
                    NOTICES.warning("%s: %s", name, _NOTICES[feature].format(failure.summary))
                if feature != "schema":
                    self._features -= {feature}
                elif stage not in self._stages_in_words:  # the other stages keep their schemas
                    self._stages_in_words.add(stage)
                    notice = f"the service refused the reply schema of the stage {stage} ({failure.summary})"
                    NOTICES.warning("%s: %s; the prompt states it instead.", name, notice)
                return True
        return False


def _run_within(call: Callable[[], Completion], seconds: float, announcer: Announcer) -> Completion:
    """Make the call in a thread. After this many seconds, abandon the thread and raise `ServiceError`."""
    # The timeout of an SDK limits only the time between two bytes.
    future: Future[Completion] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001  raised in the waiting thread
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    wait([future], min(seconds, SLOW_SECONDS))
    try:
        if future.done() or seconds <= SLOW_SECONDS:
            return future.result(0)
        remaining = seconds - SLOW_SECONDS
        with announcer.waits(f"no response for {SLOW_SECONDS:g} s", remaining, then="giving this attempt up"):
            return future.result(remaining)
    except TimeoutError:
        if future.done():
            raise
        raise ServiceError(None, f"no complete response within {seconds:g} s", attempt=future) from None
