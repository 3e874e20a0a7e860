"""One question while it is being answered: a thread, and a numbered list of what has happened so far."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Literal

from trace_ves.core import TraceVesError
from trace_ves.core.plugins import described
from trace_ves.cost.spent import Spent
from trace_ves.observer import CallAnswered
from trace_ves.studio.events import event_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from trace_ves.asking import AskResult
    from trace_ves.cost.prices import Price
    from trace_ves.observer import Listener, Progress
    from trace_ves.studio.events import Json

State = Literal["running", "done", "failed", "cancelled"]
MOST_EVENTS: Final = 20_000


class CancelledSearchError(TraceVesError):
    """Raised inside a search whose person wants no more of it."""


class LiveSearch:
    """Answers one question in a thread of its own. Everybody may ask how far it is.

    `answer` is called with a listener; `keep` gets its result, and gives the address of the story. A cancelled search
    sends no further call: one that is in flight is awaited by its thread alone, and its reply is thrown away.
    """

    def __init__(
        self,
        number: int,
        title: str,
        video: str,
        answer: Callable[[Listener], AskResult],
        *,
        keep: Callable[[AskResult], Json],
        price: Price | None,
    ) -> None:
        self.number: Final = number
        self.title: Final = title
        """The question, by which its story is found."""
        self.video: Final = video
        """The name of what it is about."""
        self.state: State = "running"
        self._answer, self._keep, self._price = answer, keep, price
        self._events: list[Json] = []
        self._spent = Spent()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"search-{number}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until its thread has ended, but not longer than this."""
        self._thread.join(seconds)

    def cancel(self) -> None:
        """End it: nothing more is sent. A search that has ended stays as it is."""
        self._end("cancelled", {"kind": "cancelled"})

    def events_after(self, count: int) -> list[Json]:
        """What has happened since the first `count` events."""
        with self._lock:
            return self._events[count:]

    def spent(self) -> Json:
        """What its calls came to so far."""
        with self._lock:
            return self._spent.to_json(self._spent.dollars(self._price))

    def _run(self) -> None:
        try:
            result = self._answer(self._hear)
            if self.state == "running":
                self._end("done", {"kind": "done", **self._keep(result)})
        except CancelledSearchError:
            pass  # whoever cancelled it has said so
        except TraceVesError as error:
            self._end("failed", {"kind": "failed", "sentence": str(error)})
        except Exception as error:  # noqa: BLE001  a page that waits must hear of it
            self._end("failed", {"kind": "failed", "sentence": described(error)})

    def _hear(self, progress: Progress) -> None:
        with self._lock:
            if self.state != "running":
                raise CancelledSearchError("the search was cancelled.")
            if isinstance(progress.event, CallAnswered):
                self._spent.add(progress.event.call)
            if len(self._events) < MOST_EVENTS:
                self._events.append(event_of(progress))

    def _end(self, state: State, event: Json) -> None:
        with self._lock:
            if self.state == "running":
                self.state = state
                self._events.append(event)
