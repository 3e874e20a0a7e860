"""One file, byte by byte: continued where it broke off, never larger than allowed, never half."""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import InputError
from trace_ves.fetching.connection import InterruptedTransferError, get, read
from trace_ves.fetching.notes import Version
from trace_ves.fetching.rules import GIGABYTE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trace_ves.fetching.addresses import Address
    from trace_ves.fetching.connection import Reply
    from trace_ves.fetching.rules import FetchRules

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
