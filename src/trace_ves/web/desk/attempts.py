"""Limits on failed sign-ins: per address, per person, and per person from one address."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW_SECONDS: Final = 300.0
MOST_FAILURES: Final = {"pair": 5, "address": 30, "name": 60}
"""Failures within the window: of one person from one address, from one address, of one person from anywhere."""
MOST_KEYS: Final = 20_000


class SignInAttempts:
    """Counts failures. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[tuple[str, ...], deque[float]] = OrderedDict()

    def wait_seconds(self, address: str, name: str) -> float:
        """How long to wait before the next attempt; 0 where it may be made now."""
        now = self._clock()
        with self._lock:
            waits = [self._wait(key, now) for key in _keys(address, name)]
        return max(waits)

    def failed(self, address: str, name: str) -> None:
        """Note a failure."""
        now = self._clock()
        with self._lock:
            for key in _keys(address, name):
                self._failures.setdefault(key, deque(maxlen=max(MOST_FAILURES.values()))).append(now)
                self._failures.move_to_end(key)
            while len(self._failures) > MOST_KEYS:
                self._failures.popitem(last=False)

    def _wait(self, key: tuple[str, ...], now: float) -> float:
        failures = self._failures.get(key, deque())
        while failures and now - failures[0] > WINDOW_SECONDS:
            failures.popleft()
        most = MOST_FAILURES[key[0]]
        return WINDOW_SECONDS - (now - failures[-most]) if len(failures) >= most else 0.0


def _keys(address: str, name: str) -> tuple[tuple[str, ...], ...]:
    name = name.casefold()[:64]
    return ("pair", address, name), ("address", address), ("name", name)
