"""HTTP connections that cannot be used up: headers must come in time, and there are only so many connections.

At the limit, the oldest connection without a request makes room; clients that only hold connections open get nowhere.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

HEADER_SECONDS: Final = 10.0
"""A connection whose next request is not whole after this time is closed."""
FILE_LIMIT: Final = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
MOST_CONNECTIONS: Final = min(512, max(16, FILE_LIMIT // 2))


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol with a deadline for headers and a limit on connections."""

    header_timer: asyncio.TimerHandle | None = None
    opened_at = 0.0

    def connection_made(self, transport: Any) -> None:
        """Make room for one more connection, or refuse it."""
        super().connection_made(transport)
        self.opened_at = self.loop.time()
        if len(self.connections) > MOST_CONNECTIONS:
            idle = [each for each in self.connections if isinstance(each, BoundedProtocol) and not each.is_busy]
            min(idle, key=lambda each: each.opened_at, default=self).transport.abort()
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._cancel_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count from the first byte of a request until it is whole."""
        super().data_received(data)
        if self.is_busy:
            self._cancel_timer()
        else:
            self._expect_request()

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever uvicorn declares
        return cycle is not None and not cycle.response_complete

    def _expect_request(self) -> None:
        if self.header_timer is None:
            self.header_timer = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self.header_timer = None
        if not self.is_busy:
            self.transport.abort()

    def _cancel_timer(self) -> None:
        if self.header_timer is not None:
            self.header_timer.cancel()
            self.header_timer = None
