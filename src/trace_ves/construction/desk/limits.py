"""Refuses bodies that are larger than any judgement, or that take too long to come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES: Final = 64 * 1024
BODY_SECONDS: Final = 15.0
"""A body that is not there by then is not waited for."""


class BodyLimit:
    """Wraps an application; a longer body is answered with 413, a slower one with 408."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on as long as its body is short."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(_read(Headers(scope=scope), receive), BODY_SECONDS)
        except TimeoutError:
            await _refusal(408, "The body took too long to come.")(scope, receive, send)
        except _TooLargeError:
            await _refusal(413, f"A body here has at most {MOST_BYTES} bytes.")(scope, receive, send)
        else:
            if body is not None:
                await self._app(scope, _replay(body, receive), send)


class _TooLargeError(Exception):
    """The body has more bytes than any judgement."""


async def _read(headers: Headers, receive: Receive) -> bytes | None:
    """The whole body; None where the client went away."""
    announced = headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > MOST_BYTES:
        raise _TooLargeError
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > MOST_BYTES:
            raise _TooLargeError
        if not message.get("more_body", False):
            return bytes(body)


def _refusal(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"detail": sentence}, status_code=status, headers={"Connection": "close"})


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
