"""What a fetch may do: where it may connect, how much it may take, how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GIGABYTE: Final = 10**9


@dataclass(frozen=True, slots=True)
class FetchRules:
    """The limits of a fetch."""

    allow_private: bool = False
    """Whether addresses of this machine and of private networks may be connected to."""
    most_bytes: int = 8 * GIGABYTE
    """A larger file is refused."""
    cache_bytes: int = 32 * GIGABYTE
    """Files that were not used for longest are dropped where all together would take more."""
    timeout_seconds: float = 30.0
    """For connecting, and for each wait for more bytes."""
    slow_seconds: float = 60.0
    """A server that brings less than `least_bytes` in this time is given up."""
    least_bytes: int = 1 << 16
    attempts: int = 4
    """A transfer that breaks off is continued until this many attempts in a row brought less than `least_bytes`."""
    wait_seconds: float = 0.5
    """The wait before the second attempt; it doubles from there."""
