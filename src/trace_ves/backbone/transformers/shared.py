"""Qwen3-VL and Qwen2.5-VL: a batch of asks answered from shared prefills, each frame encoded once.

Puts together what the other modules know: names for frames, tokens, features, a plan, a guide, the decoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.backbone.provider import Completion, Finish
from trace_ves.backbone.transformers.asking import Scribe
from trace_ves.backbone.transformers.decoder import Decoder
from trace_ves.backbone.transformers.forest import plant, waves
from trace_ves.backbone.transformers.grammar import MAX_NEW_TOKENS, Grammars, JsonGuide
from trace_ves.backbone.transformers.vision import Eyes, frame_key
from trace_ves.core import BackboneError, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.backbone.transformers.asking import LocalAsk
    from trace_ves.backbone.transformers.forest import Forest, Row
    from trace_ves.backbone.transformers.loading import Loaded
    from trace_ves.backbone.transformers.vision import FrameFeatures

MAX_ROWS: Final = 16
MAX_PREFIX_TOKENS: Final = 65_536
"""Larger batches are answered in portions."""


class SharedModel:
    """Answers batches of asks."""

    def __init__(self, loaded: Loaded, *, max_new_tokens: int = MAX_NEW_TOKENS) -> None:
        model = loaded.model
        self._tokenizer = loaded.tokenizer
        self._scribe = Scribe(
            loaded.tokenizer, chat_template=loaded.chat_template, image_token_id=model.config.image_token_id
        )
        self._max_new_tokens = max_new_tokens
        self._grammars = Grammars(loaded.tokenizer, model.config.get_text_config().vocab_size)
        self._most_tokens: int = model.config.get_text_config().max_position_embeddings
        self._decoder = Decoder(model)
        self._device = model.device
        self.eyes = Eyes(model, loaded.image_processor)

    def complete(self, asks: Sequence[LocalAsk]) -> list[Completion]:
        """One completion for each ask, in order."""
        frames = {id(frame): frame for ask in asks for frame in ask.frames}  # bundles share frames: each is named once
        names = {number: frame_key(frame) for number, frame in frames.items()}
        features = self.eyes.look({names[number]: frame for number, frame in frames.items()})
        rows = [
            self._scribe.row(
                ask, [(name, features[name].tokens) for name in (names[id(frame)] for frame in ask.frames)]
            )
            for ask in asks
        ]
        self._refuse_what_is_too_long(rows)
        completions: dict[int, Completion] = {}
        for wave in waves(rows, max_rows=MAX_ROWS, max_prefix_tokens=MAX_PREFIX_TOKENS):
            answers = self._answer([rows[i] for i in wave], [asks[i] for i in wave], features)
            completions.update(zip(wave, answers, strict=True))
        return [completions[number] for number in range(len(asks))]

    def _refuse_what_is_too_long(self, rows: Sequence[Row]) -> None:
        longest = max(len(row.ids) for row in rows) + self._max_new_tokens
        if longest > self._most_tokens:
            raise BackboneError(
                f"A request needs {longest} tokens with its reply, and the model takes {self._most_tokens}; "
                "use fewer or smaller frames."
            )

    def _answer(
        self, rows: Sequence[Row], asks: Sequence[LocalAsk], features: Mapping[str, FrameFeatures]
    ) -> list[Completion]:
        replies = [self._grammars.reply(ask, self._device) for ask in asks]
        guide = JsonGuide(replies, self._grammars.vocabulary)
        forest = plant(rows)
        tokens = self._decoder.generate(forest, features, guide, max_new_tokens=self._max_new_tokens)
        return [
            Completion(
                self._tokenizer.decode(said[: reply.length], skip_special_tokens=True),
                Usage(len(rows[number].ids), _shared_tokens(forest, number), reply.length),
                Finish.STOP if reply.over else Finish.LENGTH,
            )
            for number, (reply, said) in enumerate(zip(replies, tokens, strict=True))
        ]


def _shared_tokens(forest: Forest, number: int) -> int:
    """Tokens of a row that were computed for another one."""
    place = forest.places[number]
    return 0 if place.leader == number else place.end - place.start
