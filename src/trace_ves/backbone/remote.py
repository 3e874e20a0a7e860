"""A backbone behind an API: concurrency inside a batch, retries with a deadline, features a service may refuse.

A request that fails for good raises a `BackboneError`, after the rest of the batch is answered.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import threading
import time
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.frame_tokens import frame_tokens, text_tokens
from trace_ves.backbone.model_settings import ModelSettings, ReplyFormat, ServiceTier, Thinking
from trace_ves.backbone.prompt_caches import MOST_ENDS, PrefixCache, SendOrder, Step, plan
from trace_ves.backbone.protocol import Generation, ModelFault, R
from trace_ves.backbone.provider import (
    Completion,
    CompletionRequest,
    ImagePart,
    Provider,
    RepairTurn,
    ServiceError,
    TextPart,
    payload_bytes,
    request_parts,
    sampling_seed,
)
from trace_ves.backbone.replies import complete_with_repair, reply_schema
from trace_ves.backbone.retry import (
    NOTICES,
    SLOW_SECONDS,
    Announcer,
    RetryPolicy,
    deadline_message,
    is_retryable,
    refusal_message,
)
from trace_ves.core import BackboneConfigError, BackboneError
from trace_ves.core.threads import run_in_daemons
from trace_ves.records import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trace_ves.backbone.protocol import Request
    from trace_ves.backbone.provider import Part
    from trace_ves.backbone.registry import BackboneOptions
    from trace_ves.records.transcript import ModelText

SAMPLED_TEMPERATURE: Final = 0.7  # of repeated draws (`Request.sample` above 0) where the backbone's own is 0
FLEX_SECONDS: Final = 900.0  # in the tier `flex` a response may take a quarter of an hour
SLOW_ATTEMPT_SECONDS: Final = 600.0
_JITTER: Final = random.SystemRandom()
_GRACE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.2  # how often a request that waits for another checks whether the batch was given up
_FEW_FRAMES: Final = 4  # fewer fit into every context
_LEAST_FRAME_TOKENS: Final = 16  # a server that reports fewer for a frame does not count frames
_LEAST_SHARE: Final = 0.6  # of the tokens that frames take: below it, some were dropped
_REFUSALS: Final = frozenset({400, 422})
_TIER_REFUSED: Final = re.compile(r"tier|flex", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """How a remote backbone asks."""

    model: ModelSettings = field(default_factory=ModelSettings)
    service_tier: ServiceTier = ServiceTier.STANDARD
    concurrency: int = 8  # requests that are under way at once, over all threads that share the backbone
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    flex_retry: RetryPolicy = field(default_factory=lambda: RetryPolicy.with_timeout(FLEX_SECONDS))
    refuses_dropped_frames: bool = False
    flex_attempts: int = 3  # attempts in the tier `flex` before the standard tier is asked

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise BackboneConfigError(f"A remote backbone needs concurrency >= 1, got {self.concurrency}.")

    @classmethod
    def of(cls, options: BackboneOptions, *, local: bool = False, concurrency: int = 8) -> RemoteSettings:
        """The settings that options ask for; a server of the user's own and long thinking get more time."""
        slow = local or options.model.thinking is Thinking.HIGH
        seconds = options.timeout_seconds or (SLOW_ATTEMPT_SECONDS if slow else RetryPolicy().attempt_seconds)
        return cls(
            options.model,
            options.service_tier,
            concurrency if options.concurrency is None else options.concurrency,
            RetryPolicy.with_timeout(seconds),
            RetryPolicy.with_timeout(max(seconds, FLEX_SECONDS)),
            options.refuses_dropped_frames,
        )


