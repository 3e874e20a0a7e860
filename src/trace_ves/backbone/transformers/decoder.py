"""From planned rows to tokens: one prefill for each distinct prefix, one for all suffixes, then steps.

Drives the model's own layers (Qwen3-VL, with experts too, and Qwen2.5-VL). Knows tokens and features of frames; nothing
of prompts or JSON.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch

from trace_ves.backbone.transformers.attention import CHUNK_TOKENS, ReadShape
from trace_ves.backbone.transformers.batch_plan import PrefixSlot
from trace_ves.backbone.transformers.kv_store import (
    ATTENTION_NAME,
    KVStore,
    PrefixWriter,
    StoreShape,
    SuffixWriter,
)
from trace_ves.backbone.transformers.memory_plan import PREFILL_TOKENS, ModelShape
from trace_ves.backbone.transformers.prefix_cache import PrefixCache
from trace_ves.backbone.transformers.step import Step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.backbone.transformers.batch_plan import BatchPlan
    from trace_ves.backbone.transformers.step import Sampler
    from trace_ves.backbone.transformers.vision import FrameFeatures

MODEL_TYPES: Final = frozenset({"qwen3_vl", "qwen3_vl_moe", "qwen2_5_vl"})
"""The architectures that are driven here; others are asked through their own `generate`."""
_OWN_TOKENS_STEP: Final = 256
_MOST_GRAPHS: Final = 32


class NonFiniteError(Exception):
    """The model computed keys, values or logits that are not finite."""


class Guide(Protocol):
    """Says which tokens may come next, and when every row is over."""

    def prepare(self, sampler: Sampler) -> None:
        """Set up the sampler for the next token of each row."""

    def take(self, tokens: Sequence[int]) -> bool:
        """Note what was chosen; False once every row is over."""


class Unguided:
    """The most likely tokens, for as many steps as allowed."""

    def prepare(self, sampler: Sampler) -> None:
        """Nothing is forbidden."""

    def take(self, tokens: Sequence[int]) -> bool:
        """Never over."""
        return bool(tokens)


class BatchDecoder:
    """Answers rows with one model. Not to be shared among threads."""

    def __init__(self, model: Any, *, cache_bytes: int = 0) -> None:
        self._model = model
        self._cache = PrefixCache(cache_bytes)
        self.reused: dict[int, int] = {}
        """Tokens of each prefilled row of the last batch that were found in the cache."""
        self._language_model = model.model.language_model
        self._language_model.set_attn_implementation(ATTENTION_NAME)
        self._memory: torch.Tensor | None = None
        self._steps: OrderedDict[tuple[StoreShape, ReadShape, int], Step] = OrderedDict()

    @property
    def shape(self) -> ModelShape:
        """What decides how many bytes a token takes."""
        config = self._language_model.config
        return ModelShape(
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            key_heads=config.num_key_value_heads,
            head_size=self._head_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            vocabulary=config.vocab_size,
            bytes_per_number=self._model.dtype.itemsize,
        )

    @property
    def _head_size(self) -> int:
        config = self._language_model.config
        return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)

    def forget(self) -> None:
        """Drop all cached prefixes."""
        self._cache.clear()

    def release(self) -> None:
        """Give back the memory of the store, of the cache and of captured steps."""
        self._cache.clear()
        self._steps.clear()
        self._memory = None
        if self._model.device.type == "cuda":
            torch.cuda.empty_cache()

    def generate(
        self,
        plan: BatchPlan,
        features: Mapping[str, FrameFeatures],
        guide: Guide,
        *,
        max_new_tokens: int,
        prefill_tokens: int = PREFILL_TOKENS,
    ) -> list[list[int]]:
        """New tokens of each row: until the guide has enough, at most `max_new_tokens`. Raises `NonFiniteError`."""
        with torch.inference_mode():
            step, logits = self._start(plan, features, max_new_tokens, prefill_tokens)
            guide.prepare(step.sampler)
            tokens = step.sampler.pick(logits)
            chosen: list[list[int]] = []
            while True:
                chosen.append(tokens.tolist()[: len(plan.rows)])
                if not guide.take(chosen[-1]) or len(chosen) == max_new_tokens:
                    return [list(row) for row in zip(*chosen, strict=True)]
                guide.prepare(step.sampler)
                tokens = step.next(tokens)

    def first_logits(
        self, plan: BatchPlan, features: Mapping[str, FrameFeatures], *, prefill_tokens: int = PREFILL_TOKENS
    ) -> torch.Tensor:
        """Logits of the first new token of each row."""
        with torch.inference_mode():
            return self._start(plan, features, 1, prefill_tokens)[1][: len(plan.rows)]

    def _start(
        self, plan: BatchPlan, features: Mapping[str, FrameFeatures], max_new_tokens: int, prefill_tokens: int
    ) -> tuple[Step, torch.Tensor]:
        """Both prefills: a step that is ready to run, and the logits after each row's suffix."""
        rows = plan.rows
        lengths = [len(row.suffix_ids) for row in rows]
        step = self._step_for(plan, max(lengths) + max_new_tokens)
        step.store.clear(plan.prefix_tokens)
        self.reused = {leader: self._reuse(plan, leader, step.store) for leader in plan.leaders}
        positions = {
            leader: self._prefill(plan, leader, features, step.store, prefill_tokens) for leader in plan.leaders
        }
        firsts = [int(positions[slot.leader][row.prefix_tokens]) for row, slot in zip(rows, plan.slots, strict=True)]
        spare = step.store.shape.rows - len(rows)
        slots = (*plan.slots, *[PrefixSlot(0, 0, 0)] * spare)
        step.set_rows(slots, [*lengths, *[1] * spare], [*firsts, *[0] * spare])
        logits = self._prefill_suffixes(plan, lengths, step)
        if not bool(step.store.is_finite & torch.isfinite(logits).all()):
            raise NonFiniteError
        for leader in plan.leaders:
            self._cache.put(rows[leader], step.store.prefix(plan.slots[leader]))
        return step, logits

    def _reuse(self, plan: BatchPlan, leader: int, store: KVStore) -> int:
        """Put what is cached of a leading row's prefix into the store; gives the number of its tokens."""
        found = self._cache.find(plan.rows[leader])
        if found is None:
            return 0
        tokens = int(found.shape[-2])
        store.prefix(plan.slots[leader])[..., :tokens, :] = found
        return tokens

    def _step_for(self, plan: BatchPlan, own_tokens: int) -> Step:
        """The step for this many rows and tokens, rounded up so that a captured one is often found again."""
        config = self._language_model.config
        shape = StoreShape(
            layers=config.num_hidden_layers,
            key_heads=config.num_key_value_heads,
            head_size=self._head_size,
            rows=_rounded_rows(len(plan.rows)),
            prefix_tokens=_rounded_up(max(plan.prefix_tokens, 1), _prefix_step(plan.prefix_tokens)),
            own_tokens=_rounded_up(own_tokens, _OWN_TOKENS_STEP),
        )
        if self._memory is None or self._memory.numel() < shape.elements:
            self._steps.clear()  # captured steps point into the old memory
            self._memory = None
            self._memory = torch.zeros(shape.elements, dtype=self._model.dtype, device=self._model.device)
        return self._step_in(shape, _rounded_reads(plan, shape.prefix_tokens), self._memory)

    def _prefill(
        self,
        plan: BatchPlan,
        leader: int,
        features: Mapping[str, FrameFeatures],
        store: KVStore,
        chunk_tokens: int,
    ) -> torch.Tensor:
        """Put what is missing of a leading row's prefix into the store, chunk by chunk.

        Gives the temporal position of each token of the row.
        """
        row = plan.rows[leader]
        device = self._model.device
        ids = torch.tensor([row.ids], device=device)
        seen = [features[frame] for frame in row.frames]
        is_frame = ids == self._model.config.image_token_id
        positions = self._positions(ids, is_frame, seen)
        reused = self.reused[leader]
        if row.prefix_tokens == reused:
            return positions[0, 0].cpu()
        prefix = slice(0, row.prefix_tokens)
        embeddings = self._language_model.get_input_embeddings()(ids[:, prefix])
        where = is_frame[:, prefix]
        levels = [torch.cat(level) for level in zip(*(one.levels for one in seen), strict=True)]
        embeddings[where] = levels[0].to(embeddings.dtype)
        frame_tokens = [0, *torch.cumsum(where[0].long(), 0).tolist()]
        for done in range(reused, row.prefix_tokens, chunk_tokens):
            chunk = slice(done, min(done + chunk_tokens, row.prefix_tokens))
            shown = slice(frame_tokens[chunk.start], frame_tokens[chunk.stop])
            writer = PrefixWriter(store, plan.slots[leader].start, done)
            options: dict[str, Any] = {"attending": writer} if done else {}
            if levels[1:] and shown.start < shown.stop:
                deeper = [level[shown] for level in levels[1:]]
                options |= {"visual_pos_masks": where[:, chunk], "deepstack_visual_embeds": deeper}
            self._language_model(
                inputs_embeds=embeddings[:, chunk],
                position_ids=positions[:, :, chunk],
                past_key_values=writer,
                use_cache=True,
                **options,
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

    def _prefill_suffixes(self, plan: BatchPlan, lengths: Sequence[int], step: Step) -> torch.Tensor:
        """Prefill the suffixes of all rows at once, without padding.

        Gives the logits after the last token of each; zeros for rows of the step that no request uses.
        """
        device = self._model.device
        counts = torch.tensor(lengths)
        ends = counts.cumsum(0)
        rows = torch.repeat_interleave(torch.arange(len(lengths)), counts)
        columns = torch.arange(int(ends[-1])) - torch.repeat_interleave(ends - counts, counts)
        rows, columns = rows.to(device), columns.to(device)
        ids = torch.tensor([[token for row in plan.rows for token in row.suffix_ids]], device=device)
        writer = SuffixWriter(step.store, plan.slots, lengths, rows=rows, columns=columns)
        hidden = self._language_model(
            inputs_embeds=self._language_model.get_input_embeddings()(ids),
            position_ids=(step.firsts[rows] + columns).view(1, 1, -1).expand(3, -1, -1),
            past_key_values=writer,
            use_cache=True,
            attending=writer,
        ).last_hidden_state
        last = self._model.lm_head(hidden[0, (ends - 1).to(device)]).float()
        return torch.nn.functional.pad(last, (0, 0, 0, step.store.shape.rows - len(lengths)))

    def _step_in(self, shape: StoreShape, reads: ReadShape, memory: torch.Tensor) -> Step:
        key = (shape, reads, memory.data_ptr())
        if key not in self._steps:
            while len(self._steps) >= _MOST_GRAPHS:
                self._steps.popitem(last=False)
            self._steps[key] = Step(self._model, KVStore(shape, memory), reads, self._graph_pool)
        self._steps.move_to_end(key)
        return self._steps[key]

    def _graph_pool(self) -> Any:
        """The pool of a captured step that is still there: PyTorch gives up a pool with the last graph in it."""
        return next((step.pool for step in self._steps.values() if step.pool is not None), None)


def _rounded_up(number: int, step: int) -> int:
    return -(-number // step) * step


def _rounded_rows(rows: int) -> int:
    """1, 2 or 4 rows, then multiples of 4, then of 16."""
    return rows if rows < 3 else _rounded_up(rows, 4 if rows <= 16 else 16)


def _rounded_reads(plan: BatchPlan, capacity: int) -> ReadShape:
    """A shape that holds the reads of the batch, and is the same for most batches: powers of 4."""
    seats, parts = ReadShape.of(plan.slots, capacity)
    if len(plan.leaders) == 1:
        return ReadShape(_rounded_rows(len(plan.rows)), capacity // CHUNK_TOKENS)
    return ReadShape(_power_of_4(seats), min(_power_of_4(parts), capacity // CHUNK_TOKENS))


def _power_of_4(least: int) -> int:
    return 1 << 2 * max(1, -(-(least - 1).bit_length() // 2))


def _prefix_step(tokens: int) -> int:
    """Granularity of the space for prefixes: less than an eighth of it."""
    pieces = max(tokens // (8 * CHUNK_TOKENS), 1)
    return CHUNK_TOKENS << (pieces.bit_length() - 1)
