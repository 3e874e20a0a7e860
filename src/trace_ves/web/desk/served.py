"""What was really sent to whom: a player's report of what was played counts only for what was served before."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

MOST_ITEMS: Final = 50_000


class Served:
    """Items and clips by person, the newest ones. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str, int | None], None] = OrderedDict()

    def add(self, who: str, item: str, part: int | None = None) -> None:
        """Note that a person got an item's video, or a clip of one of its intervals."""
        with self._lock:
            self._known[who, item, part] = None
            self._known.move_to_end((who, item, part))
            if len(self._known) > MOST_ITEMS:
                self._known.popitem(last=False)

    def has(self, who: str, item: str, part: int | None = None) -> bool:
        """Whether a person got it."""
        with self._lock:
            return (who, item, part) in self._known
