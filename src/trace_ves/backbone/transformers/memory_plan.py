"""How large a batch may be on this card with this model. Pure arithmetic over bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

MAX_ROWS: Final = 64
"""Beyond this, more rows in a step no longer save much reading of weights."""
MAX_PREFIX_TOKENS: Final = 262_144
"""Beyond this, reading the stored keys takes longer than reading the weights several times."""
PREFILL_TOKENS: Final = 32_768
"""Prefixes are prefilled in chunks of this many tokens."""
_MIN_PREFIX_TOKENS: Final = 4_096
_USABLE_SHARE: Final = 0.85
"""Of the free memory; the rest is for frames that are encoded and for fragments."""
_SCORE_BYTES: Final = 10
"""For each head, row and stored token of a step: what rows get from each piece, gathered and in float32, with room."""
_LOGIT_BYTES: Final = 16
"""For each row and token of the vocabulary: logits, noise, and what is left of both."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What decides how many bytes a token takes."""

    layers: int
    heads: int
    key_heads: int
    head_size: int
    hidden_size: int
    intermediate_size: int
    vocabulary: int
    bytes_per_number: int

    @property
    def key_value_bytes(self) -> int:
        """Bytes of the keys and values of one token."""
        return 2 * self.layers * self.key_heads * self.head_size * self.bytes_per_number

    @property
    def activation_bytes(self) -> int:
        """Bytes that one token takes while it goes through a layer."""
        return (8 * self.hidden_size + 3 * self.intermediate_size) * self.bytes_per_number


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The largest micro-batch."""

    max_rows: int = MAX_ROWS
    max_prefix_tokens: int = MAX_PREFIX_TOKENS
    """Of all distinct prefixes together."""
    prefill_tokens: int = PREFILL_TOKENS

    def halved(self) -> BatchLimits:
        """Limits for the batches after one that was too large."""
        return replace(
            self,
            max_rows=max(1, self.max_rows // 2),
            max_prefix_tokens=max(_MIN_PREFIX_TOKENS, self.max_prefix_tokens // 2),
            prefill_tokens=max(512, self.prefill_tokens // 2),
        )


def plan_memory(shape: ModelShape, *, free_bytes: int, own_tokens: int) -> BatchLimits:
    """The limits at which keys and values, scores and activations fit into the memory that is free.

    `own_tokens` is what a row has after its prefix: its text and its reply. Fewer rows are preferred to prefixes of
    less than some thousand tokens; a card that is too small even for that gets batches of one row.
    """
    usable = int(_USABLE_SHARE * free_bytes)
    rows = MAX_ROWS
    while True:
        row_bytes = own_tokens * shape.key_value_bytes + shape.vocabulary * _LOGIT_BYTES
        prefill = min(PREFILL_TOKENS, max(512, usable // 8 // shape.activation_bytes))
        left = usable - rows * row_bytes - prefill * shape.activation_bytes
        tokens = left // (shape.key_value_bytes + shape.heads * rows * _SCORE_BYTES)
        if tokens >= _MIN_PREFIX_TOKENS or rows == 1:
            return BatchLimits(rows, min(MAX_PREFIX_TOKENS, max(_MIN_PREFIX_TOKENS, tokens)), prefill)
        rows //= 2
