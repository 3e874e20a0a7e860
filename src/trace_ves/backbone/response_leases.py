"""Who is asking for what: two processes that want the same answer at the same time pay for it once.

A process leases a key before it asks, and renews its leases while it waits for the service. A process that was killed
renews nothing, so that its lease ends by itself and somebody else asks.
"""

from __future__ import annotations

import os
import secrets
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from trace_ves.backbone.response_store import ResponseStore

LEASE_SECONDS: Final = 15.0
"""How long a lease lasts that nobody renews: what a killed process costs others."""
RENEWALS: Final = 3
"""A lease is renewed this many times before it would end."""


class Leases:
    """The keys that this process is asking for. Threads may share it; a fork has its own."""

    def __init__(self, store: ResponseStore, seconds: float = LEASE_SECONDS) -> None:
        self._store = store
        self._seconds = seconds
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._owner = secrets.token_hex(8)
        self._held: set[bytes] = set()
        self._stopped: threading.Event | None = None

    def take(self, keys: Collection[bytes]) -> set[bytes]:
        """Lease keys; gives those that nobody else holds. Where the store cannot be written, that is all of them."""
        if not keys:
            return set()
        with self._lock:
            if self._process != os.getpid():
                self._begin()
            gained = self._store.lease(keys, self._owner, self._seconds)
            self._held |= gained
            if self._held and self._stopped is None:
                self._stopped = threading.Event()
                threading.Thread(target=self._renew, args=(self._stopped,), daemon=True, name="leases").start()
            return gained

    def end(self, keys: Iterable[bytes]) -> None:
        """Let go of keys, answered or not; those that are not held are passed over."""
        with self._lock:
            ended = self._held.intersection(keys)
            self._held -= ended
            if ended:
                self._store.end_leases(ended, self._owner)
            if not self._held and self._stopped is not None:
                self._stopped.set()
                self._stopped = None

    def _renew(self, stopped: threading.Event) -> None:
        while not stopped.wait(self._seconds / (RENEWALS + 1)):
            self._store.renew_leases(self._owner, self._seconds)
