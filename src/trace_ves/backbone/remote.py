"""A backbone behind an API: answers a batch concurrently, checks limits, and detects servers that drop frames."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.attempts import Attempts, Exchange, Slots
from trace_ves.backbone.frame_tokens import frame_tokens, text_tokens
from trace_ves.backbone.model_settings import ServiceTier
from trace_ves.backbone.prompt_caches import MOST_ENDS, PrefixCache, SendOrder, Step, plan
from trace_ves.backbone.protocol import Generation, ModelFault, R, Request
from trace_ves.backbone.provider import (
    Completion,
    CompletionRequest,
    ImagePart,
    Part,
    Provider,
    RepairTurn,
    TextPart,
    request_parts,
    sampling_seed,
)
from trace_ves.backbone.registry import BackboneOptions
from trace_ves.backbone.replies import complete_with_repair
from trace_ves.backbone.retry import RetryPolicy
from trace_ves.core import BackboneConfigError, BackboneError
from trace_ves.core.threads import run_in_daemons
from trace_ves.records import Usage

if TYPE_CHECKING:
    from trace_ves.records.transcript import ModelText

SAMPLED_TEMPERATURE: Final = 0.7  # For sampled draws (`Request.sample` above 0) if the backbone's temperature is 0
CONCURRENCY: Final = 8  # The default number of concurrent requests
_POLL_SECONDS: Final = 0.2  # How often a request that waits for another checks whether the batch was cancelled
_FEW_FRAMES: Final = 4  # Fewer fit into every context
_LEAST_FRAME_TOKENS: Final = 16  # A server that reports fewer tokens for a frame does not count frames
_LEAST_SHARE: Final = 0.6  # Of the tokens that the frames need; with a smaller share, some were dropped


class RemoteBackbone:
    """Answers a batch over an API. Thread-safe."""

    def __init__(
        self,
        provider: Provider,
        options: BackboneOptions | None = None,
        *,
        is_local: bool = False,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._provider = provider
        self._options = options or BackboneOptions()
        self._concurrency = CONCURRENCY if self._options.concurrency is None else self._options.concurrency
        if self._concurrency < 1:
            raise BackboneConfigError(f"A remote backbone needs concurrency >= 1, got {self._concurrency}.")
        self._lock = threading.Lock()
        self._cache: PrefixCache | None = None
        retry = retry or RetryPolicy.of(self._options, is_local=is_local)
        self._attempts = Attempts(provider, self._options, retry, Slots(self._concurrency))
        self._frame_costs: dict[tuple[int, int], float] = {}  # The server's tokens for a frame, by its size
        temperature = self._options.model.temperature
        self._temperature = provider.default_temperature if temperature is None else temperature
        self.name: Final = provider.name
        self.longest_side_px: Final = provider.limits.longest_side_px  # Of a frame that the provider accepts unscaled

    @property
    def answer_settings(self) -> Mapping[str, object]:
        """The settings that affect an answer; part of the response cache's key."""
        return {"temperature": self._temperature, **self._options.model.non_defaults, **self._provider.identity}

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer every request of the batch concurrently, in order."""
        return collect(len(batch), self.generate_as_completed(batch))

    def generate_as_completed(self, batch: Sequence[Request[R]]) -> Iterator[tuple[int, Generation[R] | BackboneError]]:
        """The index of each request with its answer or error, in order of completion."""
        cache = self._detect_prefix_cache()
        if len(batch) == 1 or cache.order is SendOrder.TOGETHER:
            steps = [Step(place) for place in range(len(batch))]
        else:
            steps = plan([request_parts(request) for request in batch], cache, self._count_tokens)
        begun = {step.place: threading.Event() for step in steps}

        def answer(step: Step, stop: threading.Event) -> Generation[R] | BackboneError:
            """Wait for the leader's response to begin, then answer. Release followers even after an error."""
            while step.after is not None and not begun[step.after].wait(_POLL_SECONDS) and not stop.is_set():
                pass
            with self._attempts.slots.hold():
                try:
                    on_begin = begun[step.place].set if step.leads else None
                    return self._answer(batch[step.place], step.shared_ends, on_begin, stop)
                except BackboneError as error:
                    return error
                finally:
                    begun[step.place].set()

        workers = 1 if cache.order is SendOrder.GROWING else self._concurrency
        for number, outcome in run_in_daemons(answer, steps, workers=workers):
            yield steps[number].place, outcome

    def _detect_prefix_cache(self) -> PrefixCache:
        """How the service caches prompts; asks a self-hosted server once."""
        with self._lock:
            if self._cache is None:
                self._cache = self._provider.prefix_cache
                if self._cache.parallel is not None:
                    self._attempts.slots = Slots(min(self._concurrency, self._cache.parallel))
            return self._cache

    def _count_tokens(self, parts: Sequence[Part]) -> int:
        """Estimate the tokens of these parts by the provider's published formula."""
        detail = self._options.model.detail.value
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
        exchange = self._attempts.begin(call, stop)
        sends, suspect = 0, False

        def complete(repairs: tuple[RepairTurn, ...]) -> Completion:
            nonlocal sends, suspect
            if repairs:
                return self._attempts.complete(call.with_repairs(repairs), exchange)
            sends += 1
            completion = self._attempts.complete(call, exchange)
            suspect = self._drops_frames(call, completion.usage, exchange) or suspect
            return completion

        texts: list[ModelText] = []
        failure = None
        try:
            reply: R | ModelFault = complete_with_repair(request.reply, complete, texts=texts)[0]
        except BackboneError as error:
            failure, reply = error, ModelFault(str(error))
        usage = exchange.usage + self._attempts.claim_late_usage()
        tier = ServiceTier.FLEX.value if exchange.tiers == {ServiceTier.FLEX} else None
        generation = Generation(reply, usage, time.monotonic() - started, tier, tuple(texts), sends, suspect)
        if failure is not None:
            failure.charged = {0: generation} if usage != Usage() else {}
            raise failure
        return generation

    def _drops_frames(self, call: CompletionRequest, usage: Usage, exchange: Exchange) -> bool:
        """Whether the server reports too few tokens to have read all frames: some servers drop what does not fit."""
        images = [part for part in call.parts if isinstance(part, ImagePart)]
        if not self._provider.may_drop_frames or len(images) < _FEW_FRAMES or not usage.input_tokens:
            return False
        text = self._count_tokens([part for part in call.parts if isinstance(part, TextPart)])
        tokens = max(0, usage.input_tokens - text)
        if tokens >= 0.9 * self._count_tokens(images):
            return False
        size = images[0].width_px, images[0].height_px
        if size not in self._frame_costs:  # measure the tokens of a frame with two black ones
            black = (replace(images[0], jpeg=_black_jpeg(*size)),) * 2
            probe = replace(call, parts=(*black, TextPart("Say nothing.")), shared_ends=(), on_begin=None)
            self._frame_costs[size] = 0.0  # if the server refuses the probe
            with suppress(BackboneError):
                measured = self._attempts.complete(replace(probe, max_output_tokens=64), exchange)
                self._frame_costs[size] = measured.usage.input_tokens / 2
        ratio = self._count_tokens(images) / self._count_tokens(images[:1])  # other frames may be smaller
        needed = self._frame_costs[size] * min(len(images), ratio)
        if tokens >= _LEAST_SHARE * needed or self._frame_costs[size] < _LEAST_FRAME_TOKENS:
            return False
        sentence = (
            f"{self.name}: the server reports {usage.input_tokens:,} prompt tokens for {len(images)} frames that take "
            f"about {needed:,.0f}, so it dropped some; give it a larger context (Ollama: OLLAMA_CONTEXT_LENGTH)"
        )
        if self._options.refuses_dropped_frames:
            raise BackboneError(f"{sentence}, or allow it with --allow-dropped-frames.")
        self._attempts.announcer.warn_once(f"{sentence}.")
        return True

    def _completion_request(self, request: Request[Any], shared_ends: tuple[int, ...]) -> CompletionRequest:
        temperature = SAMPLED_TEMPERATURE if request.sample and self._temperature == 0 else self._temperature
        parts = request_parts(request)
        self._check_limits(parts)
        if "schema" not in self._attempts.features_of(request.stage) and len(request.clips) > 1:
            # Providers read the schema first, and a later request has another one. Only if the schema is part of the
            # text can a later request share the clips of this one, so mark the ends of the clips too.
            clip_ends = {at for at, part in enumerate(parts, start=1) if isinstance(part, ImagePart) and part.ends_clip}
            shared_ends = tuple(sorted({*shared_ends, *clip_ends})[-MOST_ENDS:])
        # All requests of a question have the same key, so that a provider can route them to the same cache.
        question = {name: request.variables.get(name) for name in ("question", "options")}
        return CompletionRequest(
            parts=parts,
            schema=request.reply.model_json_schema(),
            stage=request.stage,
            temperature=temperature,
            thinking=self._options.model.thinking,
            max_output_tokens=self._options.model.max_output_tokens,
            detail=self._options.model.detail,
            service_tier=self._options.service_tier,
            seed=None if temperature == 0 else sampling_seed(request),
            shared_ends=shared_ends,
            cache_key=hashlib.sha256(json.dumps(question).encode()).hexdigest()[:32],
        )

    def _check_limits(self, parts: tuple[Part, ...]) -> None:
        """Raise a `BackboneError` if a request is too large for the provider."""
        limits = self._provider.limits
        images = sum(isinstance(part, ImagePart) for part in parts)
        if limits.images is not None and images > limits.images:
            raise BackboneError(
                f"{self.name}: the request has {images} frames, and the provider accepts {limits.images} in one "
                "request; use fewer frames."
            )
        # frames in base64, text in UTF-8
        size = sum(
            -(-len(part.jpeg) // 3) * 4 if isinstance(part, ImagePart) else len(part.text.encode()) for part in parts
        )
        if limits.payload_bytes is not None and size > limits.payload_bytes:
            raise BackboneError(
                f"{self.name}: the request has {size / 2**20:.1f} MiB, and the provider accepts "
                f"{limits.payload_bytes // 2**20} MiB in one request; use fewer or smaller frames."
            )


def _black_jpeg(width: int, height: int) -> bytes:
    import numpy as np  # rarely needed
    import simplejpeg  # type: ignore[import-untyped]  # the package ships no types

    return bytes(simplejpeg.encode_jpeg(np.zeros((height, width, 3), np.uint8)))


def collect(size: int, outcomes: Iterator[tuple[int, Generation[R] | BackboneError]]) -> list[Generation[R]]:
    """The answers of a batch in order. If requests failed, raise the first error after all have completed."""
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
