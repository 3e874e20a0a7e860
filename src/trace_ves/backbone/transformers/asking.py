"""What a local model is asked, and how that becomes tokens: the chat template, the words, a place for each frame.

Knows the checkpoint's tokenizer and chat template. Knows nothing of torch; how many tokens a frame takes it is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from trace_ves.backbone.content import TextPart
from trace_ves.backbone.transformers.forest import Row
from trace_ves.core import BackboneError, Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trace_ves.backbone.provider import Exchange

Sight: TypeAlias = TextPart | Frame


@dataclass(frozen=True, slots=True)
class LocalAsk:
    """One request to a local model."""

    sights: tuple[Sight, ...]
    """Words and frames, in the order in which the model reads them."""
    schema: Mapping[str, Any]
    """JSON schema of the reply."""
    exchanges: tuple[Exchange, ...] = ()
    temperature: float = 0.0
    seed: int = 0

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames, in order."""
        return tuple(sight for sight in self.sights if isinstance(sight, Frame))


def _no_picture(_: Frame) -> dict[str, Any]:
    return {}


class Scribe:
    """Writes an ask the way the checkpoint was trained to read it."""

    def __init__(self, tokenizer: Any, *, chat_template: str | None = None, image_token_id: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._chat_template = chat_template
        self._image_token_id = image_token_id
        names = sorted(tokenizer.get_added_vocab(), key=len, reverse=True)
        self._reserved = re.compile("|".join(re.escape(name) for name in names)) if names else None

    def messages(self, ask: LocalAsk, picture: Callable[[Frame], dict[str, Any]] = _no_picture) -> list[dict[str, Any]]:
        """The chat, with what `picture` says of each frame. Words end their line, so that they do not run together."""
        content: list[dict[str, Any]] = [
            self._words(f"{sight.text}\n") if isinstance(sight, TextPart) else {"type": "image"} | picture(sight)
            for sight in ask.sights
        ]
        messages = [{"role": "user", "content": content}]
        for exchange in ask.exchanges:
            messages.append({"role": "assistant", "content": [self._words(exchange.reply)]})
            messages.append({"role": "user", "content": [self._words(exchange.ask_again)]})
        return messages

    def row(self, ask: LocalAsk, frames: Sequence[tuple[str, int]]) -> Row:
        """The tokens of an ask, whose frames have these names and take this many tokens each."""
        text = self._tokenizer.apply_chat_template(
            self.messages(ask), chat_template=self._chat_template, tokenize=False, add_generation_prompt=True
        )
        short = self._tokenizer(text, add_special_tokens=False).input_ids
        placed = short.count(self._image_token_id)
        if placed != len(frames):
            raise BackboneError(
                f"The model's chat template placed {placed} of {len(frames)} frames; "
                "use a checkpoint whose template takes images."
            )
        ids: list[int] = []
        prefix_tokens = 0
        sizes = (tokens for _, tokens in frames)
        for token in short:
            if token == self._image_token_id:
                ids += [token] * next(sizes)
                prefix_tokens = len(ids)
            else:
                ids.append(token)
        return Row(tuple(ids), tuple(name for name, _ in frames), prefix_tokens)

    def _words(self, text: str) -> dict[str, Any]:
        """Words as words: a control token that somebody wrote into a question must not act as one."""
        if self._reserved is not None:
            text = self._reserved.sub(lambda found: f"{found[0][:1]} {found[0][1:]}", text)
        return {"type": "text", "text": text}
