"""Answers that were paid for once are kept: a backbone around a backbone that asks only what it has not asked before.

Knows requests and replies; where they are kept is the store's business. A model's faults and a service's failures are
not kept, so that the next run asks again.
"""

from __future__ import annotations

import hashlib
import json
import time
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from trace_ves.backbone.protocol import Backbone, CacheableBackbone, Generation, IncrementalBackbone, R, Request
from trace_ves.backbone.provider import ImagePart, request_parts
from trace_ves.backbone.remote import collect
from trace_ves.backbone.replies import reply_schema
from trace_ves.backbone.response_leases import LEASE_SECONDS, Leases
from trace_ves.backbone.response_store import ResponseStore
from trace_ves.core import BackboneError
from trace_ves.core.files import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Outcome = Generation[Any] | BackboneError

DEFAULT_MAX_BYTES: Final = 512 * 1024**2
MOST_WAIT_SECONDS: Final = 900.0
"""How long a process waits for the answer that another one is asking for, before it asks as well."""
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0
_KEY_FORMAT: Final = "trace-ves reply 1"


def default_path() -> Path:
    """Where the replies of all paid backbones are kept."""
    return cache_dir() / "replies.sqlite"


@dataclass(frozen=True, slots=True, eq=False)
class _Pending:
    """A request that one thread has undertaken to answer, and others may wait for."""

    key: bytes
    outcome: Future[Outcome]


class CachedBackbone:
    """Asks the inner backbone only what is not in the cache, and each thing once, whoever else asks at the same time.

    A hit reports no tokens, because none were paid, and the seconds of the lookup. So does a request that waited for
    the same one under way in another thread or process. Frames are charged by the observer as ever.
    """

    def __init__(
        self,
        inner: Backbone,
        path: Path,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._inner = inner
        self._store = ResponseStore(path, max_bytes)
        self._leases = Leases(self._store, lease_seconds)
        self._settings = dict(inner.answer_settings) if isinstance(inner, CacheableBackbone) else {}
        self._lock = Lock()
        self._pending: dict[bytes, _Pending] = {}

    def __repr__(self) -> str:
        return f"CachedBackbone({self._inner!r})"

    @property
    def name(self) -> str:
        """The spec of the inner backbone."""
        return self._inner.name

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer every request of the batch, in the order given, from the cache where it can."""
        return collect(len(batch), self.generate_as_completed(batch))

    def generate_as_completed(self, batch: Sequence[Request[R]]) -> Iterator[tuple[int, Generation[R] | BackboneError]]:
        """Each request's place in the batch with its answer or what went wrong, as they come in."""
        started = time.monotonic()
        mine, others = self._claim([self.key(request) for request in batch])
        try:
            # What this thread claimed is answered before it waits for others, so no two threads wait for each other.
            # The same holds for processes, by leases.
            waiting = dict(mine)
            deadline, pause = started + MOST_WAIT_SECONDS, FIRST_PAUSE_SECONDS
            while waiting:
                for place, hit in self._known(batch, waiting, started):
                    del waiting[place]
                    yield place, hit
                leased = self._leases.take({claim.key for claim in waiting.values()})
                if time.monotonic() > deadline:  # somebody keeps their lease and has no answer: ask as well
                    leased = {claim.key for claim in waiting.values()}
                ours = {place: claim for place, claim in waiting.items() if claim.key in leased}
                for place, hit in self._known(batch, ours, started):  # written before the other one's lease ended
                    del waiting[place], ours[place]
                    yield place, hit
                yield from self._ask(batch, ours)
                for place in ours:
                    del waiting[place]
                if waiting and not ours:
                    time.sleep(pause)
                    pause = min(LONGEST_PAUSE_SECONDS, 1.5 * pause)
        finally:
            self._leases.end(claim.key for claim in mine.values())
            for claim in mine.values():
                self._resolve(claim, BackboneError(f"{self.name}: the same request, asked elsewhere, was interrupted."))
        for place, claim in others.items():
            outcome = claim.outcome.result()
            if isinstance(outcome, Generation):
                yield place, Generation(outcome.reply, seconds=time.monotonic() - started, said=outcome.said)
            else:
                yield place, BackboneError(str(outcome))  # an error of its own, for a traceback of its own

    def _known(
        self, batch: Sequence[Request[R]], claims: Mapping[int, _Pending], started: float
    ) -> list[tuple[int, Generation[R]]]:
        """The requests whose answers are kept already, with these."""
        found = []
        for place, claim in claims.items():
            if (reply := self._look_up(claim.key, batch[place])) is not None:
                hit = Generation(reply, seconds=time.monotonic() - started)
                self._leases.end([claim.key])
                self._resolve(claim, hit)
                found.append((place, hit))
        return found

    def _claim(self, keys: Sequence[bytes]) -> tuple[dict[int, _Pending], dict[int, _Pending]]:
        """The places that this thread has to answer, and those that are under way already, here or elsewhere."""
        mine: dict[int, _Pending] = {}
        others: dict[int, _Pending] = {}
        with self._lock:
            for place, key in enumerate(keys):
                if key in self._pending:
                    others[place] = self._pending[key]
                else:
                    self._pending[key] = mine[place] = _Pending(key, Future())
        return mine, others

    def _resolve(self, claim: _Pending, outcome: Outcome) -> None:
        """Tell who waits for this claim, unless they were told already."""
        with self._lock:
            if self._pending.get(claim.key) is not claim:
                return
            del self._pending[claim.key]
        claim.outcome.set_result(outcome)

    def _ask(
        self, batch: Sequence[Request[R]], missing: Mapping[int, _Pending]
    ) -> Iterator[tuple[int, Generation[R] | BackboneError]]:
        """CompletionRequest the inner backbone what is missing, and keep each answer as soon as it is there."""
        places = list(missing)
        for position, outcome in self._outcomes([batch[place] for place in places]):
            place = places[position]
            if isinstance(outcome, Generation) and isinstance(outcome.reply, BaseModel):
                self._store.put(missing[place].key, outcome.reply.model_dump_json())
            self._leases.end([missing[place].key])
            self._resolve(missing[place], outcome)
            yield place, outcome

    def _outcomes(self, requests: Sequence[Request[R]]) -> Iterator[tuple[int, Generation[R] | BackboneError]]:
        if not requests:
            return
        if isinstance(self._inner, IncrementalBackbone):
            yield from self._inner.generate_as_completed(requests)
            return
        try:
            yield from enumerate(self._inner.generate(requests))
        except BackboneError as error:
            yield from ((position, error) for position in range(len(requests)))

    def _look_up(self, key: bytes, request: Request[R]) -> R | None:
        text = self._store.get(key)
        if text is None:
            return None
        try:
            return request.reply.model_validate_json(text)
        except ValidationError:  # the reply has rules that its schema does not show, and they changed
            return None

    def key(self, request: Request[Any]) -> bytes:
        """The content address of an answer: everything that can change it, and nothing else."""
        frames: list[Any] = [frame.seconds for clip in request.clips for frame in clip.frames]
        parts = [_digest(part.jpeg) if isinstance(part, ImagePart) else part.text for part in request_parts(request)]
        asked = {
            "format": _KEY_FORMAT,
            "backbone": self.name,
            "settings": self._settings,
            "stage": request.stage,
            "parts": parts,
            "seconds": frames,
            "schema": reply_schema(request.reply),
            "sample": request.sample,
        }
        return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).digest()


def _digest(jpeg: bytes) -> list[str]:
    """A frame's part of a key; a list, so that no text can look like it."""
    return [hashlib.sha256(jpeg).hexdigest()]
