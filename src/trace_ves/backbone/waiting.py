"""What a person who waits is told: a rate limit, a retry, a slow response, and when the next attempt is made.

Every notice is a log record of the logger `NOTICES`, so without a screen it is a line on standard error. A screen takes
the notices over with `WaitingNotices` and shows the newest with a countdown.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

    from rich.text import Text

NOTICES: Final = logging.getLogger(__name__)
SHORTEST_SECONDS: Final = 1.0
"""Shorter waits are not worth a word."""
SLOW_SECONDS: Final = 20.0
"""A response that takes longer is said to be slow."""
_QUIET_SECONDS: Final = 10.0
"""At most one notice of a backbone in this time: many requests meet the same rate limit at once."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Why a request waits, and until when."""

    backbone: str
    reason: str
    """For example `HTTP 429, rate limit`."""
    then: str
    """What happens at the end of the wait: `trying again` or `giving this attempt up`."""
    until: float
    """On the clock of `time.monotonic`."""
    waiting: int = 1
    """Requests of this backbone that wait."""

    def sentence(self, now: float) -> str:
        """One line, with the seconds that are left."""
        others = f", {self.waiting} requests waiting" if self.waiting > 1 else ""
        return f"{self.backbone}: {self.reason}; {self.then} in {max(0.0, self.until - now):.0f} s{others}"


class Announcer:
    """Tells what the requests of one backbone wait for, without repeating itself. Safe under threads."""

    def __init__(self, backbone: str) -> None:
        self._backbone = backbone
        self._lock = threading.Lock()
        self._waiting = 0
        self._quiet_until = 0.0

    def waits(self, reason: str, seconds: float, *, then: str = "trying again") -> _Wait:
        """A context in which one request waits."""
        return _Wait(self, reason, seconds, then)

    def began(self, reason: str, seconds: float, then: str) -> None:
        """Count a request that waits, and say so unless the wait is short or the same was said just now."""
        now = time.monotonic()
        with self._lock:
            self._waiting += 1
            if seconds < SHORTEST_SECONDS or now < self._quiet_until:
                return
            self._quiet_until = now + min(seconds, _QUIET_SECONDS)
            notice = Notice(self._backbone, reason, then, now + seconds, self._waiting)
        NOTICES.warning("%s.", notice.sentence(now), extra={"notice": notice})

    def ended(self) -> None:
        """A request waits no more."""
        with self._lock:
            self._waiting -= 1


@dataclass(frozen=True, slots=True)
class _Wait:
    announcer: Announcer
    reason: str
    seconds: float
    then: str

    def __enter__(self) -> None:
        self.announcer.began(self.reason, self.seconds, self.then)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.announcer.ended()


class WaitingNotices(logging.Handler):
    """Takes the notices over for a screen while it is entered: nothing else prints them then."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: dict[str, Notice] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the newest notice of each backbone."""
        notice: Notice | None = getattr(record, "notice", None)
        if notice is not None:
            self._newest[notice.backbone] = notice

    def lines(self) -> list[str]:
        """What is being waited for at this moment, a line for each backbone."""
        now = time.monotonic()
        return [notice.sentence(now) for notice in list(self._newest.values()) if notice.until > now]

    def __rich__(self) -> Text:
        """Drawn anew at each refresh of a live screen, so that the seconds count down."""
        from rich.text import Text  # noqa: PLC0415  only a screen needs it

        return Text("\n".join(f"  {line}" for line in self.lines()), style="yellow")

    def __enter__(self) -> Self:
        NOTICES.addHandler(self)
        NOTICES.propagate = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        NOTICES.removeHandler(self)
        NOTICES.propagate = True
