"""Any other image-and-text model that transformers knows, through its own `generate`, one request after another.

Slower than the models that `shared.py` drives; replies are constrained to their schema in the same way.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from transformers import LogitsProcessorList

from trace_ves.backbone.hf.chat_format import ChatFormatter
from trace_ves.backbone.hf.decoder import Sampler
from trace_ves.backbone.hf.grammar import MAX_NEW_TOKENS, Grammars, JsonGuide
from trace_ves.backbone.hf.shared import check_length
from trace_ves.backbone.provider import Completion, FinishReason
from trace_ves.core import MissingExtraError
from trace_ves.records import Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.backbone.hf.chat_format import LocalRequest
    from trace_ves.backbone.hf.loading import Loaded
    from trace_ves.core import Frame


class PlainModel:
    """Answers a batch request by request."""

    def __init__(self, spec: str, loaded: Loaded, *, max_new_tokens: int = MAX_NEW_TOKENS) -> None:
        if loaded.processor is None:
            raise MissingExtraError(f"The backbone {spec} (its processor needs torchvision)", "hf")
        self._model = loaded.model
        self._processor = loaded.processor
        self._formatter = ChatFormatter(loaded.tokenizer)
        self._max_new_tokens = max_new_tokens
        text = loaded.model.config.get_text_config()
        self._most_tokens: int = getattr(text, "max_position_embeddings", None) or sys.maxsize
        self._grammars = Grammars(loaded.tokenizer, loaded.model.config.get_text_config().vocab_size)

    def complete(self, requests: Sequence[LocalRequest]) -> list[Completion]:
        """One completion for each request, in order."""
        return [self._complete(request) for request in requests]

    def _complete(self, request: LocalRequest) -> Completion:
        inputs = self._processor.apply_chat_template(
            self._formatter.messages(request, _picture),
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            add_generation_prompt=True,
            enable_thinking=False,  # a model that thinks would be held to JSON inside its thoughts
        ).to(self._model.device, self._model.dtype)
        prompt_tokens = inputs["input_ids"].shape[1]
        check_length(prompt_tokens, self._max_new_tokens, self._most_tokens)
        reply = self._grammars.reply(request, self._model.device)
        end = self._processor.tokenizer.eos_token_id
        guided = _GuidedLogits(JsonGuide([reply], self._grammars.vocabulary), self._grammars.vocabulary, end)
        tokens = self._model.generate(
            **inputs,
            do_sample=False,  # a draw is the most likely token after noise; the guide adds the noise
            max_new_tokens=self._max_new_tokens,
            eos_token_id=end,
            pad_token_id=end,
            logits_processor=LogitsProcessorList([guided]),
        )
        said = tokens[0, prompt_tokens : prompt_tokens + reply.length].tolist()
        return Completion(
            self._processor.tokenizer.decode(said, skip_special_tokens=True),
            Usage(prompt_tokens, 0, reply.length),
            FinishReason.STOP if reply.over else FinishReason.LENGTH,
        )


class _GuidedLogits:
    """A logits processor, as `generate` calls it before every token."""

    def __init__(self, guide: JsonGuide, vocabulary: int, end: int) -> None:
        self._guide = guide
        self._vocabulary = vocabulary
        self._end = end
        self._sampler: Sampler | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self._sampler is None:
            self._sampler = Sampler(1, self._vocabulary, scores.device)
        elif not self._guide.take([int(input_ids[0, -1])]):
            over = torch.full_like(scores, float("-inf"))
            over[:, self._end] = 0.0
            return over
        self._guide.prepare(self._sampler)
        return self._sampler.restrict(scores)


def _picture(frame: Frame) -> dict[str, Any]:
    from PIL import Image  # only these models need it

    return {"image": Image.fromarray(frame.rgb())}
