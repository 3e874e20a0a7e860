"""Runs the page on a socket until it is interrupted; the port is known before the first request."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import uvicorn

from trace_ves.core import InputError
from trace_ves.web.app import create_app
from trace_ves.web.guard import LOOPBACK_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.types import ASGIApp

    from trace_ves.web.library import Library

    MakeApp = Callable[[Collection[str] | None, str | None], ASGIApp]

EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104  names that a person may give; nothing binds to them unasked


@dataclass(frozen=True, slots=True)
class Address:
    """Where the page is served."""

    host: str
    port: int
    token: str | None

    def url(self, path: str = "/", **query: str) -> str:
        """The address of a page, with the token where one is needed."""
        more = urlencode(query | ({"token": self.token} if self.token else {}))
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}{path}" + (f"?{more}" if more else "")


def serve(library: Library, *, host: str, port: int, ready: Callable[[Address], None]) -> None:
    """Serve the page of a library until interrupted."""
    serve_app(lambda hosts, token: create_app(library, hosts=hosts, token=token), host=host, port=port, ready=ready)


def serve_app(make: MakeApp, *, host: str, port: int, ready: Callable[[Address], None]) -> None:
    """Serve until interrupted. On anything but loopback a token is made, and `ready` hears of it.

    `make` is called with the host names that the application may answer to (None: any) and the token.
    """
    listener = _listen(host, port)
    local = is_loopback(host)
    shown = socket.gethostname() if host in EVERYWHERE else host
    address = Address(shown, listener.getsockname()[1], None if local else secrets.token_urlsafe(24))
    app = make(LOOPBACK_NAMES if local else None, address.token)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, lifespan="off", timeout_graceful_shutdown=1
    )
    with listener, suppress(KeyboardInterrupt):
        ready(address)
        uvicorn.Server(config).run(sockets=[listener])


def open_browser(url: str) -> None:
    """Show an address to the person, where there is a browser."""
    webbrowser.open(url)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
    except OSError as error:
        raise InputError(f"{host}:{port} could not listen: {error.strerror}; give another --host or --port.") from None
    listener.listen()
    return listener
