"""Keys and values of a batch: every distinct prefix once, side by side, and each row's own tokens after it.

Three views of one store act as the cache of the model's own forward: one writes a prefix, one writes the suffixes of
all rows at once, one adds a token to each row. Each also says how its tokens attend.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from trace_ves.backbone.transformers import attention
from trace_ves.backbone.transformers.batch_plan import PrefixSlot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.backbone.transformers.attention import Pair, PrefixReads

ATTENTION_NAME: Final = "trace_ves_shared_prefix"
"""The name under which transformers knows our attention; no mask is made for it, because none is needed."""


@dataclass(frozen=True, slots=True)
class StoreShape:
    """How large a store is."""

    layers: int
    key_heads: int
    head_size: int
    rows: int
    prefix_tokens: int
    own_tokens: int

    @property
    def elements(self) -> int:
        """Numbers in the store, keys and values together."""
        tokens = self.prefix_tokens + self.rows * self.own_tokens
        return 2 * self.layers * self.key_heads * self.head_size * tokens


class KVStore:
    """The tensors, as views of a flat piece of memory, so that stores of several shapes can share one."""

    def __init__(self, shape: StoreShape, memory: torch.Tensor) -> None:
        self.shape = shape
        stored = (2, shape.layers, shape.key_heads, shape.prefix_tokens, shape.head_size)
        own = (2, shape.layers, shape.rows, shape.key_heads, shape.own_tokens, shape.head_size)
        split = 2 * shape.layers * shape.key_heads * shape.prefix_tokens * shape.head_size
        self._stored = memory[:split].view(stored)
        self._own = memory[split : shape.elements].view(own)
        self.is_finite = torch.ones((), dtype=torch.bool, device=memory.device)
        """Whether all keys and values of prefixes are finite. One that is not would reach every row, masked or not."""

    def clear(self, prefix_tokens: int) -> None:
        """Begin a batch: zero what its prefixes will not overwrite, since what is masked still takes part in sums."""
        self._stored[:, :, :, prefix_tokens:] = 0
        self._own.zero_()
        self.is_finite.fill_(True)

    def prefix(self, slot: PrefixSlot) -> torch.Tensor:
        """Keys and values of one prefix, all layers: 2 x layers x key heads x tokens x size."""
        return self._stored[:, :, :, slot.start : slot.end]

    def stored(self, layer: int) -> Pair:
        """Keys and values of the prefixes: key heads x tokens x size."""
        return self._stored[0, layer], self._stored[1, layer]

    def own(self, layer: int) -> Pair:
        """Keys and values of the rows' own tokens: rows x key heads x tokens x size."""
        return self._own[0, layer], self._own[1, layer]


class Attending(Protocol):
    """What our attention function needs to know of the tokens that attend."""

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> Any:
        """Attention output, rows x tokens x heads x size."""


class PrefixWriter:
    """Cache of a prefill: writes a chunk of one prefix to its slot."""

    def __init__(self, store: KVStore, start: int, done: int = 0) -> None:
        self._store = store
        self._start = start
        self._done = done
        """Tokens of the prefix that earlier chunks have written."""

    def update(self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: Any) -> Pair:
        """Write the tokens of one layer; those of a first chunk attend to themselves alone."""
        keys, values = self._store.stored(layer)
        first = self._start + self._done
        keys[:, first : first + key.shape[2]] = key[0]
        values[:, first : first + key.shape[2]] = value[0]
        self._store.is_finite &= torch.isfinite(key).all() & torch.isfinite(value).all()
        return key, value

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> Any:
        """Attention of a later chunk over the earlier ones and itself."""
        slot = PrefixSlot(0, self._start, self._start + self._done)
        stored = self._store.stored(layer)
        return attention.attend_suffix(
            query, (key, value), stored, slots=[slot], lengths=[key.shape[2]], scaling=scaling
        )


class SuffixWriter:
    """Cache of the second prefill: the suffixes of all rows one after the other, each after its own prefix."""

    def __init__(
        self,
        store: KVStore,
        slots: Sequence[PrefixSlot],
        lengths: Sequence[int],
        *,
        rows: torch.Tensor,
        columns: torch.Tensor,
    ) -> None:
        self._store = store
        self._slots = slots
        self._lengths = lengths
        self._rows, self._columns = rows, columns
        """The row of each token, and its place in the row."""

    def update(self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: Any) -> Pair:
        """Write the suffixes of one layer."""
        keys, values = self._store.own(layer)
        keys[self._rows, :, self._columns] = key[0].transpose(0, 1)
        values[self._rows, :, self._columns] = value[0].transpose(0, 1)
        return key, value

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> Any:
        """Attention over the prefix and the suffix."""
        stored = self._store.stored(layer)
        return attention.attend_suffix(
            query, (key, value), stored, slots=self._slots, lengths=self._lengths, scaling=scaling
        )


class StepWriter:
    """Cache of a decoding step: one token for each row. All that changes from step to step is in tensors."""

    def __init__(self, store: KVStore, reads: PrefixReads, lengths: torch.Tensor) -> None:
        self._store = store
        self._reads = reads
        self._lengths = lengths
        self._rows = torch.arange(store.shape.rows, device=lengths.device)
        self._own_seen = attention.own_bias(lengths + 1, store.shape.own_tokens)

    def update(self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: Any) -> Pair:
        """Write the new token of every row after its others; gives all own tokens."""
        keys, values = self._store.own(layer)
        keys[self._rows, :, self._lengths] = key[:, :, 0]
        values[self._rows, :, self._lengths] = value[:, :, 0]
        return keys, values

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> Any:
        """Attention over the prefix and the own tokens so far."""
        stored = self._store.stored(layer)
        return attention.attend_step(
            query, (key, value), stored, own_seen=self._own_seen, reads=self._reads, scaling=scaling
        )


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float,
    attending: Attending | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The function that the model's layers call. Without `attending` it is transformers' own."""
    if attending is None:
        attended, _ = sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
        return attended, None
    return attending.attend(module.layer_idx, query, key, value, scaling), None


AttentionInterface.register(ATTENTION_NAME, _attention)
