"""Checks of every request (host name, token, size of the body), and strict headers on every response."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
MOST_BODY_BYTES: Final = 64 * 1024  # except on addresses in `Guard(body_bytes=…)`

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "media-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Wraps an application. `hosts` are the accepted host names; None accepts any, and requires a token.

    `secure` is for servers behind TLS: cookies are then only sent over TLS.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str] | None,
        token: str | None,
        secure: bool = False,
        body_bytes: Mapping[str, int] | None = None,
    ) -> None:
        if hosts is None and token is None:
            raise ValueError("a server without `hosts` needs a token")
        self._app = app
        self._hosts = hosts
        self._token = token
        self._body_bytes = body_bytes or {}  # the limit of addresses that accept a longer body
        # cookies do not distinguish ports, so two servers on one machine need different names
        self._secure = secure
        name = f"trace_ves_{hashlib.sha256((token or '').encode()).hexdigest()[:8]}"
        self._cookie = cookie_name(name, secure=secure)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or forward the request, and add the headers to the response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-cache" if scope["path"].startswith("/static/") else "no-store")
            await send(message)

        response = self._check_request(scope)
        await (self._app if response is None else response)(scope, receive, send_guarded)

    def _check_request(self, scope: Scope) -> Response | None:
        """Return the response to a request that is refused or redirected, else None."""
        request = HTTPConnection(scope)
        headers, query = request.headers, request.query_params.multi_items()
        if self._hosts is not None and _remove_port(headers.get("host", "")) not in self._hosts:
            return PlainTextResponse("Open this page at the address that the command printed.\n", status_code=421)
        if self._token is None or self._is_token(request.cookies.get(self._cookie, "")):
            return _check_body(headers, self._body_bytes.get(scope["path"], MOST_BODY_BYTES))
        if any(name == "token" and self._is_token(value) for name, value in query):
            return self._set_cookie(scope, [(name, value) for name, value in query if name != "token"])
        return PlainTextResponse("A token is needed: open the address that the command printed.\n", status_code=401)

    def _is_token(self, value: str) -> bool:
        return self._token is not None and hmac.compare_digest(value.encode(), self._token.encode())

    def _set_cookie(self, scope: Scope, query: list[tuple[str, str]]) -> Response:
        """Move the token from the address to a cookie, so that a copied address does not contain it."""
        path = "/" + quote(str(scope["path"]).lstrip("/"))
        response = RedirectResponse(f"{path}?{urlencode(query)}" if query else path, status_code=303)
        response.set_cookie(self._cookie, self._token or "", httponly=True, samesite="lax", secure=self._secure)
        return response


def _check_body(headers: Headers, most: int) -> Response | None:
    """Refuse a body that is too long or has no Content-Length."""
    if "transfer-encoding" in headers:
        status, sentence = 411, "Send the body with a Content-Length."
    elif int(headers.get("content-length", "0")) > most:  # the server has checked that this is a number
        status, sentence = 413, f"The body of this request may have at most {most} bytes."
    else:
        return None
    return JSONResponse({"detail": sentence}, status_code=status, headers={"Connection": "close"})


def cookie_name(name: str, *, secure: bool) -> str:
    """The name of a cookie; with the prefix for TLS, browsers only accept it from this host."""
    return f"__Host-{name}" if secure else name


def _remove_port(host: str) -> str:
    """A host header without its port."""
    name, colon, port = host.rpartition(":")
    return name.lower() if colon and port.isdigit() else host.lower()
