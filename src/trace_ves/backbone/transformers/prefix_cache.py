"""Keys and values of prefixes that were computed before, for requests that begin with the same frames.

A replay shows the clips that were just assembled, and a round's largest bundle begins with that of the round before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from trace_ves.backbone.transformers.batch_plan import PromptTokens


class PrefixCache:
    """A least-recently-used cache, bounded in bytes. Knows prompts by their tokens and the pixels of their frames."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: list[tuple[PromptTokens, torch.Tensor]] = []
        """Least recently used first."""

    @property
    def bytes(self) -> int:
        """Memory that the cache takes."""
        return sum(stored.nbytes for _, stored in self._entries)

    def find(self, row: PromptTokens) -> torch.Tensor | None:
        """Keys and values of the longest stored part with which the row's prefix begins: ... x tokens x size."""
        number, common = max(
            ((number, row.tokens_in_common(entry)) for number, (entry, _) in enumerate(self._entries)),
            key=lambda found: found[1],
            default=(0, 0),
        )
        if not common:
            return None
        entry = self._entries.pop(number)
        self._entries.append(entry)
        return entry[1][..., :common, :]

    def put(self, row: PromptTokens, stored: torch.Tensor) -> None:
        """Keep a copy of the keys and values of the row's prefix; shorter ones that it begins with are dropped."""
        is_kept = any(row.is_prefix_of(entry) for entry, _ in self._entries)
        if is_kept or not 0 < stored.nbytes <= self._max_bytes:
            return
        self._entries = [kept for kept in self._entries if not kept[0].is_prefix_of(row)]
        while self.bytes + stored.nbytes > self._max_bytes:
            del self._entries[0]
        self._entries.append((row, stored.clone()))

    def clear(self) -> None:
        """Give the memory back."""
        self._entries.clear()
