"""A request to a local model, and its prompt: the checkpoint's chat template, with placeholder tokens for frames."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from trace_ves.backbone.hf.plans import PromptTokens
from trace_ves.backbone.provider import TextPart
from trace_ves.core import BackboneError, Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trace_ves.backbone.provider import RepairTurn

ContentItem: TypeAlias = TextPart | Frame


@dataclass(frozen=True, slots=True)
class LocalRequest:
    """One request to a local model."""

    content: tuple[ContentItem, ...]  # text and frames, in the order in which the model reads them
    schema: Mapping[str, Any]  # JSON schema of the reply
    repairs: tuple[RepairTurn, ...] = ()
    temperature: float = 0.0
    seed: int = 0

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames, in order."""
        return tuple(item for item in self.content if isinstance(item, Frame))


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
        """The tokens of a request whose frames have these names and take this many tokens each."""
        text = self._tokenizer.apply_chat_template(
            self.messages(request),
            chat_template=self._chat_template,
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
        )
        short = self._tokenizer(text, add_special_tokens=False).input_ids
        placed = short.count(self._image_token_id)
        if placed != len(frames):
            raise BackboneError(
                f"The model's chat template placed {placed} of {len(frames)} frames; "
                "use a checkpoint whose template takes images."
            )
        ids, frame_ends = list[int](), list[int]()
        sizes = (tokens for _, tokens in frames)
        for token in short:
            if token == self._image_token_id:
                ids += [token] * next(sizes)
                frame_ends.append(len(ids))
            else:
                ids.append(token)
        return PromptTokens(tuple(ids), tuple(name for name, _ in frames), tuple(frame_ends))

    def _text(self, text: str) -> dict[str, Any]:
        """A text entry in which control tokens are broken up: one that is written in a question must not act as one."""
        if self._reserved is not None:
            text = self._reserved.sub(lambda found: f"{found[0][:1]} {found[0][1:]}", text)
        return {"type": "text", "text": text}
