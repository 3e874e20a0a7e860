"""The server itself, in this process: its address, its token, how it ends, and connections that do nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from starlette.responses import PlainTextResponse

from trace_ves.core import InputError
from trace_ves.web import serve
from trace_ves.web.serve import Address, is_loopback, serve_app

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import Receive, Scope, Send


def served(number: signal.Signals = signal.SIGINT, **options: Any) -> tuple[Address, Any, str]:
    """Serve until a signal after the first response; gives the address, what the app was made with, the response."""
    made: list[Any] = []
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("here")(scope, receive, send)

    def make(hosts: Collection[str] | None, token: str | None) -> Any:
        made.append((hosts, token))
        return app

    def ready(address: Address) -> None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{address.port}/", timeout=30) as response:
                seen.append((address, response))
                seen.append(response.read().decode())
        finally:
            os.kill(os.getpid(), number)

    before = signal.getsignal(signal.SIGTERM)
    loop = asyncio._get_running_loop()  # a browser of another test may have one in this thread
    asyncio._set_running_loop(None)
    try:
        serve_app(make, **{"host": "127.0.0.1", "port": 0, "ready": ready} | options)
    finally:
        asyncio._set_running_loop(loop)
    assert signal.getsignal(signal.SIGTERM) is before
    [(address, response), text] = seen
    assert response.headers["server"] is None
    return address, made[0], text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_page_on_loopback_has_a_token_and_ends_when_it_is_asked_to(number: signal.Signals) -> None:
    address, (hosts, token), text = served(number)
    assert text == "here"
    assert hosts == {"127.0.0.1", "localhost", "[::1]"}
    assert (address.host, address.token, len(token), address.scheme) == ("127.0.0.1", token, 32, "http")


def test_what_needs_no_token_has_none_on_loopback_alone() -> None:
    address, (hosts, token), _ = served(host="localhost", needs_token=False)
    assert (token, address.token, "localhost" in hosts) == (None, None, True)
    address, (hosts, token), _ = served(host="0.0.0.0", needs_token=False)
    assert (hosts, len(token), address.host) == (None, 32, socket.gethostname())


def test_an_address_holds_its_token_and_an_ipv6_name_its_brackets() -> None:
    assert Address("::1", 80, None, "https").url() == "https://[::1]:80/"
    assert Address("h", 80, "t").url("/run", name="a b") == "http://h:80/run?name=a+b&token=t"
    assert [is_loopback(host) for host in ("127.9.9.9", "::1", "localhost", "8.8.8.8", "::", "name")] == [
        *[True] * 3,
        *[False] * 3,
    ]


def test_what_cannot_be_listened_on_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"^127\.0\.0\.1:{port} could not listen: .*; give another --port\.$"):
            served(port=port)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: (_ for _ in ()).throw(OSError(2, "unknown")))
    with pytest.raises(InputError, match=r"^far:80 could not listen: unknown; give another --host or --port\.$"):
        served(host="far", port=80)


def test_a_certificate_that_is_none_is_a_sentence(tmp_path: Any) -> None:
    (tmp_path / "c.pem").write_text("no certificate")
    with pytest.raises(InputError, match=r"c\.pem: the certificate could not be used: "):
        served(certificate=tmp_path / "c.pem", key=tmp_path / "c.pem")


def test_the_limits_that_the_server_is_started_with(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}
    monkeypatch.setattr(serve.uvicorn, "Config", lambda app, **given: found.update(given) or SimpleNamespace(load=int))
    monkeypatch.setattr(serve, "_Server", lambda *_: SimpleNamespace(run=lambda **_: None))
    for behind_proxy, most in ((False, 64), (True, None)):
        serve_app(lambda *_: None, host="127.0.0.1", port=0, ready=print, behind_proxy=behind_proxy)  # type: ignore[arg-type, return-value]
        assert found.pop("http").args == ({}, most)
        assert found == {
            "limit_concurrency": 512,
            "timeout_keep_alive": 5,
            "log_level": "warning",
            "access_log": False,
            "server_header": False,
            "lifespan": "off",
            "timeout_graceful_shutdown": 1,
            "ssl_certfile": None,
            "ssl_keyfile": None,
        }


class Transport:
    """A connection of a client that does as it likes."""

    def __init__(self, host: str = "1.2.3.4") -> None:
        self.host, self.is_aborted, self.waiting = host, False, 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (self.host, 9) if name == "peername" else default

    def abort(self) -> None:
        self.is_aborted = True

    def get_write_buffer_size(self) -> int:
        return self.waiting


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes connections without a network; the checks that they ask for are in `later`."""
    base = serve._Connection.__mro__[1]
    monkeypatch.setattr(base, "connection_made", lambda self, transport: setattr(self, "transport", transport))
    monkeypatch.setattr(base, "connection_lost", lambda *_: None)
    counts: dict[str, int] = {}

    def make(host: str = "1.2.3.4", most: int | None = 2) -> Any:
        made = serve._Connection.__new__(serve._Connection)
        made._counts, made._most, made._last = counts, most, None
        made.later = []
        check = SimpleNamespace(cancel=lambda: made.later.append("cancelled"))
        made.loop = SimpleNamespace(call_later=lambda seconds, _: made.later.append(seconds) or check)
        made.flow, made.cycle = SimpleNamespace(write_paused=False), None
        made.connection_made(Transport(host))
        made.counts = counts
        return made

    return make


def test_an_address_has_so_many_connections(connect: Any) -> None:
    made = [connect() for _ in range(3)] + [connect("5.6.7.8")]
    assert [each.transport.is_aborted for each in made] == [False, False, True, False]
    assert made[0].counts == {"1.2.3.4": 3, "5.6.7.8": 1}
    for each in made[1:]:
        each.connection_lost(None)
    assert made[0].counts == {"1.2.3.4": 1}
    assert made[1].later == [10.0, "cancelled"]
    assert not connect(most=None).transport.is_aborted


@pytest.mark.parametrize(
    ("cycle", "is_full", "ends_at"),
    [
        (None, False, 1),  # no request came
        (SimpleNamespace(more_body=True, response_complete=False), False, 1),
        (SimpleNamespace(more_body=False, response_complete=True), False, 2),  # idle since the last check
        (SimpleNamespace(more_body=False, response_complete=False), True, 2),  # reads nothing
        (SimpleNamespace(more_body=False, response_complete=False), False, None),  # waits for the answer
    ],
)
def test_a_connection_that_does_nothing_is_closed(connect: Any, cycle: Any, is_full: bool, ends_at: int | None) -> None:
    made = connect()
    made.cycle, made.flow.write_paused = cycle, is_full
    ended = None
    for check in (1, 2, 3):
        made._close_idle()
        ended = ended or (check if made.transport.is_aborted else None)
    assert ended == ends_at
    waits = [60.0 if is_full else 10.0] * (3 if ends_at is None else ends_at - 1)
    assert made.later[1 : 1 + len(waits)] == waits
    reading = connect()
    reading.cycle, reading.flow.write_paused = SimpleNamespace(more_body=False, response_complete=False), True
    for left in (900, 800, 700):
        reading.transport.waiting = left
        reading._close_idle()
    assert not reading.transport.is_aborted
