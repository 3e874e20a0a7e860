"""Every candidate and where it stands, kept up with the history; a look costs only what changed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from trace_ves.construction.candidate import Candidate, Standing, candidate
from trace_ves.construction.stages import PROPOSAL_SLOT

if TYPE_CHECKING:
    from trace_ves.construction.ledger import Ledger

Placed = tuple[Candidate, Standing]


class Board:
    """Candidates with their standings. Threads may share it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Placed]] = {}
        self._lock = threading.Lock()

    def all(self, ledger: Ledger) -> list[Placed]:
        """Every candidate, in the order of proposal."""
        return [self.one(ledger, item) for item in ledger.subjects(PROPOSAL_SLOT)]

    def one(self, ledger: Ledger, item: str) -> Placed:
        """One candidate; a `KeyError` where there is none of this id."""
        count = ledger.count(item)
        with self._lock:
            known = self._known.get(item)
        if known is not None and known[0] == count:
            return known[1]
        found = candidate(ledger, item)
        placed = found, found.standing()
        with self._lock:
            self._known[item] = count, placed
        return placed
