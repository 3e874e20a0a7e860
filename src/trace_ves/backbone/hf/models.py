"""Two kinds of local models: Qwen-VL with shared prefills, and any other through its own `generate`.

Both constrain replies to their schema.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from transformers import LogitsProcessorList

from trace_ves.backbone.hf.decoder import BatchDecoder, NonFiniteError, Sampler
from trace_ves.backbone.hf.grammar import MAX_NEW_TOKENS, Grammars, JsonGuide, ReplyState
from trace_ves.backbone.hf.plans import PromptTokens, plan_batch, plan_memory, split_batch
from trace_ves.backbone.hf.vision import FrameFeatures, PendingFrame, VisionEncoder
from trace_ves.backbone.provider import Completion, FinishReason, TextPart
from trace_ves.core import BackboneError, Frame, MissingExtraError
from trace_ves.records import Usage

if TYPE_CHECKING:
    from trace_ves.backbone.hf.combining_queue import LocalRequest
    from trace_ves.backbone.hf.loading import Loaded

_CACHE_SHARE: Final = 0.2  # Of the free memory, for the keys and values of prefixes


class ChatFormatter:
    """Turns requests into chat messages and prompt tokens by the checkpoint's own chat template."""

    def __init__(self, tokenizer: Any, *, chat_template: str | None = None, image_token_id: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._chat_template = chat_template
        self._image_token_id = image_token_id
        names = sorted(tokenizer.get_added_vocab(), key=len, reverse=True)
        self._reserved = re.compile("|".join(re.escape(name) for name in names)) if names else None

    def messages(
        self, request: LocalRequest, picture: Callable[[Frame], dict[str, Any]] = lambda _: {}
    ) -> list[dict[str, Any]]:
        """Chat messages; `picture` gives the fields of an image entry. Every text ends its line."""
        content: list[dict[str, Any]] = [
            self._text(f"{item.text}\n") if isinstance(item, TextPart) else {"type": "image"} | picture(item)
            for item in request.content
        ]
        messages = [{"role": "user", "content": content}]
        for repair in request.repairs:
            messages.append({"role": "assistant", "content": [self._text(repair.reply)]})
            messages.append({"role": "user", "content": [self._text(repair.instruction)]})
        return messages

    def prompt(self, request: LocalRequest, frames: Sequence[tuple[str, int]]) -> PromptTokens:
        """The tokens of a request whose frames have these keys and numbers of tokens."""
        text = self._tokenizer.apply_chat_template(
            self.messages(request),
            chat_template=self._chat_template,
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
        )
        template_ids = self._tokenizer(text, add_special_tokens=False).input_ids  # with one token for each frame
        frame_count = template_ids.count(self._image_token_id)
        if frame_count != len(frames):
            raise BackboneError(
                f"The model's chat template placed {frame_count} of {len(frames)} frames; "
                "use a checkpoint whose template takes images."
            )
        ids: list[int] = []
        frame_ends: list[int] = []
        sizes = (tokens for _, tokens in frames)
        for token in template_ids:
            if token == self._image_token_id:
                ids += [token] * next(sizes)
                frame_ends.append(len(ids))
            else:
                ids.append(token)
        return PromptTokens(tuple(ids), tuple(name for name, _ in frames), tuple(frame_ends))

    def _text(self, text: str) -> dict[str, Any]:
        """A text entry. Control tokens in the text are split, so that they have no effect."""
        if self._reserved is not None:
            text = self._reserved.sub(lambda match: f"{match[0][:1]} {match[0][1:]}", text)
        return {"type": "text", "text": text}


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request, ready for the GPU."""

    request: LocalRequest
    prompt: PromptTokens
    frames: Mapping[str, FrameFeatures | PendingFrame]
    matcher: Any


class SharedPrefixModel:
    """Answers batches of requests from shared prefills."""

    def __init__(self, loaded: Loaded, *, max_new_tokens: int = MAX_NEW_TOKENS) -> None:
        model = loaded.model
        self._tokenizer = loaded.tokenizer
        # the processor's template handles images; None uses the tokenizer's
        template = getattr(loaded.processor, "chat_template", None)
        self._formatter = ChatFormatter(
            loaded.tokenizer, chat_template=template, image_token_id=model.config.image_token_id
        )
        self._max_new_tokens = max_new_tokens
        self._grammars = Grammars(loaded.tokenizer, model.config.get_text_config().vocab_size)
        self._most_tokens: int = model.config.get_text_config().max_position_embeddings
        self._device = model.device
        free_bytes = _free_bytes(model.device)
        cache_bytes = int(_CACHE_SHARE * free_bytes)
        self._decoder = BatchDecoder(model, cache_bytes=cache_bytes)
        self.limits = plan_memory(  # Lowered if a micro-batch does not fit
            self._decoder.shape, free_bytes=free_bytes - cache_bytes, own_tokens=2 * max_new_tokens
        )
        self.vision = VisionEncoder(model, loaded.image_processor)

    def prepare(self, requests: Sequence[LocalRequest]) -> list[PreparedRequest]:
        """Do the work on the CPU before the turn of these requests."""
        frames = {id(frame): frame for request in requests for frame in request.frames}  # bundles share frames
        keys = dict(zip(frames, self.vision.keys(list(frames.values())), strict=True))
        pending = self.vision.begin({keys[number]: frame for number, frame in frames.items()})
        prepared = []
        matchers: dict[str, Any] = {}
        for request in requests:
            row_keys = [keys[id(frame)] for frame in request.frames]
            prompt = self._formatter.prompt(request, [(key, pending[key].tokens) for key in row_keys])
            check_length(len(prompt.ids), self._max_new_tokens, self._most_tokens)
            if (schema := json.dumps(request.schema)) not in matchers:
                matchers[schema] = self._grammars.matcher(request.schema)
            row_frames = {key: pending[key] for key in row_keys}
            prepared.append(PreparedRequest(request, prompt, row_frames, matchers[schema]))
        return prepared

    def complete(self, requests: Sequence[PreparedRequest], answer: Callable[[int, Completion], None]) -> None:
        """Answer the requests, each as soon as its reply is complete."""
        features = self.vision.features({name: one for request in requests for name, one in request.frames.items()})
        rows = [request.prompt for request in requests]
        limits = self.limits
        for batch in split_batch(rows, max_rows=limits.max_rows, max_prefix_tokens=limits.max_prefix_tokens):
            self._answer([(number, requests[number]) for number in batch], features, answer)

    def _answer(
        self,
        batch: Sequence[tuple[int, PreparedRequest]],
        features: Mapping[str, FrameFeatures],
        answer: Callable[[int, Completion], None],
    ) -> None:
        """Answer a micro-batch. If it does not fit into memory or gives non-finite numbers, answer it in two halves."""
        try:
            self._decode(batch, features, answer)
        except torch.OutOfMemoryError:
            self.limits = self.limits.halve()
            if len(batch) == 1:
                raise BackboneError(
                    f"The memory of the GPU is too small for a request with {len(batch[0][1].prompt.frames)} frames; "
                    "use fewer or smaller frames, or a smaller model."
                ) from None
        except NonFiniteError:
            if len(batch) == 1:
                raise BackboneError(
                    "The model computed numbers that are not finite for a request; its weights may be damaged, or too "
                    "large for 16 bits."
                ) from None
        else:
            return
        self._decoder.release()
        half = len(batch) // 2
        self._answer(batch[:half], features, answer)
        self._answer(batch[half:], features, answer)

    def _decode(
        self,
        batch: Sequence[tuple[int, PreparedRequest]],
        features: Mapping[str, FrameFeatures],
        answer: Callable[[int, Completion], None],
    ) -> None:
        replies = [ReplyState.of(one.request, one.matcher, self._device) for _, one in batch]
        plan = plan_batch([one.prompt for _, one in batch])

        def end(row: int) -> None:
            number, one = batch[row]
            slot = plan.slots[row]  # its prefix may have been computed for another row of this batch or an earlier one
            cached = self._decoder.reused[row] if slot.leader == row else slot.end - slot.start
            usage = Usage(len(one.prompt.ids), cached, len(replies[row].tokens))
            answer(number, _completion(self._tokenizer, replies[row], usage))

        self._decoder.generate(
            plan,
            features,
            JsonGuide(replies, self._grammars.vocabulary, end=end),
            max_new_tokens=self._max_new_tokens,
            prefill_tokens=self.limits.prefill_tokens,
        )
        for row, reply in enumerate(replies):
            if not reply.over:
                end(row)


def _completion(tokenizer: Any, reply: ReplyState, usage: Usage) -> Completion:
    text = tokenizer.decode(reply.tokens, skip_special_tokens=True)
    return Completion(text, usage, FinishReason.STOP if reply.over else FinishReason.LENGTH)


def check_length(prompt_tokens: int, reply_tokens: int, most_tokens: int) -> None:
    """Raise a `BackboneError` if a prompt and its reply are longer than the model's context."""
    if prompt_tokens + reply_tokens > most_tokens:
        raise BackboneError(
            f"A request needs {prompt_tokens + reply_tokens} tokens with its reply, and the model takes {most_tokens}; "
            "use fewer or smaller frames."
        )


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class PlainModel:
    """Answers requests one by one, through the model's own `generate`."""

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

    def prepare(self, requests: Sequence[LocalRequest]) -> Sequence[LocalRequest]:
        """Return the requests: the model's own processor prepares them later."""
        return requests

    def complete(self, requests: Sequence[LocalRequest], answer: Callable[[int, Completion], None]) -> None:
        """Answer the requests one by one."""
        for number, request in enumerate(requests):
            answer(number, self._complete(request))

    def _complete(self, request: LocalRequest) -> Completion:
        inputs = self._processor.apply_chat_template(
            self._formatter.messages(request, _picture),
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            add_generation_prompt=True,
            enable_thinking=False,  # the grammar would constrain the thoughts to JSON too
        ).to(self._model.device, self._model.dtype)
        prompt_tokens = inputs["input_ids"].shape[1]
        check_length(prompt_tokens, self._max_new_tokens, self._most_tokens)
        reply = ReplyState.of(request, self._grammars.matcher(request.schema), self._model.device)
        end = self._processor.tokenizer.eos_token_id
        guided = _GuidedLogits(JsonGuide([reply], self._grammars.vocabulary), self._grammars.vocabulary, end)
        self._model.generate(
            **inputs,
            do_sample=False,  # the guide adds noise, after which the most likely token is a draw
            max_new_tokens=self._max_new_tokens,
            eos_token_id=end,
            pad_token_id=end,
            logits_processor=LogitsProcessorList([guided]),
        )
        return _completion(self._processor.tokenizer, reply, Usage(prompt_tokens, 0, len(reply.tokens)))


class _GuidedLogits:
    """A logits processor, which `generate` calls before every token."""

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
    from PIL import Image  # only `PlainModel` needs it

    return {"image": Image.fromarray(frame.rgb())}
