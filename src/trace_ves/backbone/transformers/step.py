"""One decoding step of all rows at once, captured in a CUDA graph where there is a GPU.

Everything that changes from step to step is in tensors that stay where they are, so that a captured step can be
replayed: without it, a GPU spends most of a step waiting for Python to launch the next kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from trace_ves.backbone.transformers.attention import PrefixReads
from trace_ves.backbone.transformers.batch_plan import PrefixSlot
from trace_ves.backbone.transformers.kv_store import StepWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trace_ves.backbone.transformers.attention import ReadShape
    from trace_ves.backbone.transformers.kv_store import KVStore

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
        self._allowed[: bits.shape[0], : bits.shape[1]].copy_(bits)
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
    """Adds one token to each row of a store."""

    def __init__(
        self, model: Any, store: KVStore, reads: ReadShape, graph_pool: Callable[[], Any] = lambda: None
    ) -> None:
        self.store = store
        self._graph_pool = graph_pool
        """Finds the memory that all captured steps share, as only one runs at a time; None where there is none yet."""
        self.sampler = Sampler(store.shape.rows, model.config.get_text_config().vocab_size, model.device)
        rows, device = store.shape.rows, model.device
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        """Own tokens of each row that are in the store."""
        self.firsts = torch.zeros(rows, dtype=torch.long, device=device)
        """Position of the first own token of each row."""
        self._read_shape = reads
        self._reads = PrefixReads.of([PrefixSlot(0, 0, 0)] * rows, store.shape.prefix_tokens, reads).to(device)
        self._ids = torch.zeros(rows, dtype=torch.long, device=device)
        self._model = model
        self._graph: Any = None
        self._chosen: torch.Tensor | None = None

    @property
    def pool(self) -> Any:
        """The memory of the captured step, which other steps may share while this one lives; None if not captured."""
        return None if self._graph is None else self._graph.pool()

    def set_rows(self, slots: Sequence[PrefixSlot], lengths: Sequence[int], firsts: Sequence[int]) -> None:
        """Begin a new batch in the same store."""
        self._reads.copy_(PrefixReads.of(slots, self.store.shape.prefix_tokens, self._read_shape))
        self.lengths.copy_(torch.tensor(lengths))
        self.firsts.copy_(torch.tensor(firsts))
        self.sampler.reset()

    def next(self, tokens: torch.Tensor) -> torch.Tensor:
        """Add these tokens, one for each row; gives the tokens that follow them."""
        self._ids.copy_(tokens)
        if self._graph is not None and self._chosen is not None:
            self._graph.replay()
            return self._chosen
        chosen = self._run()
        if self._ids.device.type == "cuda":
            self._capture()
        return chosen

    def _run(self) -> torch.Tensor:
        language_model = self._model.model.language_model
        writer = StepWriter(self.store, self._reads, self.lengths)
        hidden = language_model(
            inputs_embeds=language_model.get_input_embeddings()(self._ids[:, None]),
            position_ids=(self.firsts + self.lengths).view(1, -1, 1).expand(3, -1, -1),
            past_key_values=writer,
            use_cache=True,
            attending=writer,
        ).last_hidden_state
        chosen = self.sampler.pick(self._model.lm_head(hidden[:, 0]).float())
        self.lengths.add_(1)
        return chosen

    def _capture(self) -> None:
        """Record a step without running it; the eager step before it has warmed up what must not be recorded."""
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._graph_pool()):
            self._chosen = self._run()
        self._graph = graph
