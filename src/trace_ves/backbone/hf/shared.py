"""Qwen3-VL and Qwen2.5-VL: a batch of requests answered from shared prefills, each frame encoded once.

Joins the parts: frame features, prompt tokens, micro-batches, batch plan, grammar guide, decoder.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import torch

from trace_ves.backbone.hf.chat_format import ChatFormatter
from trace_ves.backbone.hf.decoder import BatchDecoder, NonFiniteError
from trace_ves.backbone.hf.grammar import MAX_NEW_TOKENS, Grammars, JsonGuide
from trace_ves.backbone.hf.plans import micro_batches, plan_batch, plan_memory
from trace_ves.backbone.hf.vision import VisionEncoder
from trace_ves.backbone.provider import Completion, FinishReason
from trace_ves.core import BackboneError
from trace_ves.records import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.backbone.hf.chat_format import LocalRequest
    from trace_ves.backbone.hf.loading import Loaded
    from trace_ves.backbone.hf.plans import BatchPlan, PromptTokens
    from trace_ves.backbone.hf.vision import FrameFeatures


_CACHE_SHARE: Final = 0.2
"""Of the free memory, for keys and values that later requests may begin with."""


class SharedPrefixModel:
    """Answers batches of requests."""

    def __init__(self, loaded: Loaded, *, max_new_tokens: int = MAX_NEW_TOKENS) -> None:
        model = loaded.model
        self._tokenizer = loaded.tokenizer
        self._formatter = ChatFormatter(
            loaded.tokenizer, chat_template=loaded.chat_template, image_token_id=model.config.image_token_id
        )
        self._max_new_tokens = max_new_tokens
        self._grammars = Grammars(loaded.tokenizer, model.config.get_text_config().vocab_size)
        self._most_tokens: int = model.config.get_text_config().max_position_embeddings
        self._device = model.device
        free_bytes = _free_bytes(model.device)
        cache_bytes = int(_CACHE_SHARE * free_bytes)
        self._decoder = BatchDecoder(model, cache_bytes=cache_bytes)
        self.limits = plan_memory(
            self._decoder.shape, free_bytes=free_bytes - cache_bytes, own_tokens=2 * max_new_tokens
        )
        """The largest micro-batch; becomes smaller where one did not fit."""
        self.vision = VisionEncoder(model, loaded.image_processor)

    def complete(self, requests: Sequence[LocalRequest]) -> list[Completion]:
        """One completion for each request, in order."""
        frames = {id(frame): frame for request in requests for frame in request.frames}  # bundles share frames
        names = dict(zip(frames, self.vision.keys(list(frames.values())), strict=True))
        features = self.vision.features({names[number]: frame for number, frame in frames.items()})
        rows = [
            self._formatter.prompt(
                request, [(name, features[name].tokens) for name in (names[id(frame)] for frame in request.frames)]
            )
            for request in requests
        ]
        check_length(max(len(row.ids) for row in rows), self._max_new_tokens, self._most_tokens)
        completions: dict[int, Completion] = {}
        limits = self.limits
        for batch in micro_batches(rows, max_rows=limits.max_rows, max_prefix_tokens=limits.max_prefix_tokens):
            answers = self._answer([rows[i] for i in batch], [requests[i] for i in batch], features)
            completions.update(zip(batch, answers, strict=True))
        return [completions[number] for number in range(len(requests))]

    def forget(self) -> None:
        """Drop all cached frames and prefixes, as if nothing had been asked yet."""
        self._decoder.forget()
        self.vision.forget()

    def _answer(
        self, rows: Sequence[PromptTokens], requests: Sequence[LocalRequest], features: Mapping[str, FrameFeatures]
    ) -> list[Completion]:
        """Answer a micro-batch; one that does not fit into the memory, or breaks the model's numbers, in two halves."""
        try:
            return self._decode(rows, requests, features)
        except torch.OutOfMemoryError:
            self.limits = self.limits.halved()
            if len(rows) == 1:
                raise BackboneError(
                    f"The memory of the GPU is too small for a request with {len(requests[0].frames)} frames; "
                    "use fewer or smaller frames, or a smaller model."
                ) from None
        except NonFiniteError:
            if len(rows) == 1:
                raise BackboneError(
                    "The model computed numbers that are not finite for a request; its weights may be damaged, or too "
                    "large for 16 bits."
                ) from None
        self._decoder.release()
        half = len(rows) // 2
        return self._answer(rows[:half], requests[:half], features) + self._answer(
            rows[half:], requests[half:], features
        )

    def _decode(
        self, rows: Sequence[PromptTokens], requests: Sequence[LocalRequest], features: Mapping[str, FrameFeatures]
    ) -> list[Completion]:
        replies = [self._grammars.reply(request, self._device) for request in requests]
        guide = JsonGuide(replies, self._grammars.vocabulary)
        plan = plan_batch(rows)
        tokens = self._decoder.generate(
            plan,
            features,
            guide,
            max_new_tokens=self._max_new_tokens,
            prefill_tokens=self.limits.prefill_tokens,
        )
        return [
            Completion(
                self._tokenizer.decode(said[: reply.length], skip_special_tokens=True),
                Usage(len(rows[number].ids), self._cached_tokens(plan, number), reply.length),
                FinishReason.STOP if reply.over else FinishReason.LENGTH,
            )
            for number, (reply, said) in enumerate(zip(replies, tokens, strict=True))
        ]

    def _cached_tokens(self, plan: BatchPlan, number: int) -> int:
        """Tokens of a row that were computed for another one, of this batch or an earlier one."""
        slot = plan.slots[number]
        return self._decoder.reused[number] if slot.leader == number else slot.end - slot.start


def check_length(prompt_tokens: int, reply_tokens: int, most_tokens: int) -> None:
    """Raise a `BackboneError` where a prompt and its reply are longer than the model's context."""
    if prompt_tokens + reply_tokens > most_tokens:
        raise BackboneError(
            f"A request needs {prompt_tokens + reply_tokens} tokens with its reply, and the model takes {most_tokens}; "
            "use fewer or smaller frames."
        )


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
