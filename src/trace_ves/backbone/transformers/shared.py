"""Qwen3-VL and Qwen2.5-VL: a batch of requests answered from shared prefills, each frame encoded once.

Joins the parts: frame features, prompt tokens, micro-batches, batch plan, grammar guide, decoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.backbone.provider import Completion, FinishReason
from trace_ves.backbone.transformers.batch_plan import micro_batches, plan_batch
from trace_ves.backbone.transformers.chat_format import ChatFormatter
from trace_ves.backbone.transformers.decoder import BatchDecoder
from trace_ves.backbone.transformers.grammar import MAX_NEW_TOKENS, Grammars, JsonGuide
from trace_ves.backbone.transformers.vision import VisionEncoder, frame_key
from trace_ves.core import BackboneError
from trace_ves.records import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.backbone.transformers.batch_plan import BatchPlan, PromptTokens
    from trace_ves.backbone.transformers.chat_format import LocalRequest
    from trace_ves.backbone.transformers.loading import Loaded
    from trace_ves.backbone.transformers.vision import FrameFeatures

MAX_ROWS: Final = 16
MAX_PREFIX_TOKENS: Final = 65_536
"""Larger batches are split into micro-batches."""


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
        self._decoder = BatchDecoder(model)
        self._device = model.device
        self.vision = VisionEncoder(model, loaded.image_processor)

    def complete(self, requests: Sequence[LocalRequest]) -> list[Completion]:
        """One completion for each request, in order."""
        frames = {id(frame): frame for request in requests for frame in request.frames}  # bundles share frames
        names = {number: frame_key(frame) for number, frame in frames.items()}
        features = self.vision.features({names[number]: frame for number, frame in frames.items()})
        rows = [
            self._formatter.prompt(
                request, [(name, features[name].tokens) for name in (names[id(frame)] for frame in request.frames)]
            )
            for request in requests
        ]
        self._check_length(rows)
        completions: dict[int, Completion] = {}
        for batch in micro_batches(rows, max_rows=MAX_ROWS, max_prefix_tokens=MAX_PREFIX_TOKENS):
            answers = self._answer([rows[i] for i in batch], [requests[i] for i in batch], features)
            completions.update(zip(batch, answers, strict=True))
        return [completions[number] for number in range(len(requests))]

    def _check_length(self, rows: Sequence[PromptTokens]) -> None:
        longest = max(len(row.ids) for row in rows) + self._max_new_tokens
        if longest > self._most_tokens:
            raise BackboneError(
                f"A request needs {longest} tokens with its reply, and the model takes {self._most_tokens}; "
                "use fewer or smaller frames."
            )

    def _answer(
        self, rows: Sequence[PromptTokens], requests: Sequence[LocalRequest], features: Mapping[str, FrameFeatures]
    ) -> list[Completion]:
        replies = [self._grammars.reply(request, self._device) for request in requests]
        guide = JsonGuide(replies, self._grammars.vocabulary)
        plan = plan_batch(rows)
        tokens = self._decoder.generate(plan, features, guide, max_new_tokens=self._max_new_tokens)
        return [
            Completion(
                self._tokenizer.decode(said[: reply.length], skip_special_tokens=True),
                Usage(len(rows[number].ids), _shared_tokens(plan, number), reply.length),
                FinishReason.STOP if reply.over else FinishReason.LENGTH,
            )
            for number, (reply, said) in enumerate(zip(replies, tokens, strict=True))
        ]


def _shared_tokens(plan: BatchPlan, number: int) -> int:
    """Tokens of a row that were computed for another one."""
    slot = plan.slots[number]
    return 0 if slot.leader == number else slot.end - slot.start
