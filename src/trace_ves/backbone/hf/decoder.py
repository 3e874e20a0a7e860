"""Decodes the rows of a batch plan with Qwen3-VL (also with experts) or Qwen2.5-VL: one prefill, then steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from cachetools import LRUCache

from trace_ves.backbone.hf.kv_store import KVCache, KVStore, Prefill, attend_prefill, attend_step, find_inside
from trace_ves.backbone.hf.layers import (
    PIECE_TOKENS,
    DecoderLayers,
    Deeper,
    Reads,
    ReadShape,
    compile_on_gpu,
    pieces_of,
)
from trace_ves.backbone.hf.plans import PREFILL_TOKENS, BatchPlan, ModelShape, PromptTokens

if TYPE_CHECKING:
    from trace_ves.backbone.hf.grammar import JsonGuide
    from trace_ves.backbone.hf.vision import FrameFeatures

_BITS: Final = 32
_EVERY_TOKEN: Final = -1


@compile_on_gpu
def _restrict(logits: torch.Tensor, noise: torch.Tensor, allowed: torch.Tensor, bit: torch.Tensor) -> torch.Tensor:
    bits = (allowed.unsqueeze(-1) >> bit) & 1
    return torch.where(bits.flatten(1)[:, : logits.shape[1]].bool(), logits + noise, float("-inf"))


class Sampler:
    """Chooses the next token of each row: the most likely allowed one, after noise is added."""

    def __init__(self, rows: int, vocabulary: int, device: torch.device) -> None:
        words = -(-vocabulary // _BITS)
        self._allowed = torch.full((rows, words), _EVERY_TOKEN, dtype=torch.int32, device=device)
        self._noise = torch.zeros(rows, vocabulary, device=device)
        self._bit = torch.arange(_BITS, dtype=torch.int32, device=device)

    def reset(self) -> None:
        """Allow every token, and remove the noise."""
        self._allowed.fill_(_EVERY_TOKEN)
        self._noise.zero_()

    def allow(self, bits: torch.Tensor) -> None:
        """Allow only these tokens, one bit for each: int32, rows x words. Other rows do not change."""
        self._allowed[: bits.shape[0], : bits.shape[1]].copy_(bits, non_blocking=True)
        self._allowed[: bits.shape[0], bits.shape[1] :] = 0

    def add_noise(self, row: int, temperature: float, random: torch.Generator) -> None:
        """Add Gumbel noise to a row, so that its most likely token is a draw at this temperature."""
        uniform = torch.rand(self._noise.shape[1], generator=random, device=self._noise.device)
        self._noise[row] = -temperature * torch.log(-torch.log(uniform.clamp_min(1e-20)))

    def restrict(self, logits: torch.Tensor) -> torch.Tensor:
        """The logits with noise; minus infinity for tokens that are not allowed."""
        return _restrict(logits, self._noise, self._allowed, self._bit)

    def pick(self, logits: torch.Tensor) -> torch.Tensor:
        """Choose the token of each row."""
        return self.restrict(logits).argmax(dim=-1)


class DecodeStep:
    """Adds one token to each row of a store. `choose` needs the grammar; `advance` runs in parallel with it."""

    def __init__(
        self,
        model: Any,
        layers: DecoderLayers,
        store: KVStore,
        reads: ReadShape,
        *,
        rows: int,
        graph_pool: Callable[[], Any],
    ) -> None:
        self.store = store
        self._rows = rows
        self._graph_pool = graph_pool  # Memory that all captured steps share, because only one runs at a time
        config, device = model.config.get_text_config(), model.device
        self.sampler = Sampler(rows, config.vocab_size, device)
        zeros = torch.zeros(rows, dtype=torch.long, device=device)
        self._starts, self._lengths = zeros, zeros.clone()  # Where the own tokens of each row are, and how many
        self._firsts = zeros.clone()  # The position of the first own token of each row
        self._read_shape = reads
        nothing = [slice(0, 0)] * rows
        self._reads = Reads.of(nothing, nothing, reads).to(device)
        self._ids = zeros.clone()
        self._ids_on_cpu = torch.zeros(rows, dtype=torch.long, pin_memory=device.type == "cuda")
        self._logits = torch.zeros(rows, config.vocab_size, device=device)
        self._model = model
        self._layers = layers
        self.graph: Any = None  # The captured step; others may share its memory while it exists
        self._copy_end: Any = None

    def begin(
        self,
        prefixes: Sequence[slice],
        own: Sequence[slice],
        *,
        lengths: Sequence[int],
        firsts: Sequence[int],
        logits: torch.Tensor,
    ) -> None:
        """Begin a batch in the same store. `firsts` are the positions of the first own tokens."""
        spare = self._rows - len(prefixes)  # unused rows write after all others
        nothing = [slice(0, 0)] * spare
        self._reads.copy_(Reads.of([*prefixes, *nothing], [*own, *nothing], self._read_shape))
        starts = [place.start for place in own] + [own[-1].stop] * spare
        for tensor, numbers in ((self._starts, starts), (self._lengths, lengths), (self._firsts, firsts)):
            tensor.copy_(torch.tensor([*numbers, *[0] * (self._rows - len(numbers))]))
        self._logits[: len(prefixes)].copy_(logits)
        self.sampler.reset()

    def choose(self) -> None:
        """Choose the next token of each row; `tokens` returns them."""
        self._ids.copy_(self.sampler.pick(self._logits))
        self._ids_on_cpu.copy_(self._ids, non_blocking=True)
        if self._ids.is_cuda:
            self._copy_end = torch.cuda.Event()
            self._copy_end.record()

    @property
    def tokens(self) -> list[int]:
        """The last chosen token of each row. Waits for their copy, but not for later work of the GPU."""
        if self._copy_end is not None:
            self._copy_end.synchronize()
        tokens: list[int] = self._ids_on_cpu.tolist()
        return tokens

    def advance(self) -> None:
        """Add the chosen tokens to their rows, and compute the logits after them."""
        if self.graph is not None:
            self.graph.replay()
            return
        self._run()
        if self._ids.is_cuda:
            self._capture()

    def _run(self) -> None:
        positions = (self._firsts + self._lengths).expand(3, -1)
        attend = attend_step(self.store, self._reads, self._starts, self._lengths)
        hidden = self._layers(self._model.get_input_embeddings()(self._ids), positions, attend)
        self._logits.copy_(self._model.lm_head(hidden))
        self._lengths.add_(1)

    def _capture(self) -> None:
        """Record a step without running it. The eager step before it did the initialisation, which is not recorded."""
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._graph_pool()):
            self._run()
        self.graph = graph


MODEL_TYPES: Final = frozenset({"qwen3_vl", "qwen3_vl_moe", "qwen2_5_vl"})  # Others use their own `generate`
_MOST_GRAPHS: Final = 32
_LEAST_TOKENS: Final = 8_192  # In a store on a GPU, where unused tokens cost no time


class NonFiniteError(Exception):
    """The model computed keys, values or logits that are not finite."""


class BatchDecoder:
    """Answers rows with one model. Not thread-safe."""

    def __init__(self, model: Any, *, cache_bytes: int = 0) -> None:
        self._model = model
        self._cache = KVCache(cache_bytes)
        self.reused: dict[int, int] = {}  # Cached tokens of each prefilled row of the last batch
        self._language_model = model.model.language_model
        self._layers = DecoderLayers(self._language_model)
        self._memory: torch.Tensor | None = None
        self._steps: LRUCache[tuple[ReadShape, int], DecodeStep] = LRUCache(_MOST_GRAPHS)

    @property
    def shape(self) -> ModelShape:
        """The sizes that determine how many bytes a token takes."""
        config = self._language_model.config
        return ModelShape(
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            key_heads=config.num_key_value_heads,
            head_size=int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads),
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            vocabulary=config.vocab_size,
            bytes_per_number=self._model.dtype.itemsize,
        )

    def release(self) -> None:
        """Free the memory of the store, of the cache and of captured steps."""
        self._cache.clear()
        self._steps.clear()
        self._memory = None
        if self._model.device.type == "cuda":
            torch.cuda.empty_cache()

    def generate(
        self,
        plan: BatchPlan,
        features: Mapping[str, FrameFeatures],
        guide: JsonGuide | None = None,  # None chooses the most likely tokens
        *,
        max_new_tokens: int,
        prefill_tokens: int = PREFILL_TOKENS,
    ) -> list[list[int]]:
        """New tokens of each row, until every reply is complete; at most `max_new_tokens`. Raises `NonFiniteError`."""
        with torch.inference_mode():
            step, _ = self._start(plan, features, max_new_tokens, prefill_tokens)
            columns: list[list[int]] = []
            is_unfinished = True
            while is_unfinished and len(columns) < max_new_tokens:
                if guide is not None:
                    guide.prepare(step.sampler)
                step.choose()
                if len(columns) + 1 < max_new_tokens:
                    step.advance()  # even if it turns out not to be needed: the GPU works while the guide does
                columns.append(step.tokens[: len(plan.rows)])
                is_unfinished = guide is None or guide.take(columns[-1])
            return [list(row) for row in zip(*columns, strict=True)]

    def first_logits(
        self, plan: BatchPlan, features: Mapping[str, FrameFeatures], *, prefill_tokens: int = PREFILL_TOKENS
    ) -> torch.Tensor:
        """The logits of the first new token of each row."""
        with torch.inference_mode():
            return self._start(plan, features, 1, prefill_tokens)[1]

    def _start(
        self, plan: BatchPlan, features: Mapping[str, FrameFeatures], max_new_tokens: int, prefill_tokens: int
    ) -> tuple[DecodeStep, torch.Tensor]:
        """Run the prefill; returns a step that is ready to run, and the logits after each row's text."""
        rows, slots = plan.rows, plan.slots
        lengths = [len(row.suffix_ids) for row in rows]
        own = _place_own_tokens(plan, max_new_tokens)
        step = self._step_for(plan, own)
        store = step.store
        store.clear(plan.prefix_tokens)
        self.reused = dict.fromkeys(plan.leaders, 0)
        for leader in plan.leaders:
            if (cached := self._cache.find(rows[leader])) is not None:
                self.reused[leader] = int(cached.shape[-2])
                store.prefix(slots[leader])[..., : self.reused[leader], :] = cached
        positions = {leader: self._positions(rows[leader], features) for leader in plan.leaders}
        prefill = Prefill.of(plan, own, features, positions=positions, reused=self.reused)
        logits = self._prefill(prefill, store, prefill_tokens)
        firsts = [int(positions[slot.leader][0, row.prefix_tokens]) for row, slot in zip(rows, slots, strict=True)]
        prefixes = [slice(slot.start, slot.end) for slot in slots]
        step.begin(prefixes, own, lengths=lengths, firsts=firsts, logits=logits)
        if not (store.is_finite and torch.isfinite(logits).all()):
            raise NonFiniteError
        for leader in plan.leaders:
            self._cache.put(rows[leader], store.prefix(slots[leader]))
        return step, logits

    def _step_for(self, plan: BatchPlan, own: Sequence[slice]) -> DecodeStep:
        """The step for this many rows and tokens, rounded up so that captured steps are reused."""
        least = _LEAST_TOKENS if self._model.device.type == "cuda" else PIECE_TOKENS
        used = own[-1].stop + PIECE_TOKENS  # the last piece is for unused rows
        # stores have few sizes, so up to a quarter of a store stays empty
        tokens = _round_up(used, max(_round_to_power(used, 2) // 8, least))
        numbers = tokens * self.shape.key_value_bytes // self.shape.bytes_per_number
        if self._memory is None or self._memory.numel() < numbers:
            self._steps.clear()  # captured steps point into the old memory
            self._memory = None
            self._memory = torch.zeros(numbers, dtype=self._model.dtype, device=self._model.device)
        key = (_read_shape(plan, own, tokens), _round_to_power(len(plan.rows), 2))
        if key not in self._steps:
            store = KVStore(self.shape, tokens, self._memory)
            self._steps[key] = DecodeStep(
                self._model, self._layers, store, key[0], rows=key[1], graph_pool=self._graph_pool
            )
        return self._steps[key]

    def _prefill(self, prefill: Prefill, store: KVStore, chunk_tokens: int) -> torch.Tensor:
        """Compute and store a stream of tokens, chunk by chunk; returns the logits after the last token of each row."""
        device = self._model.device
        where = (prefill.ids == self._model.config.image_token_id).nonzero()[:, 0]
        levels = [torch.cat(level) for level in zip(*(frame.levels for frame in prefill.frames), strict=True)]
        ids, positions, ends = prefill.ids.to(device), prefill.positions.to(device), torch.tensor(prefill.ends)
        last = []
        for chunk, stretches in prefill.chunks(chunk_tokens):
            tokens = self._language_model.get_input_embeddings()(ids[chunk])
            in_chunk = find_inside(where, chunk)
            deeper = None
            if in_chunk.start < in_chunk.stop:
                places = (where[in_chunk] - chunk.start).to(device)
                tokens[places] = levels[0][in_chunk].to(tokens.dtype)
                deeper = Deeper(places, [level[in_chunk] for level in levels[1:]])
            hidden = self._layers(tokens, positions[:, chunk], attend_prefill(store, stretches, device), deeper)
            last.append(hidden[(ends[find_inside(ends, chunk)] - chunk.start).to(device)])
        logits: torch.Tensor = self._model.lm_head(torch.cat(last)).float()
        return logits

    def _positions(self, row: PromptTokens, features: Mapping[str, FrameFeatures]) -> torch.Tensor:
        """The position of every token in time, height and width, by the model's own rule, on the CPU: 3 x tokens."""
        ids = torch.tensor([row.ids])
        if not row.frames:
            return torch.arange(ids.shape[1]).expand(3, -1)
        grids = torch.tensor([features[frame].grid for frame in row.frames])
        is_frame = (ids == self._model.config.image_token_id).int()
        positions, _ = self._model.model.get_rope_index(ids, mm_token_type_ids=is_frame, image_grid_thw=grids)
        of_row: torch.Tensor = positions[:, 0]
        return of_row

    def _graph_pool(self) -> Any:
        """The pool of a captured step. PyTorch frees a pool with its last graph."""
        return next((step.graph.pool() for step in self._steps.values() if step.graph is not None), None)


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step


def _place_own_tokens(plan: BatchPlan, new_tokens: int) -> list[slice]:
    """Where each row's text and new tokens are stored: after all prefixes, in pieces of no other row."""
    places: list[slice] = []
    start = _round_up(plan.prefix_tokens, PIECE_TOKENS)
    for row in plan.rows:
        stop = start + _round_up(len(row.suffix_ids) + new_tokens, PIECE_TOKENS)
        places.append(slice(start, stop))
        start = stop
    return places


def _read_shape(plan: BatchPlan, own: Sequence[slice], tokens: int) -> ReadShape:
    """A shape for the reads of a batch from a store of this size, rounded up so that most batches share it."""
    prefixes = [pieces_of(slice(slot.start, slot.end)) for slot in plan.slots]
    parts = max(len(prefix) + len(pieces_of(mine)) for prefix, mine in zip(prefixes, own, strict=True))
    readers = Counter(piece for prefix in prefixes for piece in prefix)
    return ReadShape(
        tokens // PIECE_TOKENS, _round_to_power(max(readers.values(), default=1), 4), _round_to_power(parts, 4)
    )


def _round_to_power(number: int, base: int) -> int:
    power = 1
    while power < number:
        power *= base
    return power
