"""The desk's audit log: sign-ins, refusals, and all footage sent. One JSON object per line."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

AUDIT_FILE: Final = "desk-audit.jsonl"
MEDIA: Final = frozenset({"/video", "/clip", "/frame", "/times", "/strip"})
REFUSALS: Final = frozenset({401, 403, 409, 411, 413, 421, 422, 429, 500, 503})
LOGGER: Final = logging.getLogger("trace_ves.desk")


class AuditLog:
    """Appends lines to a private file, opened for every line so that it can be rotated. Errors are only logged."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, event: str, **facts: object) -> None:
        """Append one line."""
        line = json.dumps({"at": round(time.time(), 3), "event": event} | facts) + "\n"
        try:
            with open(self._path, "a", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, 0o600)) as file:
                file.write(line)
        except OSError as error:
            LOGGER.warning("the audit log could not be written: %s", error.strerror)


class AuditMiddleware:
    """Logs every refusal and every response with footage."""

    def __init__(self, app: ASGIApp, log: AuditLog) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request; its response is logged before it is sent."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})

        async def note_first(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(scope, message["status"])
            await send(message)

        with suppress(asyncio.CancelledError):  # raised if the desk ends while a request waits, for example for a clip
            await self._app(scope, receive, note_first)

    def _note(self, scope: Scope, status: int) -> None:
        path = str(scope["path"])
        event = "refused" if status in REFUSALS else "served" if path in MEDIA and status < 300 else ""
        if event:
            query = scope["query_string"].decode("latin-1")
            self._log.write(
                event,
                who=scope["state"].get("who", ""),
                address=(scope.get("client") or ("",))[0],
                method=scope["method"],
                path=path[:200],
                query="&".join(part for part in query.split("&") if not part.startswith("token="))[:400],
                range=Headers(scope=scope).get("range", "")[:60],
                status=status,
            )
