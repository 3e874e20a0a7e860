"""Refuses bodies that are larger than any judgement, before they are held in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES: Final = 64 * 1024


class BodyLimit:
    """Wraps an application; a longer body is answered with 413."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on as long as its body is short."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = Headers(scope=scope).get("content-length", "0")
        body = bytearray()
        too_large = not told.isdecimal() or int(told) > MOST_BYTES
        while not too_large:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            too_large = len(body) > MOST_BYTES
            if not message.get("more_body", False):
                break
        if too_large:
            refusal = JSONResponse({"detail": f"A body here has at most {MOST_BYTES} bytes."}, status_code=413)
            await refusal(scope, receive, send)
            return
        await self._app(scope, _replay(bytes(body), receive), send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Hands out the body that was read, then whatever else comes."""
    sent = False

    async def next_message() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message
