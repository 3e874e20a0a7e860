"""How many attempts a small quota costs: many workers, and a server on loopback that refuses what exceeds its rate.

    python -m perf.rate_limits [--requests 48] [--workers 16] [--rate 5]

The server answers this number of requests per half second, each after 50 ms, and refuses the others with status 429 and
`retry-after: 0.5`. Without any refusal there would be one attempt per request.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from functools import partial

from tests.fakes import GOOD, OPENAI, Received, Response, Server, make_request, quick_backbone, run_threads

WINDOW_SECONDS = 0.5


class Quota:
    """Answers so many requests in any half second."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._answered: list[float] = []

    def respond(self, _: Received) -> Response:
        """Answer, or refuse what is too much."""
        with self._lock:
            now = time.monotonic()
            if sum(moment > now - WINDOW_SECONDS for moment in self._answered) >= self._rate:
                return Response(429, OPENAI.error("slow down"), headers={"retry-after": str(WINDOW_SECONDS)})
            self._answered.append(now)
        return Response(body=OPENAI.ok(GOOD), before=lambda: time.sleep(0.05))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=48)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--rate", type=int, default=5)
    options = parser.parse_args()
    server = Server()
    os.environ |= OPENAI.environment(server.url)
    server.respond(Quota(options.rate).respond)
    backbone = quick_backbone(OPENAI.provider(), concurrency=options.workers, deadline_seconds=300)
    each = options.requests // options.workers
    started = time.monotonic()
    run_threads(
        *(
            partial(backbone.generate, [make_request(f"{worker}-{number}") for number in range(each)])
            for worker in range(options.workers)
        )
    )
    seconds = time.monotonic() - started
    least = WINDOW_SECONDS * (each * options.workers - options.rate) / options.rate
    print(
        f"{each * options.workers} requests from {options.workers} workers: {len(server.received)} attempts, "
        f"{seconds:.1f} s (at least {least:.1f} s at this rate)"
    )
    server.close()


if __name__ == "__main__":
    main()
