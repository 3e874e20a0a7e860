"""Every item and its standing, kept up to date with the history; only items that changed are computed again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from trace_ves.construction.judged_item import JudgedItem, Standing, judged_item
from trace_ves.construction.stages import PROPOSAL_SLOT

if TYPE_CHECKING:
    from trace_ves.construction.ledger import Ledger

IndexedItem = tuple[JudgedItem, Standing]


class ItemIndex:
    """Items with their standings. Threads may share it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, IndexedItem]] = {}
        self._lock = threading.Lock()

    def all(self, ledger: Ledger) -> list[IndexedItem]:
        """Every item that may come into the bench, in the order of proposal."""
        return [indexed for indexed in self.with_gold(ledger) if indexed[0].gold is None]

    def with_gold(self, ledger: Ledger) -> list[IndexedItem]:
        """Every item, those included that are only there to see how well people look."""
        return [self.one(ledger, item) for item in ledger.subjects(PROPOSAL_SLOT)]

    def one(self, ledger: Ledger, item: str) -> IndexedItem:
        """One item; a `KeyError` where there is none of this id."""
        count = ledger.count(item)
        with self._lock:
            known = self._known.get(item)
        if known is not None and known[0] == count:
            return known[1]
        found = judged_item(ledger, item)
        indexed = found, found.standing()
        with self._lock:
            self._known[item] = count, indexed
        return indexed
