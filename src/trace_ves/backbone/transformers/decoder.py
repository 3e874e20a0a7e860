"""From planned rows to tokens: one prefill for each distinct prefix, one for all words, then steps of all rows at once.

Drives the model's own layers (Qwen3-VL, Qwen2.5-VL). Knows tokens and features of frames; nothing of prompts or JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import torch

from trace_ves.backbone.transformers.attention import CHUNK_TOKENS
from trace_ves.backbone.transformers.forest import Place
from trace_ves.backbone.transformers.kv_store import (
    ATTENTION_NAME,
    KVStore,
    PrefixWriter,
    StoreShape,
    WordsWriter,
)
from trace_ves.backbone.transformers.step import Step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.backbone.transformers.forest import Forest, Row
    from trace_ves.backbone.transformers.step import Choice
    from trace_ves.backbone.transformers.vision import FrameFeatures

MODEL_TYPES: Final = frozenset({"qwen3_vl", "qwen2_5_vl"})
"""The architectures that are driven here; others are asked through their own `generate`."""
_OWN_TOKENS_STEP: Final = 256
_MOST_GRAPHS: Final = 8


class Guide(Protocol):
    """Says which tokens may come next, and when every row is over."""

    def prepare(self, choice: Choice) -> None:
        """Set up the choice of the next token of each row."""

    def take(self, tokens: Sequence[int]) -> bool:
        """Note what was chosen; False once every row is over."""


class Unguided:
    """The most likely tokens, for as many steps as allowed."""

    def prepare(self, choice: Choice) -> None:
        """Nothing is forbidden."""

    def take(self, tokens: Sequence[int]) -> bool:
        """Never over."""
        return bool(tokens)


class Decoder:
    """Answers rows with one model. Not to be shared among threads."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._words = model.model.language_model
        self._words.set_attn_implementation(ATTENTION_NAME)
        self._memory: torch.Tensor | None = None
        self._steps: dict[tuple[StoreShape, int], Step] = {}

    def generate(
        self, forest: Forest, features: Mapping[str, FrameFeatures], guide: Guide, *, max_new_tokens: int
    ) -> list[list[int]]:
        """New tokens of each row: until the guide has enough, at most `max_new_tokens`."""
        with torch.inference_mode():
            step, logits = self._start(forest, features, max_new_tokens)
            guide.prepare(step.choice)
            tokens = step.choice.pick(logits)
            chosen: list[list[int]] = []
            while True:
                chosen.append(tokens.tolist()[: len(forest.rows)])
                if not guide.take(chosen[-1]) or len(chosen) == max_new_tokens:
                    return [list(row) for row in zip(*chosen, strict=True)]
                guide.prepare(step.choice)
                tokens = step.next(tokens)

    def first_logits(self, forest: Forest, features: Mapping[str, FrameFeatures]) -> torch.Tensor:
        """Logits of the first new token of each row."""
        with torch.inference_mode():
            return self._start(forest, features, 1)[1][: len(forest.rows)]

    def _start(
        self, forest: Forest, features: Mapping[str, FrameFeatures], max_new_tokens: int
    ) -> tuple[Step, torch.Tensor]:
        """Both prefills: a step that is ready to go on, and the logits after the words of each row."""
        rows = forest.rows
        lengths = [len(row.own_ids) for row in rows]
        step = self._step_for(forest, max(lengths) + max_new_tokens)
        positions = {leader: self._prefill(forest, leader, features, step.store) for leader in forest.leaders}
        firsts = [
            int(positions[place.leader][row.prefix_tokens]) for row, place in zip(rows, forest.places, strict=True)
        ]
        spare = step.store.shape.rows - len(rows)
        places = (*forest.places, *[Place(0, 0, 0)] * spare)
        lengths += [1] * spare
        step.set_rows(places, lengths, [*firsts, *[0] * spare])
        return step, self._read_words(rows, places, lengths, step)

    def _step_for(self, forest: Forest, own_tokens: int) -> Step:
        """The step for this many rows and tokens, rounded up so that a captured one is often found again."""
        config = self._words.config
        head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = StoreShape(
            layers=config.num_hidden_layers,
            key_heads=config.num_key_value_heads,
            head_size=head_size,
            rows=_rounded_rows(len(forest.rows)),
            prefix_tokens=_rounded_up(max(forest.prefix_tokens, 1), _prefix_step(forest.prefix_tokens)),
            own_tokens=_rounded_up(own_tokens, _OWN_TOKENS_STEP),
        )
        if self._memory is None or self._memory.numel() < shape.elements:
            self._steps.clear()  # captured steps point into the old memory
            self._memory = None
            self._memory = torch.zeros(shape.elements, dtype=self._model.dtype, device=self._model.device)
        return self._step_in(shape, self._memory)

    def _prefill(
        self, forest: Forest, leader: int, features: Mapping[str, FrameFeatures], store: KVStore
    ) -> torch.Tensor:
        """Put the prefix of a leading row into the store; gives the temporal position of each token of the row."""
        row = forest.rows[leader]
        device = self._model.device
        ids = torch.tensor([row.ids], device=device)
        seen = [features[frame] for frame in row.frames]
        is_frame = ids == self._model.config.image_token_id
        positions = self._positions(ids, is_frame, seen)
        if not row.prefix_tokens:
            return positions[0, 0].cpu()
        prefix = slice(0, row.prefix_tokens)
        embeddings = self._words.get_input_embeddings()(ids[:, prefix])
        where = is_frame[:, prefix]
        levels = [torch.cat(level) for level in zip(*(one.levels for one in seen), strict=True)]
        embeddings[where] = levels[0].to(embeddings.dtype)
        deeper = {"visual_pos_masks": where, "deepstack_visual_embeds": levels[1:]} if levels[1:] else {}
        self._words(
            inputs_embeds=embeddings,
            position_ids=positions[:, :, prefix],
            past_key_values=PrefixWriter(store, forest.places[leader].start),
            use_cache=True,
            **deeper,
        )
        return positions[0, 0].cpu()

    def _positions(self, ids: torch.Tensor, is_frame: torch.Tensor, seen: Sequence[FrameFeatures]) -> torch.Tensor:
        """Positions in time, height and width of every token, by the model's own rule. 3 x 1 x tokens."""
        if not seen:
            return torch.arange(ids.shape[1], device=ids.device).view(1, 1, -1).expand(3, 1, -1)
        grids = torch.tensor([one.grid for one in seen])
        # On the CPU: the model's rule loops over frames, and each look at a tensor of the GPU would wait for it.
        positions, _ = self._model.model.get_rope_index(
            ids.cpu(), mm_token_type_ids=is_frame.int().cpu(), image_grid_thw=grids
        )
        return positions.to(ids.device)

    def _read_words(
        self, rows: Sequence[Row], places: Sequence[Place], lengths: Sequence[int], step: Step
    ) -> torch.Tensor:
        """Prefill the words of all rows at once; gives the logits after the last word of each."""
        device = self._model.device
        ids = torch.zeros(len(places), max(lengths), dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, : lengths[number]] = torch.tensor(row.own_ids)
        positions = step.firsts[:, None] + torch.arange(ids.shape[1], device=device)
        writer = WordsWriter(step.store, places, lengths)
        hidden = self._words(
            inputs_embeds=self._words.get_input_embeddings()(ids.to(device)),
            position_ids=positions.expand(3, -1, -1),
            past_key_values=writer,
            use_cache=True,
            attending=writer,
        ).last_hidden_state
        last = hidden[torch.arange(len(places), device=device), step.lengths - 1]
        return self._model.lm_head(last).float()

    def _step_in(self, shape: StoreShape, memory: torch.Tensor) -> Step:
        key = (shape, memory.data_ptr())
        if key not in self._steps:
            while len(self._steps) >= _MOST_GRAPHS:
                self._steps.pop(next(iter(self._steps)))
            self._steps[key] = Step(self._model, KVStore(shape, memory))
        return self._steps[key]


def _rounded_up(number: int, step: int) -> int:
    return -(-number // step) * step


def _rounded_rows(rows: int) -> int:
    """1, 2 or 4 rows, then multiples of 4."""
    return rows if rows < 3 else _rounded_up(rows, 4)


def _prefix_step(tokens: int) -> int:
    """How coarsely the room for prefixes is rounded: to less than an eighth of it."""
    pieces = max(tokens // (8 * CHUNK_TOKENS), 1)
    return CHUNK_TOKENS << (pieces.bit_length() - 1)
