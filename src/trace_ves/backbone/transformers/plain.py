"""Any other image-and-text model that transformers knows, through its own `generate`, one ask after the other.

Slower than the models that `shared.py` drives, and held to the reply's schema in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import LogitsProcessorList

from trace_ves.backbone.provider import Completion, Finish
from trace_ves.backbone.transformers.asking import Scribe
from trace_ves.backbone.transformers.grammar import MAX_NEW_TOKENS, Grammars, JsonGuide
from trace_ves.backbone.transformers.step import Choice
from trace_ves.core import MissingExtraError, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.backbone.transformers.asking import LocalAsk
    from trace_ves.backbone.transformers.loading import Loaded
    from trace_ves.core import Frame


class PlainModel:
    """Answers batches of asks, one by one."""

    def __init__(self, spec: str, loaded: Loaded, *, max_new_tokens: int = MAX_NEW_TOKENS) -> None:
        if loaded.processor is None:
            raise MissingExtraError(f"The backbone {spec} (its processor needs torchvision)", "hf")
        self._model = loaded.model
        self._processor = loaded.processor
        self._scribe = Scribe(loaded.tokenizer)
        self._max_new_tokens = max_new_tokens
        self._grammars = Grammars(loaded.tokenizer, loaded.model.config.get_text_config().vocab_size)

    def complete(self, asks: Sequence[LocalAsk]) -> list[Completion]:
        """One completion for each ask, in order."""
        return [self._complete(ask) for ask in asks]

    def _complete(self, ask: LocalAsk) -> Completion:
        inputs = self._processor.apply_chat_template(
            self._scribe.messages(ask, _picture),
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            add_generation_prompt=True,
        ).to(self._model.device, self._model.dtype)
        reply = self._grammars.reply(ask, self._model.device)
        end = self._processor.tokenizer.eos_token_id
        guided = _Guided(JsonGuide([reply], self._grammars.vocabulary), self._grammars.vocabulary, end)
        tokens = self._model.generate(
            **inputs,
            do_sample=False,  # a draw is the most likely token after noise; the guide adds the noise
            max_new_tokens=self._max_new_tokens,
            eos_token_id=end,
            pad_token_id=end,
            logits_processor=LogitsProcessorList([guided]),
        )
        prompt_tokens = inputs["input_ids"].shape[1]
        said = tokens[0, prompt_tokens : prompt_tokens + reply.length].tolist()
        return Completion(
            self._processor.tokenizer.decode(said, skip_special_tokens=True),
            Usage(prompt_tokens, 0, reply.length),
            Finish.STOP if reply.over else Finish.LENGTH,
        )


class _Guided:
    """A logits processor, as `generate` calls it before every token."""

    def __init__(self, guide: JsonGuide, vocabulary: int, end: int) -> None:
        self._guide = guide
        self._vocabulary = vocabulary
        self._end = end
        self._choice: Choice | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self._choice is None:
            self._choice = Choice(1, self._vocabulary, scores.device)
        elif not self._guide.take([int(input_ids[0, -1])]):
            over = torch.full_like(scores, float("-inf"))
            over[:, self._end] = 0.0
            return over
        self._guide.prepare(self._choice)
        return self._choice.restrict(scores)


def _picture(frame: Frame) -> dict[str, Any]:
    from PIL import Image  # noqa: PLC0415  only these models need it

    return {"image": Image.fromarray(frame.rgb())}