class Slots:
    """Limits the requests that are under way: half as many after a rate limit, then slowly more. Safe under threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(most)
        self._used = 0
        self._shrunk = self._closed_until = 0.0  # on the clock of `time.monotonic`
        self._changed = threading.Condition()

    def _change(self, by: int) -> None:
        with self._changed:
            while by > 0 and (self._used >= int(self._limit) or time.monotonic() < self._closed_until):
                self._changed.wait(max(0.0, self._closed_until - time.monotonic()) or None)
            self._used += by
            self._changed.notify_all()

    @contextmanager
    def taken(self, count: int = 1) -> Iterator[None]:
        """A context in which a request has a slot; with -1, lends the one it has to others."""
        self._change(count)
        try:
            yield
        finally:
            self._change(-count)

    def shrink(self, sent: float, closed_seconds: float) -> None:
        """Halve the limit and pause; requests that were sent before the last change do not count again."""
        with self._changed:
            self._closed_until = max(self._closed_until, time.monotonic() + closed_seconds)
            if sent > self._shrunk:
                self._shrunk = time.monotonic()
                self._limit = max(1.0, self._limit / 2)

    def grow(self) -> None:
        """One more slot after each four rounds of answers."""
        with self._changed:
            self._limit = min(self._most, self._limit + 0.25 / self._limit)
            self._changed.notify_all()


class RemoteBackbone:
    """Answers a batch over an API. Safe to share among threads."""

    def __init__(self, provider: Provider, settings: RemoteSettings | None = None) -> None:
        self._provider = provider
        self._settings = settings or RemoteSettings()
        self._lock = threading.Lock()
        self._cache: PrefixCache | None = None
        self._slots = Slots(self._settings.concurrency)
        self._frame_costs: dict[tuple[int, int], float] = {}  # tokens of a frame by its size, as the server counts them
        self._announcer = Announcer(provider.name)
        self._tier = self._settings.service_tier  # the standard one after the service has refused another
        in_words = self._settings.model.reply_format is ReplyFormat.WORDS
        unused = {"schema"} if in_words else set()
        unused |= {"thinking_off"} if self._settings.model.thinking is not Thinking.NONE else set()
        self._features = frozenset(provider.optional) - unused
        self._stages_in_words: set[str] = set()  # the service refused their schemas
        self._chosen = frozenset(self._settings.model.chosen)  # a service that refuses one of them is an error
        self._reached = False  # whether the service has ever responded; one that restarts is retried until the deadline

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """The spec that names it."""
        return self._provider.name

    @property
    def longest_side_px(self) -> int | None:
        """The longest side of a frame that the provider takes as it is."""
        return self._provider.limits.longest_side_px

    @property
    def answer_settings(self) -> Mapping[str, object]:
        """What beside the name and the request decides an answer; part of a response cache's key."""
        chosen = self._settings.model.chosen
        return {"temperature": self._temperature, **chosen, **self._provider.identity}

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer every request of the batch concurrently, in order."""
        return collect(len(batch), self.generate_as_completed(batch))

    def generate_as_completed(self, batch: Sequence[Request[R]]) -> Iterator[tuple[int, Generation[R] | BackboneError]]:
        """Each request's position in the batch with its answer or what went wrong, as they come in."""
        cache = self._prefix_cache()
        if len(batch) == 1 or cache.order is SendOrder.TOGETHER:
            steps = [Step(place) for place in range(len(batch))]
        else:
            steps = plan([request_parts(request) for request in batch], cache, self._count_tokens)
        begun = {step.place: threading.Event() for step in steps}

        def answer(step: Step, stop: threading.Event) -> Generation[R] | BackboneError:
            """Wait for the response that goes before, then answer; always release the requests that wait for this."""
            while step.after is not None and not begun[step.after].wait(_LOOK_SECONDS) and not stop.is_set():
                pass
            with self._slots.taken():
                try:
                    on_begin = begun[step.place].set if step.leads else None
                    return self._answer(batch[step.place], step.shared_ends, on_begin, stop)
                except BackboneError as error:
                    return error
                finally:
                    begun[step.place].set()

        workers = 1 if cache.order is SendOrder.GROWING else self._settings.concurrency
        for number, outcome in run_in_daemons(answer, steps, workers=workers):
            yield steps[number].place, outcome

    def _prefix_cache(self) -> PrefixCache:
        """What the service keeps; a self-hosted server is asked once what it is."""
        with self._lock:
            if self._cache is None:
                self._cache = self._provider.prefix_cache
                parallel = min(self._settings.concurrency, self._cache.parallel or self._settings.concurrency)
                self._slots = Slots(parallel)
            return self._cache

    def _count_tokens(self, parts: Sequence[Part]) -> int:
        """About how many tokens these parts are, by the provider's published formula."""
        detail = self._settings.model.detail.value
        return sum(
            text_tokens(part.text)
            if isinstance(part, TextPart)
            else frame_tokens(self.name, part.width_px, part.height_px, detail)
            for part in parts
        )

    def _answer(
        self,
        request: Request[R],
        shared_ends: tuple[int, ...],
        on_begin: Callable[[], object] | None,
        stop: threading.Event,
    ) -> Generation[R]:
        started = time.monotonic()
        call = replace(self._completion_request(request, shared_ends), on_begin=on_begin)
        deadline = started + self._policy(call).deadline_seconds
        outcomes: list[Completion | ServiceError] = []
        sends, suspect = 0, False

        def complete(repairs: tuple[RepairTurn, ...]) -> Completion:
            nonlocal sends, suspect
            sends += not repairs
            completion = self._complete(call.with_repairs(repairs) if repairs else call, deadline, stop, outcomes)
            if not repairs:
                probe = partial(self._complete, deadline=deadline, stop=stop, outcomes=outcomes)
                suspect = self._drops_frames(call, completion.usage, probe) or suspect
            return completion

        said: list[ModelText] = []
        failure = None
        try:
            reply: R | ModelFault = complete_with_repair(request.reply, complete, said=said)[0]
        except BackboneError as error:
            failure, reply = error, ModelFault(str(error))
        usage = sum(map(_usage_of, outcomes), Usage())
        tiers = {each.service_tier for each in outcomes if isinstance(each, Completion)}
        tier = ServiceTier.FLEX.value if tiers == {ServiceTier.FLEX} else None
        generation = Generation(reply, usage, time.monotonic() - started, tier, tuple(said), sends, suspect)
        if failure is not None:
            failure.charged = {0: generation} if usage != Usage() else {}
            raise failure
        return generation

    def _drops_frames(
        self, call: CompletionRequest, usage: Usage, probe: Callable[[CompletionRequest], Completion]
    ) -> bool:
        """Whether the server reports too few tokens to have read all frames: those beyond its context are dropped.

        Where it reports fewer than the usual formula, two black frames show what it takes for one of this size.
        """
        images = [part for part in call.parts if isinstance(part, ImagePart)]
        if not self._provider.may_drop_frames or len(images) < _FEW_FRAMES or not usage.input_tokens:
            return False
        words = self._count_tokens([part for part in call.parts if isinstance(part, TextPart)])
        tokens = max(0, usage.input_tokens - words)
        if tokens >= 0.9 * self._count_tokens(images):
            return False
        size = images[0].width_px, images[0].height_px
        if size not in self._frame_costs:
            black = (replace(images[0], jpeg=_black_jpeg(*size)),) * 2
            asked = replace(call, parts=(*black, TextPart("Say nothing.")), shared_ends=(), on_begin=None)
            self._frame_costs[size] = 0.0  # unknown, where the server refuses the probe
            with suppress(BackboneError):
                self._frame_costs[size] = probe(replace(asked, max_output_tokens=64)).usage.input_tokens / 2
        alike = self._count_tokens(images) / self._count_tokens(images[:1])  # other frames may be smaller
        needed = self._frame_costs[size] * min(len(images), alike)
        if tokens >= _LEAST_SHARE * needed or self._frame_costs[size] < _LEAST_FRAME_TOKENS:
            return False
        sentence = (
            f"{self.name}: the server reports {usage.input_tokens:,} prompt tokens for {len(images)} frames that take "
            f"about {needed:,.0f}, so it dropped some; give it a larger context (Ollama: OLLAMA_CONTEXT_LENGTH)"
        )
        if self._settings.refuses_dropped_frames:
            raise BackboneError(f"{sentence}, or allow it with --allow-dropped-frames.")
        self._announcer.warn_once(f"{sentence}.")
        return True

    def _policy(self, call: CompletionRequest) -> RetryPolicy:
        return self._settings.retry if call.service_tier is ServiceTier.STANDARD else self._settings.flex_retry

    def _completion_request(self, request: Request[Any], shared_ends: tuple[int, ...]) -> CompletionRequest:
        temperature = SAMPLED_TEMPERATURE if request.sample and self._temperature == 0 else self._temperature
        parts = request_parts(request)
        self._check_limits(parts)
        if "schema" not in self._features_of(request.stage) and len(request.clips) > 1:
            # A later request has another schema, which providers read before everything else. Only where the schema
            # is part of the text can a later request share the clips of a bundle, so that their ends are marked too.
            clip_ends = {at for at, part in enumerate(parts, start=1) if isinstance(part, ImagePart) and part.ends_clip}
            shared_ends = tuple(sorted({*shared_ends, *clip_ends})[-MOST_ENDS:])
        # The same for all requests of a question, so that a provider can route them to the same cache.
        asked = {name: request.variables.get(name) for name in ("question", "options")}
        return CompletionRequest(
            parts=parts,
            schema=reply_schema(request.reply),
            stage=request.stage,
            temperature=temperature,
            thinking=self._settings.model.thinking,
            max_output_tokens=self._settings.model.max_output_tokens,
            detail=self._settings.model.detail,
            service_tier=self._tier,
            seed=None if temperature == 0 else sampling_seed(request),
            shared_ends=shared_ends,
            cache_key=hashlib.sha256(json.dumps(asked, default=str).encode()).hexdigest()[:32],
        )

    @property
    def _temperature(self) -> float | None:
        chosen = self._settings.model.temperature
        return self._provider.default_temperature if chosen is None else chosen

    def _check_limits(self, parts: tuple[Part, ...]) -> None:
        """Raises `BackboneError` where the provider accepts no request of this size, before anything is sent."""
        limits = self._provider.limits
        images = sum(isinstance(part, ImagePart) for part in parts)
        if limits.images is not None and images > limits.images:
            raise BackboneError(
                f"{self.name}: the request has {images} frames, and the provider accepts {limits.images} in one "
                "request; use fewer frames."
            )
        size = payload_bytes(parts)
        if limits.payload_bytes is not None and size > limits.payload_bytes:
            raise BackboneError(
                f"{self.name}: the request has {size / 2**20:.1f} MiB, and the provider accepts "
                f"{limits.payload_bytes // 2**20} MiB in one request; use fewer or smaller frames."
            )

    def _complete(
        self,
        call: CompletionRequest,
        deadline: float,
        stop: threading.Event,
        outcomes: list[Completion | ServiceError],
    ) -> Completion:
        """One completion: attempts are made until one succeeds, one fails for good, or the deadline is reached.

        What each attempt came to is added to `outcomes`: a failure may be charged for too.
        """
        failed_attempts = 0
        while True:
            features = self._features_of(call.stage)
            sent = time.monotonic()
            try:
                completion = self._attempt(call, features, deadline)
                self._slots.grow()
                outcomes.append(completion)
                return completion
            except ServiceError as failure:
                outcomes.append(failure)
                if self._drop_feature(failure, features, call.stage):
                    continue
                failed_attempts += 1
                if self._leave_flex(call, failure, failed_attempts):
                    call = replace(call, service_tier=ServiceTier.STANDARD)
                    continue
                if failure.status == HTTPStatus.TOO_MANY_REQUESTS and is_retryable(failure):
                    self._slots.shrink(sent, failure.retry_after_seconds or 0.0)
                deadline += self._wait_for_retry(failure, failed_attempts, deadline, stop, self._policy(call))

    def _leave_flex(self, call: CompletionRequest, failure: ServiceError, failed_attempts: int) -> bool:
        """Whether this call continues in the standard tier: flex is refused, or has had no room several times."""
        if call.service_tier is not ServiceTier.FLEX:
            return False
        if failure.status in _REFUSALS and _TIER_REFUSED.search(failure.message):
            if self._tier is ServiceTier.FLEX:
                NOTICES.warning("%s: the service refuses the tier flex; the standard tier is used.", self.name)
            self._tier = ServiceTier.STANDARD
            return True
        return is_retryable(failure) and failed_attempts >= self._settings.flex_attempts

    def _attempt(self, call: CompletionRequest, features: frozenset[str], deadline: float) -> Completion:
        if call.thinking is Thinking.NONE and "thinking_off" not in features:
            call = replace(call, thinking=Thinking.LOW)
        timeout_seconds = min(self._policy(call).attempt_seconds, max(deadline - time.monotonic(), 0.001))
        send = partial(self._provider.complete, call, features=features, timeout_seconds=timeout_seconds)
        completion = _run_within(send, timeout_seconds + _GRACE_SECONDS, self._announcer)
        self._reached = True
        return completion

    def _wait_for_retry(
        self, failure: ServiceError, failed_attempts: int, deadline: float, stop: threading.Event, policy: RetryPolicy
    ) -> float:
        """Wait as long as the retry policy says, then for a slot, which takes the seconds that are returned.

        Raises `BackboneError` where there is no use in another attempt.
        """
        queued = 0.0
        self._reached = self._reached or not failure.unreachable
        if not self._reached and failed_attempts >= policy.unreached_attempts:
            attempts = f"{failed_attempts} attempts ({failure.message})"
            raise BackboneError(f"{self.name}: no connection after {attempts}; is the server running?") from None
        if not is_retryable(failure):
            raise BackboneError(refusal_message(self.name, failure, key_hint=self._provider.key_hint)) from None
        wait_seconds = policy.wait_seconds(failure, failed_attempts - 1, _JITTER.random())
        gives_up = time.monotonic() + wait_seconds >= deadline
        if not gives_up:
            with self._announcer.waits(failure.summary, wait_seconds), self._slots.taken(-1):
                gives_up = stop.wait(wait_seconds)
                woken = time.monotonic()
            queued = time.monotonic() - woken
        if gives_up:
            message = deadline_message(
                self.name, failure, attempts=failed_attempts, deadline_seconds=policy.deadline_seconds
            )
            raise BackboneError(message) from None
        return queued

    def _features_of(self, stage: str) -> frozenset[str]:
        return self._features - ({"schema"} if stage in self._stages_in_words else set())

    def _drop_feature(self, failure: ServiceError, used: frozenset[str], stage: str) -> bool:
        """Stop using the optional feature that the service has just refused; False where it refused something else.

        A refused schema is that of one stage, and the others keep theirs.
        """
        if failure.status not in _REFUSALS:
            return False
        for feature, refusal in self._provider.optional.items():
            if feature in used and feature not in self._chosen and refusal.search(failure.message):
                if feature == "thinking_off":
                    NOTICES.warning("%s: the model always thinks (%s); it thinks little.", self.name, failure.summary)
                if feature != "schema":
                    self._features -= {feature}
                elif stage not in self._stages_in_words:
                    self._stages_in_words.add(stage)
                    said = f"the service refused the reply schema of the stage {stage} ({failure.summary})"
                    NOTICES.warning("%s: %s; the prompt states it instead.", self.name, said)
                return True
        return False


