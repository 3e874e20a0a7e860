"""A file on a real server on loopback, fetched whole or not at all, whatever the server does."""

import hashlib
import os
import resource
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.video.fetching.servers import FilmServer

from trace_ves.core import InputError
from trace_ves.video import download
from trace_ves.video.download import Version
from trace_ves.video.fetching import PART, FetchRules, _file_name, cache_folder, fetch_video, lock_folder

RULES = FetchRules(allow_private=True, wait_seconds=0.0, timeout_seconds=5.0)


def test_what_nobody_has_chosen() -> None:
    assert FetchRules() == FetchRules(False, 8 * 10**9, 32 * 10**9, 30.0, 60.0, 65_536, 4, 0.5)
    sizes = {0: "0.0 MB", 10**6: "1.0 MB", 10**9 - 1: "1000.0 MB", 10**9: "1.0 GB", 25 * 10**8: "2.5 GB"}
    assert {size: download.size_words(size) for size in sizes} == sizes
    names = {"/films/A film (1).mp4": "A_film_1_.mp4", f"/{'x' * 100}.mp4": f"{'x' * 76}.mp4", "/.a.mp4": "a.mp4"}
    names |= dict.fromkeys(("", "/", "/..", "/-_.", "/ä"), "video")
    assert {path: _file_name(path) for path in names} == names


def part_of(server: FilmServer) -> Path:
    return cache_folder(server.url) / PART


def test_a_file_arrives_whole_under_its_name(server: FilmServer) -> None:
    heard: list[tuple[int, int | None]] = []
    fetched = fetch_video(f"{server.url}?key=x", rules=RULES, on_progress=lambda *progress: heard.append(progress))
    assert (fetched.path.name, fetched.path.read_bytes()) == ("film.mp4", server.body)
    assert (fetched.bytes, fetched.sha256) == (len(server.body), hashlib.sha256(server.body).hexdigest())
    assert heard[-1] == (len(server.body), len(server.body))
    assert heard == sorted(heard)
    assert server.requests[0][1]["Accept-Encoding"] == "identity"
    timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    own = [timer for timer in timers if timer.function.__name__ == "break_off"]
    assert all(timer.finished.is_set() for timer in own)  # else one would break a later transfer off
    assert fetched.path.parent.stat().st_mode & 0o077 == 0  # the cache is for its owner alone
    assert (fetched.path.parent / "lock").stat().st_mode & 0o777 == 0o600
    assert sorted(file.name for file in fetched.path.parent.iterdir()) == ["film.mp4", "lock", "video.json"]
    assert fetch_video(f"{server.url}?key=x", rules=RULES) == fetched  # which is asked about, and not sent again
    assert [headers.get("If-None-Match") for _, headers in server.requests] == [None, '"one"']


