"""One decoding step of all rows at once, captured in a CUDA graph where there is a GPU.

Everything that changes from step to step is in tensors that stay where they are, so that a captured step can be
replayed: without it, a GPU spends most of a step waiting for Python to launch the next kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from trace_ves.backbone.transformers.attention import Reads
from trace_ves.backbone.transformers.kv_store import StepMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trace_ves.backbone.transformers.attention import ReadShape
    from trace_ves.backbone.transformers.kv_store import KVStore
    from trace_ves.backbone.transformers.layers import DecoderLayers

_BITS: Final = 32
_EVERY_TOKEN: Final = -1


class Sampler:
    """Chooses the next token of each row: the most likely of those that are allowed, after noise is added."""

    def __init__(self, rows: int, vocabulary: int, device: torch.device) -> None:
        words = -(-vocabulary // _BITS)
        self._allowed = torch.full((rows, words), _EVERY_TOKEN, dtype=torch.int32, device=device)
        self._noise = torch.zeros(rows, vocabulary, device=device)
        self._bit = torch.arange(_BITS, dtype=torch.int32, device=device)

    def reset(self) -> None:
        """Every token is allowed, no noise."""
        self._allowed.fill_(_EVERY_TOKEN)
        self._noise.zero_()

    def allow(self, bits: torch.Tensor) -> None:
        """Allow these tokens alone, a bit for each: int32, rows x words. Rows and tokens not in it are left alone."""
        self._allowed[: bits.shape[0], : bits.shape[1]].copy_(bits, non_blocking=True)
        self._allowed[: bits.shape[0], bits.shape[1] :] = 0

    def add_noise(self, row: int, temperature: float, random: torch.Generator) -> None:
        """Add Gumbel noise to a row: its most likely token is then a draw at this temperature."""
        uniform = torch.rand(self._noise.shape[1], generator=random, device=self._noise.device)
        self._noise[row] = -temperature * torch.log(-torch.log(uniform.clamp_min(1e-20)))

    def restrict(self, logits: torch.Tensor) -> torch.Tensor:
        """The logits with their noise, those of tokens that are not allowed at minus infinity."""
        bits = (self._allowed.unsqueeze(-1) >> self._bit) & 1
        allowed = bits.flatten(1)[:, : logits.shape[1]].bool()
        return torch.where(allowed, logits + self._noise, float("-inf"))

    def pick(self, logits: torch.Tensor) -> torch.Tensor:
        """The token of each row."""
        return self.restrict(logits).argmax(dim=-1)


class Step:
    """Adds one token to each row of a store, in two halves.

    `choose` needs what a grammar allows next, `advance` does not: so a GPU advances by the chosen tokens while the
    grammar takes them in, and neither waits for the other.
    """

    def __init__(
        self,
        model: Any,
        layers: DecoderLayers,
        store: KVStore,
        reads: ReadShape,
        *,
        rows: int,
        graph_pool: Callable[[], Any] = lambda: None,
    ) -> None:
        self.store = store
        self._rows = rows
        self._graph_pool = graph_pool
        """Finds the memory that all captured steps share, as only one runs at a time; None where there is none yet."""
        config, device = model.config.get_text_config(), model.device
        self.sampler = Sampler(rows, config.vocab_size, device)
        self._groups = config.num_attention_heads // config.num_key_value_heads
        self._starts = torch.zeros(rows, dtype=torch.long, device=device)
        """Where the own tokens of each row are in the store."""
        self._lengths = torch.zeros(rows, dtype=torch.long, device=device)
        """How many there are."""
        self._firsts = torch.zeros(rows, dtype=torch.long, device=device)
        """Position of the first own token of each row."""
        self._read_shape = reads
        nothing = [slice(0, 0)] * rows
        self._reads = Reads.of(nothing, nothing, reads).to(device)
        self._ids = torch.zeros(rows, dtype=torch.long, device=device)
        self._ids_here = torch.zeros(rows, dtype=torch.long, pin_memory=device.type == "cuda")
        self._logits = torch.zeros(rows, config.vocab_size, device=device)
        self._model = model
        self._layers = layers
        self._graph: Any = None
        self._arrived: Any = None

    @property
    def pool(self) -> Any:
        """The memory of the captured step, which other steps may share while this one lives; None if not captured."""
        return None if self._graph is None else self._graph.pool()

    def begin(
        self,
        prefixes: Sequence[slice],
        own: Sequence[slice],
        *,
        lengths: Sequence[int],
        firsts: Sequence[int],
        logits: torch.Tensor,
    ) -> None:
        """Begin a batch in the same store: where the prefixes and the own tokens of its rows are.

        `lengths` says how many own tokens there are, `firsts` at which positions they begin, `logits` what follows
        them. Rows that the batch does not have read nothing, and write behind all others.
        """
        spare = self._rows - len(prefixes)
        nothing = [slice(0, 0)] * spare
        self._reads.copy_(Reads.of([*prefixes, *nothing], [*own, *nothing], self._read_shape))
        starts = [place.start for place in own] + [own[-1].stop] * spare
        for tensor, numbers in ((self._starts, starts), (self._lengths, lengths), (self._firsts, firsts)):
            tensor.copy_(torch.tensor([*numbers, *[0] * (self._rows - len(numbers))]))
        self._logits[: len(prefixes)].copy_(logits)
        self.sampler.reset()

    def choose(self) -> None:
        """Choose the next token of each row; `chosen` has them once they are there."""
        self._ids.copy_(self.sampler.pick(self._logits))
        self._ids_here.copy_(self._ids, non_blocking=True)
        if self._ids.is_cuda:
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    @property
    def chosen(self) -> list[int]:
        """The tokens that were chosen last, one for each row; waits for them, and for nothing after them."""
        if self._arrived is not None:
            self._arrived.synchronize()
        tokens: list[int] = self._ids_here.tolist()
        return tokens

    def advance(self) -> None:
        """Add the chosen tokens to their rows, and compute what may follow them."""
        if self._graph is not None:
            self._graph.replay()
            return
        self._run()
        if self._ids.is_cuda:
            self._capture()

    def _run(self) -> None:
        positions = (self._firsts + self._lengths).expand(3, -1)
        memory = StepMemory(self.store, self._reads, self._starts, self._lengths, groups=self._groups)
        hidden = self._layers(self._model.get_input_embeddings()(self._ids), positions, memory)
        self._logits.copy_(self._model.lm_head(hidden))
        self._lengths.add_(1)

    def _capture(self) -> None:
        """Record a step without running it; the eager step before it has warmed up what must not be recorded."""
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._graph_pool()):
            self._run()
        self._graph = graph
