"""Download one file over HTTP: resume a broken transfer, respect limits, and connect to public addresses only."""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from trace_ves._version import __version__
from trace_ves.core.display import size_words
from trace_ves.core.errors import InputError, MissingExtraError
from trace_ves.core.files import write_atomic
from trace_ves.core.jsonl import parse_object
from trace_ves.records.base import Count, SparseRecord

if TYPE_CHECKING:
    import httpx

_NAT64: Final = ip_network("64:ff9b::/96")
# Networks that Python 3.11 calls global although they are not: local NAT64, old ways to wrap IPv4, site-local,
# documentation and segment routing.
_NOT_PUBLIC: Final = tuple(
    map(ip_network, ("64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96", "fec0::/10", "3fff::/20", "5f00::/16"))
)
MOST_REDIRECTS: Final = 10
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = {"User-Agent": f"trace-ves/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}


class UnknownHostError(InputError):
    """The host name does not resolve: it is wrong, or there is no connection."""


class InterruptedTransferError(Exception):
    """The connection failed; trying again may help. The message is a clause."""


def is_address(text: str) -> bool:
    """Whether a text is an address and not a path."""
    return re.match(r"[a-z][a-z0-9+.-]*://", text, re.IGNORECASE | re.ASCII) is not None


def without_query(address: object) -> str:
    """An address for messages, without its query, which may contain a key."""
    return re.split(r"[?#]", str(address), maxsplit=1)[0][:200]


def parse_address(text: str) -> httpx.URL:
    """Parse an http or https address without its fragment; an `InputError` if it is invalid."""
    try:
        import httpx
    except ModuleNotFoundError:
        raise MissingExtraError("Fetching a video", "video") from None
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        raise InputError(f"{text[:200]!r} is not an address that can be fetched.") from None
    if url.scheme not in {"http", "https"}:
        raise InputError(f"{without_query(text)}: only http and https addresses can be fetched.")
    if not url.host:
        raise InputError(f"{text[:200]!r} names no host.")
    if url.userinfo:
        raise InputError(f"{url.host}: an address with a user name or password is not fetched; download it yourself.")
    if (url.port or 0) > 65535:
        raise InputError(f"{text[:200]!r} is not an address that can be fetched.")
    return url.copy_with(fragment=None)


def resolve_redirect(url: httpx.URL, location: str) -> httpx.URL:
    """The target of a redirect; a redirect from https to http is refused."""
    import httpx

    try:
        target = parse_address(str(url.join(location)))
    except httpx.InvalidURL:
        raise InputError(f"{without_query(url)}: redirects to {location[:200]!r}, which is not an address.") from None
    if url.scheme == "https" and target.scheme == "http":
        raise InputError(
            f"{without_query(url)}: redirects from https to http ({without_query(target)}), which is not followed."
        )
    return target


def resolve_host(url: httpx.URL, *, allow_private: bool) -> list[str]:
    """Resolve a host name; an `InputError` if an address is private, unless that is allowed."""
    host = url.raw_host.decode("ascii")
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UnknownHostError(f"{host}: no such host is known; check the address and the connection.") from None
    addresses = [str(sockaddr[0]) for *_, sockaddr in infos]
    for address in addresses:
        if not allow_private and not is_public(address):
            place = host if host == address else f"{host} ({address})"
            raise InputError(
                f"{place} is this machine or in a private network; give --allow-private to fetch from there."
            )
    return addresses


def is_public(text: str) -> bool:
    """Whether an IP address, or the IPv4 address in it, belongs to the public Internet."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        nat64 = IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None
        teredo = address.teredo[1] if address.teredo else None
        if embedded := teredo or nat64 or address.ipv4_mapped or address.sixtofour:
            return is_public(str(embedded))
        if any(address in network for network in _NOT_PUBLIC):
            return False
    return address.is_global and not address.is_multicast


@contextmanager
def get(url: httpx.URL, headers: Mapping[str, str], rules: FetchRules) -> Iterator[httpx.Response]:
    """Request an address and follow its redirects; connection failures become an `InterruptedTransferError`."""
    import httpx

    deadline = time.monotonic() + rules.timeout_seconds
    for _ in range(MOST_REDIRECTS + 1):
        context = ssl.create_default_context() if url.scheme == "https" else False
        # a transport instead of a client, which would handle redirects itself
        transport = httpx.HTTPTransport(verify=context, trust_env=False)
        sent = (transport, url, headers, rules, deadline)
        with transport, _translate_errors(url), closing(_send(*sent)) as response:
            if response.status_code not in _REDIRECTS:
                yield response
                return
            location = response.headers.get("Location")
        if not location:
            raise InputError(f"{without_query(url)}: the server redirects without an address.")
        url = resolve_redirect(url, location)
    raise InputError(f"{without_query(url)}: more than {MOST_REDIRECTS} redirects.")


def _send(
    transport: httpx.HTTPTransport, url: httpx.URL, headers: Mapping[str, str], rules: FetchRules, deadline: float
) -> httpx.Response:
    """Send a request to the first IP address of the host that accepts a connection.

    The connection goes to the address that was checked, which makes DNS rebinding useless. It is broken at the
    deadline: with only a timeout a server could send its headers byte by byte.
    """
    import httpx

    sockets: list[socket.socket] = []

    def note(event: str, facts: Mapping[str, Any]) -> None:
        if event in {"connection.connect_tcp.complete", "connection.start_tls.complete"}:
            sockets.append(facts["return_value"].get_extra_info("socket"))

    def break_off() -> None:
        with suppress(OSError, IndexError):
            socket.socket.shutdown(sockets[-1], socket.SHUT_RDWR)

    timeout = httpx.Timeout(rules.timeout_seconds).as_dict()
    failure: httpx.TransportError = httpx.ConnectError("no address")
    for address in resolve_host(url, allow_private=rules.allow_private):
        request = httpx.Request("GET", url, headers={**_HEADERS, **headers})
        request.url = url.copy_with(host=address)
        request.extensions = {"timeout": timeout, "sni_hostname": url.raw_host.decode("ascii"), "trace": note}
        timer = threading.Timer(max(0.0, deadline - time.monotonic()), break_off)
        timer.start()
        try:
            return transport.handle_request(request)
        except httpx.TransportError as error:
            if time.monotonic() >= deadline:
                raise httpx.ReadTimeout("deadline") from None
            if not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                raise
            failure = error
        finally:
            timer.cancel()
    raise failure


@contextmanager
def _translate_errors(url: httpx.URL) -> Iterator[None]:
    import httpx

    try:
        yield
    except httpx.TimeoutException:
        raise InterruptedTransferError("the server did not answer in time") from None
    except httpx.ProtocolError as error:
        raise InterruptedTransferError(f"the server broke HTTP: {type(error).__name__}") from None
    except httpx.TransportError as error:
        cause: BaseException = error
        while (deeper := cause.__cause__ or cause.__context__) is not None:  # httpcore raises some "from None"
            cause = deeper
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise InputError(
                f"{without_query(url)}: its certificate is not trusted ({cause.verify_message})."
            ) from None
        raise InterruptedTransferError(getattr(cause, "strerror", None) or type(cause).__name__) from None


def content_length(response: httpx.Response) -> int | None:
    """The size of the body according to the server, in bytes."""
    text = response.headers.get("Content-Length")
    return None if text is None or "Transfer-Encoding" in response.headers else int(text)


@dataclass(frozen=True, slots=True)
class Version(SparseRecord):
    """The version of a file on a server: equal versions have equal bytes."""

    etag: str | None = None
    last_modified: str | None = None
    bytes: Count | None = None

    @classmethod
    def of(cls, response: httpx.Response, size: int | None) -> Self:
        """The version in the headers of a response."""
        return cls(response.headers.get("ETag") or None, response.headers.get("Last-Modified") or None, size)

    @property
    def validator(self) -> str | None:
        """The validator of a range request: a strong ETag or a date; without one, a transfer starts again."""
        if self.etag is not None:
            return None if self.etag.startswith("W/") else self.etag
        return self.last_modified

    @property
    def conditions(self) -> dict[str, str]:
        """The headers that request the file only if it has changed."""
        headers = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in headers.items() if value is not None}

    def write(self, path: Path) -> None:
        """Write it to a file."""
        write_atomic(path, json.dumps(self.to_json()), private=True)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read it from a file; None if it is missing or damaged."""
        try:
            return cls.from_json(parse_object(path.read_bytes()))
        except (OSError, ValueError):
            return None


GIGABYTE: Final = 10**9


@dataclass(frozen=True, slots=True)
class FetchRules:
    """The limits of a fetch."""

    allow_private: bool = False  # whether to connect to addresses of this machine and of private networks
    most_bytes: int = 8 * GIGABYTE  # a larger file is refused
    cache_bytes: int = 32 * GIGABYTE  # the least recently used files are deleted if the cache is larger
    timeout_seconds: float = 30.0  # until the response begins, including redirects, and between two reads
    slow_seconds: float = 60.0  # the transfer stops if the server sends less than `least_bytes` in this time
    least_bytes: int = 1 << 16
    attempts: int = 4  # the transfer stops after this many consecutive attempts with less than `least_bytes`
    wait_seconds: float = 0.5  # before the second attempt; doubles with each attempt


_NOT_VIDEO: Final = re.compile(
    r"text/|image/(?!gif|apng)|audio/|font/|multipart/"
    r"|application/(json|xml|xhtml\+xml|pdf|zip|gzip|javascript|dash\+xml|vnd\.apple\.mpegurl|x-mpegurl)",
    re.IGNORECASE,
)
_NOT_VIDEO_HEAD: Final = (b"<!doctype", b"<html", b"<?xml", b"<mpd", b"#extm3u", b"{", b"%pdf")
_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses worth a retry


class _ChangedError(Exception):
    """The version on the server differs from the part on disk."""


def download(url: httpx.URL, part: Path, rules: FetchRules, on_progress: Callable[[int, int | None], None]) -> Version:
    """Download a file to `part`, continuing an earlier attempt; its version is written next to it."""
    transfer = _Transfer(url, part, rules, on_progress)
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
            rest = f"; {size_words(have)} are kept, and the same command continues from there" if have else ""
            raise InputError(f"{transfer.shown}: could not be fetched: {reason}{rest}.")
        time.sleep(rules.wait_seconds * 2 ** (failures - 1))


@dataclass(frozen=True, slots=True)
class _Transfer:
    url: httpx.URL
    part: Path
    rules: FetchRules
    on_progress: Callable[[int, int | None], None]

    @property
    def shown(self) -> str:
        return without_query(self.url)

    def have(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def attempt(self) -> Version:
        """Download the missing bytes; returns the version of the whole file."""
        note = self.part.with_suffix(".json")
        noted, have = Version.read(note), self.have()
        validator = noted.validator if noted is not None else None
        if noted is None or validator is None:
            have = 0
        elif have and have == noted.bytes:
            return noted
        headers = {"Range": f"bytes={have}-", "If-Range": validator} if have and validator else {}
        with get(self.url, headers, self.rules) as response:
            self.check_status(response, ranged=bool(have))
            total = _total_bytes(response, have)
            self.check_type(response)
            self.check_size(total, have)
            version = Version.of(response, total)
            if response.status_code == 200:
                have = 0
                self.part.unlink(missing_ok=True)
                version.write(note)
            elif noted is None or not _is_same(noted, version):
                raise _ChangedError
            return replace(version, bytes=self.copy(response, have, total))

    def check_status(self, response: httpx.Response, *, ranged: bool) -> None:
        status = response.status_code
        if status == 200 or (status == 206 and ranged):
            return
        if status == 416 and ranged:
            raise _ChangedError
        words = f"the server answered {status} {response.reason_phrase}".rstrip()
        if status in _TRANSIENT:
            raise InterruptedTransferError(words)
        raise InputError(f"{self.shown}: {words}.")

    def check_type(self, response: httpx.Response) -> None:
        kind = response.headers.get("Content-Type", "")
        if _NOT_VIDEO.match(kind):
            raise InputError(
                f"{self.shown}: this is {kind.partition(';')[0]!r}, not a video file; "
                "give the address of the file itself, not of a page or playlist that shows it."
            )
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise InputError(f"{self.shown}: the server sends it compressed, which was not asked for.")

    def check_size(self, total: int | None, have: int) -> None:
        if total is None:
            return
        if total > self.rules.most_bytes:
            raise InputError(f"{self.shown}: {too_large(total, self.rules)}")
        free = shutil.disk_usage(self.part.parent).free
        if total - have > free:
            raise InputError(
                f"{self.part.parent}: the file has {size_words(total)}, and {size_words(free)} are free on this disk; "
                "make room, or set TRACE_VES_CACHE_DIR to a folder on another disk."
            )

    def copy(self, response: httpx.Response, have: int, total: int | None) -> int:
        """Append the body to the part; returns its new size."""
        import httpx

        since, had = time.monotonic(), have
        ended_early = False
        try:
            with self.part.open("ab") as file:
                for chunk in response.iter_raw():
                    # refuse what is clearly not a video before gigabytes of it arrive, whatever its content type
                    if not have and chunk[:64].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_NOT_VIDEO_HEAD):
                        raise InputError(f"{self.shown}: this is a page, a playlist or text, not a video file.")
                    have += len(chunk)
                    if have > self.rules.most_bytes:
                        break
                    file.write(chunk)
                    self.on_progress(have, total)
                    if (seconds := time.monotonic() - since) >= self.rules.slow_seconds:
                        self.check_pace(have - had, seconds)
                        since, had = time.monotonic(), have
        except httpx.RemoteProtocolError:
            ended_early = True
        except OSError as error:
            raise InputError(f"{self.part}: cannot be written: {error.strerror}; what was fetched is kept.") from None
        if have > self.rules.most_bytes:
            self.part.unlink()
            raise InputError(f"{self.shown}: {too_large(have, self.rules)}")
        if ended_early or (total is not None and have != total):
            of_all = "" if total is None else f" of {size_words(total)}"
            raise InterruptedTransferError(f"the connection ended after {size_words(have)}{of_all}")
        return have

    def check_pace(self, received: int, seconds: float) -> None:
        """Raise if the server keeps the connection open but sends almost nothing."""
        if received < self.rules.least_bytes:
            raise InputError(
                f"{self.shown}: the server sent only {received} bytes in {seconds:.0f} s; "
                "try again later, and the same command continues from there."
            )


def _total_bytes(response: httpx.Response, have: int) -> int | None:
    """The size of the whole file according to the server."""
    if response.status_code == 200:
        return content_length(response)
    content_range = response.headers.get("Content-Range", "")
    match = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", content_range, re.ASCII)
    if match is None or int(match[1]) != have:
        raise _ChangedError
    return None if match[3] == "*" else int(match[3])


def _is_same(noted: Version, now: Version) -> bool:
    """Whether a range belongs to the version of the part; missing headers are ignored."""
    pairs = ((noted.etag, now.etag), (noted.last_modified, now.last_modified), (noted.bytes, now.bytes))
    return all(one is None or other is None or one == other for one, other in pairs)


def too_large(size: int, rules: FetchRules) -> str:
    """A clause about a file that is larger than allowed."""
    return (
        f"the file has {size_words(size)} or more, and {size_words(rules.most_bytes)} are allowed; "
        "allow more with --max-download-gb."
    )