@pytest.mark.parametrize("headers", [{"ETag": '"one"'}, {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, {}])
def test_another_version_and_a_damaged_copy_are_fetched(server: FilmServer, headers: dict[str, str]) -> None:
    server.headers = headers
    first = fetch_video(server.url, rules=RULES)
    assert fetch_video(server.url, rules=RULES) == first
    server.headers = {name: value.replace("one", "two").replace("2024", "2025") for name, value in headers.items()}
    server.body = b"\0" + server.body
    path = fetch_video(server.url, rules=RULES).path
    assert path.read_bytes() == server.body
    path.write_bytes(server.body[:-1] + b"!")
    assert fetch_video(server.url, rules=RULES).path.read_bytes() == server.body


@pytest.mark.parametrize("status", [404, 410, 500])
def test_a_server_that_no_longer_has_it_is_told_of(server: FilmServer, status: int) -> None:
    first = fetch_video(server.url, rules=RULES)
    server.manners = lambda handler: bool(handler.send_error(status) or True)
    again = fetch_video(server.url, rules=RULES)
    kept = f"{server.url}: using the stored copy, because"
    assert again == replace(first, warning=f"{kept} the server responded with status {status}")
    server.close()
    assert fetch_video(server.url, rules=RULES) == replace(first, warning=f"{kept} Connection refused")


# --- breaking off -----------------------------------------------------------------------------------


def cut_after(server: FilmServer, size: int, times: int = 1) -> None:
    """Let the next transfers end after so many bytes, with the length of the whole announced."""

    def manners(handler: BaseHTTPRequestHandler) -> bool:
        if len(server.requests) > times:
            return False
        begin = int((handler.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        span = {"Content-Range": f"bytes {begin}-{len(server.body) - 1}/{len(server.body)}"} if begin else {}
        body = server.body[begin : begin + size]
        server.send(handler, 206 if begin else 200, body, span, length=len(server.body) - begin)
        return True

    server.manners = manners


def test_a_transfer_that_breaks_off_is_continued_and_progress_gives_new_attempts(server: FilmServer) -> None:
    cut_after(server, 300_000, times=9)
    assert fetch_video(server.url, rules=RULES).path.read_bytes() == server.body
    assert server.ranges == [None, *(f"bytes={times * 300_000}-" for times in range(1, 10))]
    assert server.requests[1][1]["If-Range"] == '"one"'


def test_of_a_server_that_always_breaks_off_a_part_is_kept(server: FilmServer, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(download, "time", SimpleNamespace(monotonic=time.monotonic, sleep=waits.append))
    cut_after(server, 100, times=99)
    with pytest.raises(InputError, match=r"the connection ended after 0\.0 MB of 3\.0 MB; .* continues from there"):
        fetch_video(server.url, rules=replace(RULES, wait_seconds=0.5))
    assert waits == [0.5, 1, 2]
    assert len(server.requests) == RULES.attempts
    assert part_of(server).read_bytes() == server.body[:400]


def test_an_interrupted_fetch_is_continued(server: FilmServer) -> None:
    def interrupt(done: int, _total: int | None) -> None:
        if done > 2_000_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_video(server.url, rules=RULES, on_progress=interrupt)
    have = part_of(server).stat().st_size
    assert have > 2_000_000
    assert fetch_video(server.url, rules=RULES).path.read_bytes() == server.body
    assert server.ranges == [None, f"bytes={have}-"]


def interrupted(server: FilmServer, size: int = 1_000_000) -> None:
    """Leave a part of the server's present version in the cache."""
    cut_after(server, size, times=99)
    with pytest.raises(InputError):
        fetch_video(server.url, rules=replace(RULES, attempts=1))
    server.manners = lambda _: False
    server.requests.clear()


@pytest.mark.parametrize(
    "answer",
    [
        (206, {"ETag": '"two"', "Content-Range": "bytes 1000000-{last}/{total}"}),
        (206, {"Content-Range": "bytes 5-{last}/{total}"}),
        (206, {"Content-Range": "bytes 1000000-{last}/17"}),
        (206, {}),
        (416, {}),
    ],
    ids=["another-version", "another-place", "another-length", "no-place", "not-satisfiable"],
)
def test_a_range_that_does_not_fit_is_not_glued_on(server: FilmServer, answer: tuple[int, dict[str, str]]) -> None:
    interrupted(server)
    status, headers = answer
    facts = {"last": len(server.body) - 1, "total": len(server.body)}
    told = {name: value.format(**facts) for name, value in headers.items()}

    def manners(handler: BaseHTTPRequestHandler) -> bool:
        if handler.headers.get("Range") is None:
            return False
        server.send(handler, status, b"x" * 2_000_012, told)
        return True

    server.manners = manners
    assert fetch_video(server.url, rules=RULES).path.read_bytes() == server.body
    assert server.ranges == ["bytes=1000000-", None]


@pytest.mark.parametrize(("tag", "asked"), [('"one"', "bytes=1000000-"), ('W/"one"', None), ("", None)])
def test_a_part_of_another_or_a_weak_version_is_thrown_away(server: FilmServer, tag: str, asked: str | None) -> None:
    server.headers = {"ETag": tag} if tag else {}
    interrupted(server)
    server.body, server.headers = server.body[::-1], {"ETag": '"two"'} if asked else server.headers
    assert fetch_video(server.url, rules=RULES).path.read_bytes() == server.body
    assert server.ranges == [asked]


def test_a_part_that_is_whole_is_not_asked_for_again(server: FilmServer) -> None:
    interrupted(server)
    part_of(server).write_bytes(server.body)
    assert fetch_video(server.url, rules=RULES).path.read_bytes() == server.body
    assert server.requests == []


# --- limits -----------------------------------------------------------------------------------------


def test_versions_are_the_same_where_nothing_speaks_against_it() -> None:
    full = Version('"one"', "Monday", 7)
    same = [Version(), full, Version('"one"'), Version(None, "Monday"), Version(None, None, 7)]
    other = [Version('"two"', "Monday", 7), Version('"one"', "Sunday", 7), Version('"one"', "Monday", 8)]
    for one, two in ((full, each) for each in (*same, *other)):
        assert download._is_same(one, two) is download._is_same(two, one) is (two in same)


def test_a_file_that_is_too_large_is_refused_and_a_body_without_end_stops_at_the_limit(server: FilmServer) -> None:
    heard: list[tuple[int, int | None]] = []
    rules = replace(RULES, most_bytes=1_000_000)
    with pytest.raises(InputError, match=r"3\.0 MB or more, and 1\.0 MB are allowed; .*--max-download-gb"):
        fetch_video(server.url, rules=rules, on_progress=lambda *state: heard.append(state))
    assert heard == []
    assert fetch_video(f"{server.url}?just", rules=replace(RULES, most_bytes=len(server.body))).bytes == 3_000_012
    server.manners = server.send_without_end
    with pytest.raises(InputError, match=r"1\.\d MB or more, and 1\.0 MB are allowed; .*--max-download-gb"):
        fetch_video(server.url, rules=rules, on_progress=lambda *state: heard.append(state))
    assert 900_000 < max(done for done, _ in heard) <= 1_000_000
    assert {total for _, total in heard} == {None}
    assert not part_of(server).exists()


@pytest.mark.parametrize(
    ("length", "words"),
    [
        *((text, "the server broke HTTP") for text in ("-5", "1e9", "many")),
        ("9" * 18, "--max-"),
        (10**7, r"the connection ended after 3\.0 MB of 10\.0 MB"),
    ],
)
def test_a_small_length_cuts_the_file_and_a_wrong_one_is_refused(server: FilmServer, length: Any, words: str) -> None:
    server.manners = lambda handler: bool(server.send(handler, 200, server.body, {}, length=length) or True)
    with pytest.raises(InputError, match=words):
        fetch_video(server.url, rules=RULES)
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(server.body), server.body)
    server.manners = lambda handler: bool(
        server.send(handler, 200, chunk, {"Transfer-Encoding": "chunked"}, length=1000) or True
    )
    assert fetch_video(f"{server.url}?chunks", rules=RULES).bytes == len(server.body)
    server.manners = lambda handler: bool(server.send(handler, 200, server.body, {}, length=1000) or True)
    assert fetch_video(f"{server.url}?cut", rules=RULES).path.read_bytes() == server.body[:1000]


def test_a_server_that_dribbles_is_given_up(server: FilmServer) -> None:
    interrupted(server)
    span = {"Content-Range": f"bytes 1000000-{len(server.body) - 1}/{len(server.body)}"}

    def dribble(handler: BaseHTTPRequestHandler) -> bool:
        server.send(handler, 206, b"", span, length=len(server.body) - 1_000_000)
        for _ in range(200):
            handler.wfile.write(b"\0")
            time.sleep(0.01)
        return True

    server.manners = dribble
    with pytest.raises(InputError, match=r"the server sent only \d+ bytes in \d s; .* continues from there"):
        fetch_video(server.url, rules=replace(RULES, slow_seconds=0.1))


def dribble_headers(handler: Any) -> bool:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    with suppress(OSError):
        while True:  # until the client hangs up
            handler.wfile.write(b"x")
            time.sleep(0.05)
    return True


@pytest.mark.parametrize("manners", [lambda _: bool(time.sleep(2) or True), dribble_headers])
def test_a_server_that_never_begins_is_given_up(server: FilmServer, manners: Callable[[Any], bool]) -> None:
    server.manners = manners
    with pytest.raises(InputError, match="the server did not answer in time"):
        fetch_video(server.url, rules=replace(RULES, timeout_seconds=0.1, attempts=1))


def test_a_disk_without_room_is_told_of_before(server: FilmServer, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(server)
    for free in (1_000_000, len(server.body) - 1_000_001):
        monkeypatch.setattr(download.shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        with pytest.raises(InputError, match=rf"has 3\.0 MB, and {free / 1e6:.1f} MB are free .* TRACE_VES_CACHE_DIR"):
            fetch_video(server.url, rules=RULES)
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: SimpleNamespace(free=len(server.body) - 1_000_000))
    assert fetch_video(server.url, rules=RULES).path.read_bytes() == server.body


def test_a_disk_that_fills_up_ends_with_a_sentence_and_keeps_the_part(server: FilmServer) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(InputError, match=r"cannot be written: File too large; what was fetched is kept\.$"):
            fetch_video(server.url, rules=RULES)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert part_of(server).read_bytes() == server.body[: 1 << 20]
    assert fetch_video(server.url, rules=RULES).path.read_bytes() == server.body
    assert server.ranges == [None, f"bytes={1 << 20}-"]


def test_the_least_recently_used_make_room(server: FilmServer) -> None:
    rules = replace(RULES, cache_bytes=2 * len(server.body) + 10_000)
    first, second = (fetch_video(f"{server.url}?{name}", rules=rules).path for name in "ab")
    for folder, seconds_ago in ((first.parent, 90), (second.parent, 50)):
        for file in folder.iterdir():
            os.utime(file, (time.time() - seconds_ago,) * 2)
    fetch_video(f"{server.url}?a", rules=rules)
    third = fetch_video(f"{server.url}?c", rules=rules).path
    assert (first.exists(), second.exists(), third.exists()) == (True, False, True)


def test_two_at_once_do_not_mix(server: FilmServer) -> None:
    with lock_folder(cache_folder(server.url)), pytest.raises(InputError, match="another process is writing there"):
        fetch_video(server.url, rules=RULES)


# --- what is no video -------------------------------------------------------------------------------


TYPES = ["text/html; charset=utf-8", "application/vnd.apple.mpegurl", "application/json", "image/png", "audio/mpeg"]
PAGES = [b"\xef\xbb\xbf <!DOCTYPE html>", b"#EXTM3U\nfile:///etc/passwd", b'{"error": 1}', b"<?xml version"]


@pytest.mark.parametrize(
    ("headers", "body", "words"),
    [
        *(({"Content-Type": kind}, None, f"this is '{kind.partition(';')[0]}', not a video file") for kind in TYPES),
        *(({}, page, "this is a page, a playlist or text, not a video file") for page in PAGES),
        ({"Content-Encoding": "gzip"}, None, "the server sends it compressed"),
    ],
)
def test_no_video_is_refused(server: FilmServer, headers: dict[str, str], body: bytes | None, words: str) -> None:
    server.headers |= headers
    server.body = body or server.body
    with pytest.raises(InputError, match=words):
        fetch_video(server.url, rules=RULES)
    assert not part_of(server).exists() or part_of(server).read_bytes() == b""


def test_a_missing_file_is_told_of_at_once_and_a_busy_server_is_asked_again(server: FilmServer) -> None:
    server.manners = lambda handler: bool(handler.send_error(404) or True)
    with pytest.raises(InputError, match=r"/films/film\.mp4: the server answered 404 Not Found\.$"):
        fetch_video(server.url + "?key=secret", rules=RULES)
    assert len(server.requests) == 1
    for status in (408, 425, 429, 500, 502, 503, 504):
        busy = [status] * 2
        server.manners = lambda handler, busy=busy: bool(busy) and not handler.send_error(busy.pop())
        assert fetch_video(f"{server.url}?{status}", rules=RULES).path.read_bytes() == server.body


# --- checksums --------------------------------------------------------------------------------------


def test_a_checksum_in_the_address_is_held_to_and_a_wrong_one_keeps_nothing(server: FilmServer) -> None:
    digest = hashlib.sha256(server.body).hexdigest()
    assert fetch_video(f"{server.url}#sha256={digest.upper()}", rules=RULES).sha256 == digest
    fetch_video(f"{server.url}#sha256={digest}", rules=RULES)
    assert len(server.requests) == 1  # the checksum says that it is the right file
    shutil.rmtree(part_of(server).parent)
    server.requests.clear()
    with pytest.raises(InputError, match="#sha256=abc is not a SHA-256, which has 64 hexadecimal digits"):
        fetch_video(f"{server.url}#sha256=abc", rules=RULES)
    assert server.requests == []
    with pytest.raises(InputError, match="not the one in the address; it was deleted"):
        fetch_video(f"{server.url}#sha256={'0' * 64}", rules=RULES)
    assert not part_of(server).exists()
    fetch_video(server.url, rules=RULES)
    with pytest.raises(InputError, match="not the one in the address"):
        fetch_video(f"{server.url}#sha256={'0' * 64}", rules=RULES)
