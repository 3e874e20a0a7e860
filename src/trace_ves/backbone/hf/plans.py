"""Batch plans: which prompts share a prefill, where prefixes are stored, and how a batch is split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """One request as token ids: a prefix that ends with the last frame, and a suffix of text."""

    ids: tuple[int, ...]  # All tokens of the prompt; the number for a frame depends on the model
    frames: tuple[str, ...]  # The key of the picture of each frame, in order
    frame_ends: tuple[int, ...]  # The number of tokens up to the end of each frame

    def __post_init__(self) -> None:
        if self.prefix_tokens >= len(self.ids):
            raise ValueError(f"a prompt of {len(self.ids)} tokens needs a shorter prefix, got {self.prefix_tokens}")

    @property
    def prefix_tokens(self) -> int:
        """The number of tokens up to the end of the last frame; 0 without frames."""
        return self.frame_ends[-1] if self.frame_ends else 0

    @property
    def suffix_ids(self) -> tuple[int, ...]:
        """The text after the last frame."""
        return self.ids[self.prefix_tokens :]

    def is_prefix_of(self, other: PromptTokens) -> bool:
        """Whether the prefix of the other prompt starts with this one's."""
        return self.tokens_in_common(other) == self.prefix_tokens

    def tokens_in_common(self, other: PromptTokens) -> int:
        """The length of the common prefix of both prompts, up to the end of the last common frame."""
        common = 0
        for frame, other_frame, end, other_end in zip(
            self.frames, other.frames, self.frame_ends, other.frame_ends, strict=False
        ):
            if frame != other_frame or end != other_end or self.ids[common:end] != other.ids[common:end]:
                break
            common = end
        return common


@dataclass(frozen=True, slots=True)
class PrefixSlot:
    """The place of a row's prefix in the key-value store, which has every distinct prefix once."""

    leader: int  # The row whose prefill this row uses; its own number if it is prefilled itself
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Rows that are decoded together, and the slots of their prefixes."""

    rows: tuple[PromptTokens, ...]
    slots: tuple[PrefixSlot, ...]
    leaders: tuple[int, ...]  # The rows that are prefilled, in the order in which their prefixes are stored

    @property
    def prefix_tokens(self) -> int:
        """The number of tokens of all distinct prefixes."""
        return max((slot.end for slot in self.slots), default=0)


def plan_batch(rows: Sequence[PromptTokens]) -> BatchPlan:
    """Plan a batch: the longest prefixes are prefilled; every other row shares one that starts with its own."""
    starts: dict[int, int] = {}  # of the stored prefixes, by row
    slots: dict[int, PrefixSlot] = {}
    stored = 0
    for number in sorted(range(len(rows)), key=lambda number: -rows[number].prefix_tokens):
        tokens = rows[number].prefix_tokens
        leader = next((leader for leader in starts if rows[number].is_prefix_of(rows[leader])), number)
        if leader == number:
            starts[number] = stored
            stored += tokens
        slots[number] = PrefixSlot(leader, starts[leader], starts[leader] + tokens)
    return BatchPlan(tuple(rows), tuple(slots[number] for number in range(len(rows))), tuple(starts))


def split_batch(rows: Sequence[PromptTokens], *, max_rows: int, max_prefix_tokens: int) -> Iterator[tuple[int, ...]]:
    """Row numbers in micro-batches within the limits; a row above a limit gets its own.

    Rows that share a prefill stay together if possible.
    """
    slots = plan_batch(rows).slots
    batch: list[int] = []
    tokens = 0
    for number in sorted(range(len(rows)), key=lambda number: (slots[number].start, -rows[number].prefix_tokens)):
        is_shared = bool(batch) and slots[number].leader == slots[batch[-1]].leader  # the longest comes first
        more = 0 if is_shared else rows[number].prefix_tokens
        if batch and (len(batch) == max_rows or tokens + more > max_prefix_tokens):
            yield tuple(batch)
            batch, tokens, more = [], 0, rows[number].prefix_tokens
        batch.append(number)
        tokens += more
    if batch:
        yield tuple(batch)


MAX_ROWS: Final = 128  # More rows in a step do not save much reading of weights
MAX_PREFIX_TOKENS: Final = 262_144  # With more, reading the keys takes several times as long as reading the weights
PREFILL_TOKENS: Final = 32_768  # Prefixes are prefilled in chunks of this many tokens
_MIN_PREFIX_TOKENS: Final = 4_096
_USABLE_SHARE: Final = 0.85  # Of the free memory; the rest is for encoding frames and for fragmentation
_SCORE_BYTES: Final = 10  # For each head, row and stored token of a step, with a margin
_LOGIT_BYTES: Final = 16  # For each row and token of the vocabulary: logits, noise, and temporary copies


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes that determine how many bytes a token takes."""

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
        """Bytes that one token takes in a layer."""
        return (8 * self.hidden_size + 3 * self.intermediate_size) * self.bytes_per_number


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of a micro-batch."""

    max_rows: int = MAX_ROWS
    max_prefix_tokens: int = MAX_PREFIX_TOKENS  # Of all distinct prefixes together
    prefill_tokens: int = PREFILL_TOKENS

    def halve(self) -> BatchLimits:
        """Lower limits, for use after a batch was too large."""
        return replace(
            self,
            max_rows=max(1, self.max_rows // 2),
            max_prefix_tokens=max(_MIN_PREFIX_TOKENS, self.max_prefix_tokens // 2),
            prefill_tokens=max(512, self.prefill_tokens // 2),
        )


def plan_memory(shape: ModelShape, *, free_bytes: int, own_tokens: int) -> BatchLimits:
    """The largest batch that fits into the free memory; `own_tokens` are the text and the reply of a row."""
    usable = int(_USABLE_SHARE * free_bytes)
    rows = MAX_ROWS
    while True:  # rather fewer rows than prefixes of less than some thousand tokens
        row_bytes = own_tokens * shape.key_value_bytes + shape.vocabulary * _LOGIT_BYTES
        prefill = min(PREFILL_TOKENS, max(512, usable // 8 // shape.activation_bytes))
        prefix_bytes = usable - rows * row_bytes - prefill * shape.activation_bytes
        tokens = prefix_bytes // (shape.key_value_bytes + shape.heads * rows * _SCORE_BYTES)
        if tokens >= _MIN_PREFIX_TOKENS or rows == 1:
            return BatchLimits(rows, min(MAX_PREFIX_TOKENS, max(_MIN_PREFIX_TOKENS, tokens)), prefill)
        rows //= 2