def _black_jpeg(width: int, height: int) -> bytes:
    import numpy as np  # only where it is needed
    import simplejpeg  # type: ignore[import-untyped]  # the package ships no types

    return bytes(simplejpeg.encode_jpeg(np.zeros((height, width, 3), np.uint8)))


def collect(size: int, outcomes: Iterator[tuple[int, Generation[R] | BackboneError]]) -> list[Generation[R]]:
    """The answers of a batch in order; where requests failed, the first failure is raised once all are done."""
    answers: dict[int, Generation[R]] = {}
    failures: dict[int, BackboneError] = {}
    for place, outcome in outcomes:
        if isinstance(outcome, BackboneError):
            failures[place] = outcome
        else:
            answers[place] = outcome
    if failures:
        first = failures[min(failures)]
        charged = {place: each for place, error in failures.items() for each in error.charged.values()}
        first.charged = answers | charged
        raise first
    return [answers[place] for place in range(size)]


def _usage_of(outcome: Completion | ServiceError) -> Usage:
    """What an attempt cost, as far as that is known now; one that was given up may have ended since."""
    attempt = outcome.attempt if isinstance(outcome, ServiceError) else None
    if attempt is None or not attempt.done():
        return outcome.usage
    error = attempt.exception()
    return attempt.result().usage if error is None else getattr(error, "usage", Usage())


def _run_within(call: Callable[[], Completion], seconds: float, announcer: Announcer) -> Completion:
    """The result of the call, or a failure once the time is over; the call's thread is abandoned then.

    An SDK's time-out bounds only the silence between two bytes.
    """
    future: Future[Completion] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001  carried over to the waiting thread, and raised there
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    wait([future], min(seconds, SLOW_SECONDS))
    try:
        if future.done() or seconds <= SLOW_SECONDS:
            return future.result(0)
        left = seconds - SLOW_SECONDS
        with announcer.waits(f"no response for {SLOW_SECONDS:g} s", left, then="giving this attempt up"):
            return future.result(left)
    except TimeoutError:
        if future.done():
            raise
        raise ServiceError(None, f"no complete response within {seconds:g} s", attempt=future) from None
