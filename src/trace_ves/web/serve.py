"""Serve an application until interrupted. The socket is opened first, so that a free port is known."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from trace_ves.core import InputError
from trace_ves.web.guard import LOOPBACK_NAMES

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    MakeApp = Callable[[Collection[str] | None, str | None], ASGIApp]


MOST_CONNECTIONS: Final = 512
"""Further connections get status 503. A server open to more than a trusted network needs a reverse proxy."""
KEEP_ALIVE_SECONDS: Final = 5
MOST_PER_CLIENT: Final = 64  # connections from one address; not applied behind a proxy, which limits its clients itself
REQUEST_SECONDS: Final = 10.0  # timeout for the headers and body of a request; at most twice this
READ_SECONDS: Final = 60.0  # timeout for a client that does not read its response
EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104  only compared with --host


@dataclass(frozen=True, slots=True)
class Address:
    """Where the page is served."""

    host: str
    port: int
    token: str | None
    scheme: str = "http"

    def url(self, path: str = "/", **query: str) -> str:
        """The address of a page, with the token if one is needed."""
        parameters = urlencode(query | ({"token": self.token} if self.token else {}))
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{name}:{self.port}{path}" + (f"?{parameters}" if parameters else "")


def serve_app(
    make: MakeApp,
    *,
    host: str,
    port: int,
    ready: Callable[[Address], None],
    needs_token: bool = True,
    certificate: Path | None = None,
    key: Path | None = None,
    behind_proxy: bool = False,
) -> None:
    """Serve until interrupted; `ready` is called with the address once the server listens.

    `make` is called with the accepted host names (None: any) and the token. Without `needs_token`, loopback has none.
    `certificate` and `key` are PEM files; with them, the server uses TLS.
    """
    listener = _listen(host, port)
    is_local = is_loopback(host)
    public_host = socket.gethostname() if host in EVERYWHERE else host
    token = secrets.token_urlsafe(24) if needs_token or not is_local else None
    address = Address(public_host, listener.getsockname()[1], token, "https" if certificate else "http")
    own_name = f"[{host}]" if ":" in host else host
    app = make({*LOOPBACK_NAMES, own_name.lower()} if is_local else None, token)
    config = uvicorn.Config(
        app,
        http=partial(_Connection, {}, None if behind_proxy else MOST_PER_CLIENT),  # type: ignore[arg-type]
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=1,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    with listener, suppress(KeyboardInterrupt), _interrupt_on_sigterm():
        try:
            config.load()
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            raise InputError(f"{certificate or host}: the certificate could not be used: {error}.") from None
        _Server(config, lambda: ready(address)).run(sockets=[listener])


class _Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection with two limits that uvicorn lacks: connections per client, and the time of an idle client."""

    def __init__(self, counts: dict[str, int], most: int | None, **options: Any) -> None:
        super().__init__(**options)
        self._counts, self._most = counts, most
        self._last_state: object = None  # at the previous check

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._host = str((transport.get_extra_info("peername") or ("",))[0])
        self._counts[self._host] = self._counts.get(self._host, 0) + 1
        if self._most is not None and self._counts[self._host] > self._most:
            transport.abort()
        self._check = self.loop.call_later(REQUEST_SECONDS, self._close_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._check.cancel()
        self._counts[self._host] -= 1
        if not self._counts[self._host]:
            del self._counts[self._host]
        super().connection_lost(exc)

    def _close_idle(self) -> None:
        """Close the connection if its request is incomplete, or if nothing has changed since the previous check."""
        cycle, is_full = self.cycle, self.flow.write_paused
        state = (id(cycle), self.transport.get_write_buffer_size())
        if cycle is None or cycle.more_body or (state == self._last_state and (is_full or cycle.response_complete)):
            self.transport.abort()
            return
        self._last_state = state
        self._check = self.loop.call_later(READ_SECONDS if is_full else REQUEST_SECONDS, self._close_idle)


class _Server(uvicorn.Server):
    """Calls `ready` once it listens and can be interrupted; an earlier signal would print a traceback."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def main_loop(self) -> None:
        """Call `ready` in a thread, because a browser in the terminal would block the server, then serve."""
        await asyncio.to_thread(self._ready)
        await super().main_loop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):  # those that outlasted the grace period
            connection.transport.abort()
        await asyncio.sleep(0)  # the loop closes them now


@contextmanager
def _interrupt_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that scratch folders are removed."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    listener: socket.socket | None = None
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
    except OSError as error:
        if listener is not None:
            listener.close()
        option = "--port" if is_loopback(host) else "--host or --port"
        raise InputError(f"{host}:{port} could not listen: {error.strerror}; give another {option}.") from None
    listener.listen()
    return listener
