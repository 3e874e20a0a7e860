"""Addresses of the web: taken apart, resolved, and refused where they lead into a private network.

Names are resolved once for each connection, and the connection goes to the addresses that were checked: a name that
resolves to something else a moment later gains nothing.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urljoin, urlsplit

from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PORTS: Final = {"http": 80, "https": 443}
_NAT64: Final = ip_network("64:ff9b::/96")
_UNRESERVED_PATH: Final = "/%:@!$&'()*+,;=~"
_UNRESERVED_QUERY: Final = f"{_UNRESERVED_PATH}?"

Endpoint = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]
"""A socket address with its family."""


class UnknownHostError(InputError):
    """A name that leads nowhere, by mistake or because there is no connection."""


@dataclass(frozen=True, slots=True)
class Address:
    """An http or https address, ready to be connected to."""

    scheme: str
    host: str
    port: int
    target: str
    """Path and query, as a request line has them."""

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address in this text; an `InputError` says why there is none."""
        try:
            parts = urlsplit(text)
            host, port = (parts.hostname or "").encode("idna").decode("ascii"), parts.port
        except (ValueError, UnicodeError):
            raise InputError(f"{text[:200]!r} is no address that can be fetched.") from None
        if parts.scheme not in _PORTS:
            raise InputError(f"{without_query(text)}: only http and https addresses can be fetched.")
        if not host:
            raise InputError(f"{text[:200]!r} names no host.")
        if "@" in parts.netloc:
            raise InputError(f"{host}: an address with a user name or password is not fetched; download it yourself.")
        target = quote(parts.path or "/", safe=_UNRESERVED_PATH)
        if parts.query:
            target += "?" + quote(parts.query, safe=_UNRESERVED_QUERY)
        return cls(parts.scheme, host, port or _PORTS[parts.scheme], target)

    def joined(self, location: str) -> Address:
        """Where a redirect from here leads. From https it never leads back to http."""
        found = Address.parse(urljoin(str(self), location))
        if self.scheme == "https" and found.scheme == "http":
            raise InputError(f"{self.shown}: redirects from https to http ({found.shown}), which is not followed.")
        return found

    @property
    def default_port(self) -> int:
        """The port that its scheme has where none is named."""
        return _PORTS[self.scheme]

    @property
    def shown(self) -> str:
        """The address for messages: without its query, which may hold a key."""
        return without_query(str(self))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == self.default_port else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"


def is_address(text: str) -> bool:
    """Whether a person means an address and not a file."""
    return re.match(r"[a-z][a-z0-9+.-]*://", text, re.IGNORECASE | re.ASCII) is not None


def without_query(text: str) -> str:
    """An address as messages show it."""
    return re.split(r"[?#]", text, maxsplit=1)[0][:200]


def resolve(host: str, port: int, *, allow_private: bool) -> Sequence[Endpoint]:
    """Where this host is. An `InputError` where any of its addresses is private, unless that is allowed."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UnknownHostError(f"{host}: no such host is known; check the address and the connection.") from None
    endpoints = [(family, sockaddr) for family, _, _, _, sockaddr in found]
    for _, sockaddr in endpoints:
        found_at = str(sockaddr[0])
        if not allow_private and not is_public(found_at):
            place = host if host == found_at else f"{host} ({found_at})"
            raise InputError(
                f"{place} is this machine or in a private network; give --allow-private to fetch from there."
            )
    return endpoints  # type: ignore[return-value]  # the address of a stream socket is one of the two kinds


def is_public(text: str) -> bool:
    """Whether an IP address is one of the open Internet, also where it wraps an address of IPv4."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        wrapped = _wrapped(address)
        if wrapped is not None:
            return is_public(str(wrapped))
    return address.is_global and not address.is_multicast


def _wrapped(address: IPv6Address) -> IPv4Address | None:
    """The address of IPv4 that this one leads to, by mapping, 6to4, Teredo or NAT64."""
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
