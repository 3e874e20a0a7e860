"""One file, byte by byte: continued where it broke off, never larger than allowed, never half."""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote, urljoin, urlsplit

from trace_ves._version import __version__
from trace_ves.core.errors import InputError
from trace_ves.core.files import write_atomic
from trace_ves.core.jsonl import parse_object
from trace_ves.records.base import Count, SparseRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class Version(SparseRecord):
    """Which version of a file a server has: equal versions have equal bytes."""

    etag: str | None = None
    last_modified: str | None = None
    bytes: Count | None = None

    @classmethod
    def of(cls, reply: Reply, size: int | None) -> Self:
        """The version that a reply is of."""
        return cls(reply.header("ETag") or None, reply.header("Last-Modified") or None, size)

    @property
    def validator(self) -> str | None:
        """What makes a range safe to ask for: a strong ETag, or else a date. Without one, nothing can be continued."""
        if self.etag is not None:
            return None if self.etag.startswith("W/") else self.etag
        return self.last_modified

    @property
    def conditions(self) -> dict[str, str]:
        """The headers that ask for the file only if it is another by now."""
        found = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in found.items() if value is not None}

    def write(self, path: Path) -> None:
        """Note it."""
        write_atomic(path, json.dumps(self.to_json()), private=True)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """What was noted; None where there is nothing that can be read."""
        try:
            return cls.from_json(parse_object(path.read_bytes()))
        except (OSError, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class Note(Version):
    """A file that was fetched whole."""

    name: str = ""
    """The name of the file in its folder."""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Freshness:
    """Whether a file that is kept may be used."""

    same: bool = True
    warning: str | None = None
    """Set where nobody could be asked."""


GIGABYTE: Final = 10**9


@dataclass(frozen=True, slots=True)
class FetchRules:
    """The limits of a fetch."""

    allow_private: bool = False
    """Whether addresses of this machine and of private networks may be connected to."""
    most_bytes: int = 8 * GIGABYTE
    """A larger file is refused."""
    cache_bytes: int = 32 * GIGABYTE
    """Files that were not used for longest are dropped where all together would take more."""
    timeout_seconds: float = 30.0
    """For connecting, and for each wait for more bytes."""
    slow_seconds: float = 60.0
    """A server that brings less than `least_bytes` in this time is given up."""
    least_bytes: int = 1 << 16
    attempts: int = 4
    """A transfer that breaks off is continued until this many attempts in a row brought less than `least_bytes`."""
    wait_seconds: float = 0.5
    """The wait before the second attempt; it doubles from there."""


_CHUNK_BYTES: Final = 1 << 20
_NOT_VIDEO: Final = re.compile(
    r"text/|image/(?!gif|apng)|audio/|font/|multipart/"
    r"|application/(json|xml|xhtml\+xml|pdf|zip|gzip|javascript|dash\+xml|vnd\.apple\.mpegurl|x-mpegurl)",
    re.IGNORECASE,
)
_NOT_VIDEO_HEAD: Final = (b"<!doctype", b"<html", b"<?xml", b"<mpd", b"#extm3u", b"{", b"%pdf")
_LATER: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that may be others in a moment."""


class _ChangedError(Exception):
    """The server has another version than the part that is here."""


def download(
    address: Address, part: Path, rules: FetchRules, on_progress: Callable[[int, int | None], None]
) -> Version:
    """Fetch a file to `part`, going on from what an earlier attempt left there; its version is noted beside it."""
    transfer = _Transfer(address, part, rules, on_progress)
    failures, best = 0, 0
    while True:
        try:
            return transfer.attempt()
        except _ChangedError:
            part.unlink(missing_ok=True)
            reason = "the file on the server changes"
        except InterruptedTransferError as interruption:
            reason = str(interruption)
        have = transfer.have()
        failures = failures + 1 if have < best + rules.least_bytes else 1
        best = max(best, have)
        if failures == rules.attempts:
            rest = f"; {size_words(have)} are kept, and the same command goes on from there" if have else ""
            raise InputError(f"{address.shown}: could not be fetched: {reason}{rest}.")
        time.sleep(rules.wait_seconds * 2 ** (failures - 1))


@dataclass(frozen=True, slots=True)
class _Transfer:
    address: Address
    part: Path
    rules: FetchRules
    on_progress: Callable[[int, int | None], None]

    @property
    def note(self) -> Path:
        return self.part.with_suffix(".json")

    def have(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def attempt(self) -> Version:
        """Fetch what is missing; the version of the whole file."""
        noted, have = Version.read(self.note), self.have()
        validator = noted.validator if noted is not None else None
        if noted is None or validator is None:
            have = 0
        elif have and have == noted.bytes:
            return noted
        headers = {"Range": f"bytes={have}-", "If-Range": validator} if have and validator else {}
        with get(self.address, headers, self.rules) as reply:
            _check_status(reply, ranged=bool(have))
            total = _total(reply, have)
            _check_type(reply)
            _check_size(reply.address, total, have, self)
            version = Version.of(reply, total)
            if reply.status == 200:
                have = 0
                self.part.unlink(missing_ok=True)
                version.write(self.note)
            elif noted is None or not _same(noted, version):
                raise _ChangedError
            return replace(version, bytes=self.copy(reply, have, total))

    def copy(self, reply: Reply, have: int, total: int | None) -> int:
        """Append the body to the part; the size that it then has."""
        pace = _Pace(self.rules, have)
        try:
            with self.part.open("ab") as file:
                while chunk := read(reply, _CHUNK_BYTES):
                    if not have:
                        _check_head(reply.address, chunk)
                    have += len(chunk)
                    if have > self.rules.most_bytes:
                        break
                    file.write(chunk)
                    self.on_progress(have, total)
                    pace.check(reply.address, have)
        except OSError as error:
            raise InputError(f"{self.part}: cannot be written: {error.strerror}; what was fetched is kept.") from None
        if have > self.rules.most_bytes:
            self.part.unlink()
            raise InputError(f"{reply.address.shown}: {too_large(have, self.rules)}")
        if total is not None and have != total:
            raise InterruptedTransferError(f"the connection ended after {size_words(have)} of {size_words(total)}")
        return have


def _check_status(reply: Reply, *, ranged: bool) -> None:
    if reply.status == 200 or (reply.status == 206 and ranged):
        return
    if reply.status == 416 and ranged:
        raise _ChangedError
    words = f"the server answered {reply.status} {reply.response.reason}".rstrip()
    if reply.status in _LATER:
        raise InterruptedTransferError(words)
    raise InputError(f"{reply.address.shown}: {words}.")


def _total(reply: Reply, have: int) -> int | None:
    """The size of the whole file, as the server says."""
    if reply.status == 200:
        return reply.length
    found = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", reply.header("Content-Range"), re.ASCII)
    if found is None or int(found[1]) != have:
        raise _ChangedError
    return None if found[3] == "*" else int(found[3])


def _check_type(reply: Reply) -> None:
    kind = reply.header("Content-Type")
    if _NOT_VIDEO.match(kind):
        raise InputError(
            f"{reply.address.shown}: this is {kind.partition(';')[0]!r}, not a video file; "
            "give the address of the file itself, not of a page or playlist that shows it."
        )
    if reply.header("Content-Encoding") not in {"", "identity"}:
        raise InputError(f"{reply.address.shown}: the server sends it compressed, which was not asked for.")


def _check_size(address: Address, total: int | None, have: int, transfer: _Transfer) -> None:
    if total is None:
        return
    if total > transfer.rules.most_bytes:
        raise InputError(f"{address.shown}: {too_large(total, transfer.rules)}")
    free = shutil.disk_usage(transfer.part.parent).free
    if total - have > free:
        raise InputError(
            f"{transfer.part.parent}: the file has {size_words(total)}, and {size_words(free)} are free on this disk; "
            "make room, or set TRACE_VES_CACHE_DIR to a folder on another disk."
        )


def too_large(size: int, rules: FetchRules) -> str:
    """What to say of a file that is larger than allowed."""
    return (
        f"the file has {size_words(size)} or more, and {size_words(rules.most_bytes)} are allowed; "
        "allow more with --max-download-gb."
    )


def _same(noted: Version, now: Version) -> bool:
    """Whether a range is of the version that was begun; what a server leaves out is not held against it."""
    pairs = ((noted.etag, now.etag), (noted.last_modified, now.last_modified), (noted.bytes, now.bytes))
    return all(one is None or other is None or one == other for one, other in pairs)


def _check_head(address: Address, first: bytes) -> None:
    """Refuse what cannot be a video whatever its type says, before gigabytes of it arrive."""
    if first[:64].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_NOT_VIDEO_HEAD):
        raise InputError(f"{address.shown}: this is a page, a playlist or text, not a video file.")


class _Pace:
    """Notices a server that keeps a connection open and brings next to nothing."""

    def __init__(self, rules: FetchRules, have: int) -> None:
        self._rules = rules
        self._since, self._had = time.monotonic(), have

    def check(self, address: Address, have: int) -> None:
        now = time.monotonic()
        if now - self._since < self._rules.slow_seconds:
            return
        if have - self._had < self._rules.least_bytes:
            raise InputError(
                f"{address.shown}: the server sent only {have - self._had} bytes in {now - self._since:.0f} s; "
                "try again later, and the same command goes on from there."
            )
        self._since, self._had = now, have


def size_words(size: int) -> str:
    """A number of bytes for people."""
    return f"{size / GIGABYTE:.1f} GB" if size >= GIGABYTE else f"{size / 10**6:.1f} MB"
