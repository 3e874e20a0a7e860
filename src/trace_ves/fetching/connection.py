"""One GET, redirects included, each hop connected to an address that was checked. Knows nothing of videos."""

from __future__ import annotations

import socket
import ssl
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Final

from trace_ves._version import __version__
from trace_ves.core.errors import InputError
from trace_ves.fetching.addresses import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trace_ves.fetching.addresses import Address, Endpoint
    from trace_ves.fetching.rules import FetchRules

MOST_REDIRECTS: Final = 10
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = {"User-Agent": f"trace-ves/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}


class InterruptedTransferError(Exception):
    """The connection failed or broke off; trying again may help. The message is a clause."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered, with the body still to be read."""

    address: Address
    """Where the redirects ended."""
    response: HTTPResponse

    @property
    def status(self) -> int:
        """The status code."""
        return self.response.status

    def header(self, name: str) -> str:
        """A header, or nothing."""
        return (self.response.getheader(name) or "").strip()

    @property
    def length(self) -> int | None:
        """Bytes that the body has, as the server says."""
        text = self.header("Content-Length")
        return int(text) if text.isascii() and text.isdigit() and not self.response.chunked else None


@contextmanager
def get(address: Address, headers: Mapping[str, str], rules: FetchRules) -> Iterator[Reply]:
    """Ask for an address and follow its redirects. What may pass is an `InterruptedTransferError`."""
    for _ in range(MOST_REDIRECTS + 1):
        connection = _CheckedConnection(address, rules)
        try:
            with _sentences(address):
                connection.request("GET", address.target, headers={**_HEADERS, **headers})
                response = connection.getresponse()
            if response.status not in _REDIRECTS:
                yield Reply(address, response)
                return
            location = response.getheader("Location")
        finally:
            connection.close()
        if not location:
            raise InputError(f"{address.shown}: the server redirects to nowhere.")
        address = address.joined(location)
    raise InputError(f"{address.shown}: more than {MOST_REDIRECTS} redirects.")


def read(reply: Reply, most: int) -> bytes:
    """The next bytes of a body, as many as are there; none at its end."""
    with _sentences(reply.address):
        return reply.response.read1(most)


class _CheckedConnection(HTTPConnection):
    """Connects to addresses that were resolved and checked, and speaks TLS where the scheme says so."""

    def __init__(self, address: Address, rules: FetchRules) -> None:
        super().__init__(address.host, address.port, timeout=rules.timeout_seconds)
        self.default_port = address.default_port
        self._scheme = address.scheme
        self._allow_private = rules.allow_private
        self._timeout_seconds = rules.timeout_seconds

    def connect(self) -> None:
        """Resolve, check, connect."""
        endpoints = resolve(self.host, self.port, allow_private=self._allow_private)
        self.sock = dial(endpoints, self._timeout_seconds)
        if self._scheme == "https":
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)


def dial(endpoints: Sequence[Endpoint], timeout_seconds: float) -> socket.socket:
    """A socket to the first of these addresses that answers."""
    failure: OSError = ConnectionError("no address")
    for family, address in endpoints:
        connected = socket.socket(family, socket.SOCK_STREAM)
        try:
            connected.settimeout(timeout_seconds)
            connected.connect(address)
        except OSError as error:
            connected.close()
            failure = error
        else:
            return connected
    raise failure


@contextmanager
def _sentences(address: Address) -> Iterator[None]:
    """What goes wrong on the way, as one of the two kinds of error."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise InputError(f"{address.shown}: its certificate is not trusted ({error.verify_message}).") from None
    except TimeoutError:
        raise InterruptedTransferError("the server did not answer in time") from None
    except OSError as error:
        raise InterruptedTransferError(error.strerror or type(error).__name__) from None
    except (HTTPException, ValueError) as error:
        raise InterruptedTransferError(f"the server broke HTTP: {type(error).__name__}") from None
