"""Where a fetch may go: public addresses alone, checked at each hop, and the checked one is the one connected to."""

import datetime as dt
import ipaddress
import re
import socket
import ssl
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.video.fetching.servers import FilmServer

import trace_ves
from trace_ves.core import InputError, MissingExtraError
from trace_ves.video import youtube
from trace_ves.video.download import FetchRules, is_address, is_public, parse_address, resolve_redirect, without_query
from trace_ves.video.fetching import cache_folder, fetch_video

RULES = FetchRules(wait_seconds=0.0, timeout_seconds=5.0, attempts=1)
PUBLIC, OTHER = "93.184.216.34", "93.184.216.35"


@pytest.fixture(autouse=True)
def shorten(server: FilmServer) -> None:
    server.body = server.body[:1000]  # where it comes from is what matters here


@pytest.fixture
def internet(server: FilmServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """A net in which names resolve as the test says, and the public address leads to the server on loopback.

    A name with several addresses resolves to each in turn, once.
    """
    names = {"films.example": [PUBLIC] * 99}
    true_lookup, true_connect = socket.getaddrinfo, socket.create_connection

    def lookup(host: str, port: int | None, *rest: int, **options: int) -> list[object]:
        assert host not in names or options == {"type": socket.SOCK_STREAM}  # else each address comes several times
        return [*true_lookup(names[host].pop(0) if host in names else host, port, *rest, **options)]

    def connect(address: tuple[str, int], *rest: object, **options: object) -> socket.socket:
        assert address[0] == PUBLIC, f"connected to {address}"
        return true_connect(("127.0.0.1", server.port), *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    monkeypatch.setattr(socket, "create_connection", connect)
    return names


PRIVATE = "127.0.0.1 localhost [::1] 10.1.2.3 192.168.0.1 172.16.9.9 169.254.169.254 [fe80::1] 2130706433 0x7f.1"
PRIVATE += " 0.0.0.0 [::ffff:127.0.0.1] 100.64.0.1 [fd00::1] 224.0.0.1"


@pytest.mark.parametrize("host", PRIVATE.split())
def test_a_private_address_is_refused_whatever_its_spelling(server: FilmServer, host: str) -> None:
    with pytest.raises(InputError, match="is this machine or in a private network; give --allow-private"):
        fetch_video(f"http://{host}:{server.port}/film.mp4", rules=RULES)
    assert server.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(internet: dict[str, list[str]], server: FilmServer, status: int) -> None:
    server.manners = lambda handler: handler.path == "/a" and server.redirect(handler, "../films/b.mp4?x=1", status)
    assert fetch_video("http://films.example/a", rules=RULES).path.read_bytes() == server.body
    asked = [(path, headers["Host"]) for path, headers in server.requests]
    assert asked == [("/a", "films.example"), ("/films/b.mp4?x=1", "films.example")]


PLACES = "http://127.0.0.1:{port} //localhost:{port} http://169.254.169.254 http://inner.example https://[::1]"


@pytest.mark.parametrize(
    ("location", "words", "requests"),
    [
        *((f"{place}/", "private network", 1) for place in PLACES.split()),
        *((f"{scheme}x", "only http and https addresses", 1) for scheme in ("file:///", "ftp://", "data:")),
        ("", "redirects without an address", 1),
        ("/a", "more than 10 redirects", 11),
    ],
)
def test_a_redirect_to_where_no_video_may_be_is_refused(
    internet: dict[str, list[str]], server: FilmServer, location: str, words: str, requests: int
) -> None:
    internet["inner.example"] = ["10.0.0.5"]
    server.manners = lambda handler: server.redirect(handler, location.format(port=server.port))
    with pytest.raises(InputError, match=words):
        fetch_video("http://films.example/a", rules=RULES)
    assert [path for path, _ in server.requests] == ["/a"] * requests


def test_a_name_that_changes_its_mind_gains_nothing(internet: dict[str, list[str]], server: FilmServer) -> None:
    """DNS rebinding: public when checked, private at once after. The fixture refuses all other connections."""
    internet["rebinding.example"] = [PUBLIC, "127.0.0.1"]
    assert fetch_video("http://rebinding.example/film.mp4", rules=RULES).path.read_bytes() == server.body
    with pytest.raises(InputError, match=r"rebinding\.example \(127\.0\.0\.1\) is this machine or in a private"):
        fetch_video("http://rebinding.example/film.mp4", rules=RULES)


@pytest.mark.parametrize(
    ("second", "failure", "tried", "words"),
    [
        ("10.0.0.1", None, 0, r"^films\.example \(10\.0\.0\.1\) is this machine or in a private network"),
        (OTHER, ConnectionRefusedError(111, "refused"), 2, "refused"),
        (OTHER, TimeoutError(), 2, "the server did not answer in time"),
        (OTHER, None, 1, "the server broke HTTP"),  # which it does after a connection was made
    ],
)
def test_all_addresses_of_a_host_are_public_and_the_next_is_tried_where_one_cannot_be_reached(
    server: FilmServer, monkeypatch: pytest.MonkeyPatch, second: str, failure: Any, tried: int, words: str
) -> None:
    reached = []

    def connect(address: tuple[str, int], *_: object, **__: object) -> socket.socket:
        reached.append(address[0])
        if failure:
            raise failure
        joined = socket.socket()
        joined.connect(("127.0.0.1", server.port))
        return joined

    server.manners = lambda handler: bool(handler.wfile.write(b"SSH-2.0-OpenSSH\r\n"))
    found = {"films.example": [(2, 1, 6, "", (address, 80)) for address in (PUBLIC, second)]}
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: found[host])
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(InputError, match=words):
        fetch_video("http://films.example/film.mp4", rules=RULES)
    assert reached == [PUBLIC, OTHER][:tried]


def test_a_host_that_nobody_knows_is_told_of_once_unless_a_film_of_it_is_kept(
    internet: dict[str, list[str]], server: FilmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_video("http://films.example/film.mp4", rules=RULES)
    asked: list[object] = []

    def unknown(host: str, *_: object, **__: object) -> None:
        asked.append(host)
        raise socket.gaierror("unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(InputError, match=r"nowhere\.example: no such host is known; check the address"):
        fetch_video("http://nowhere.example/film.mp4", rules=replace(RULES, attempts=4))
    assert "its host name does not resolve" in str(fetch_video("http://films.example/film.mp4", rules=RULES).warning)
    assert asked == ["nowhere.example", "films.example"]


@pytest.mark.parametrize(
    "text", ["64:ff9b:1::7f00:1", "fec0::1", "::127.0.0.1", "::ffff:0:127.0.0.1", "3fff::1", "5f00::1", "::1", "::"]
)
def test_addresses_beside_the_public_internet(text: str) -> None:
    assert not is_public(text)
    assert is_public("2606:4700::1111")


@given(st.ip_addresses(v=4))
def test_an_address_of_ipv4_is_judged_alike_in_every_wrapping(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    wrapped = [(0xFFFF << 32) | number, (0x0064FF9B << 96) | number, (0x2002 << 112) | (number << 80)]
    assert {is_public(str(ipaddress.IPv6Address(each))) for each in wrapped} == {
        address.is_global and not address.is_multicast
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ftp://host/film.mp4", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("http:///film.mp4", "names no host"),
        ("http://user:password@host/film.mp4", "user name or password"),
        ("http://host:99999/film.mp4", "is not an address that can be fetched"),
        ("http://[::1/film.mp4", "is not an address that can be fetched"),
        (f"http://{'a' * 70}.example/", "no such host is known"),
        (f"http://{'ü' * 70}.example/", "is not an address that can be fetched"),
    ],
)
def test_what_is_no_address_is_told_of(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as refusal:
        fetch_video(text)
    assert "password@" not in str(refusal.value)


def test_an_address_is_written_as_a_request_needs_it() -> None:
    address = parse_address("HTTPS://Bücher.example:8443/Filme/Straße 1.mp4?a=b c&d=%20#part")
    assert str(address) == "https://xn--bcher-kva.example:8443/Filme/Stra%C3%9Fe%201.mp4?a=b%20c&d=%20"
    assert without_query(address) == "https://xn--bcher-kva.example:8443/Filme/Stra%C3%9Fe%201.mp4"
    for same in ("http://[2606:2800::1]/", "http://host:65535/"):
        assert str(parse_address(same)) == same
    with pytest.raises(InputError, match="redirects from https to http"):
        resolve_redirect(parse_address("https://films.example/a"), "http://films.example/a")


def test_a_path_is_no_address() -> None:
    texts = ["film.mp4", "/films/film.mp4", "C:\\films\\film.mp4", "http:/film.mp4", "./a://b", "S3+x.y-2://b"]
    assert [text for text in texts if is_address(text)] == ["S3+x.y-2://b"]


def test_only_the_command_line_and_the_studio_fetch() -> None:
    """A bench, a run file or a saved answer is data: no code that reads one can fetch."""
    root = Path(trace_ves.__path__[0])
    importing = re.compile(r"^\s*(from|import) trace_ves\.video(\.| import.*\b)(fetching|download)\b", re.MULTILINE)
    importers = [path for path in root.rglob("*.py") if importing.search(path.read_text(encoding="utf-8"))]
    outside = {path.relative_to(root).as_posix() for path in importers if root / "video" not in path.parents}
    for_the_type_alone = {"cli/ask.py", "cli/benches.py"}
    assert outside == {"cli/options.py", "web/studio_app.py"} | for_the_type_alone


# --- TLS --------------------------------------------------------------------------------------------


@pytest.fixture
def secure(server: FilmServer, tmp_path: Path) -> Path:
    """The server speaks TLS under a certificate for `localhost`; the file of it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(private + certificate.public_bytes(encoding))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server.wrap(context)
    return file


def test_a_certificate_is_trusted_and_of_its_host(
    server: FilmServer, secure: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = replace(RULES, allow_private=True)
    with pytest.raises(InputError, match="its certificate is not trusted"):
        fetch_video(f"https://localhost:{server.port}/film.mp4", rules=rules)
    assert server.requests == []
    monkeypatch.setenv("SSL_CERT_FILE", str(secure))
    assert fetch_video(f"https://localhost:{server.port}/film.mp4", rules=rules).path.read_bytes() == server.body
    with pytest.raises(InputError, match="its certificate is not trusted"):
        fetch_video(f"https://127.0.0.1:{server.port}/film.mp4", rules=rules)


# --- YouTube: what it answers is replaced by what yt-dlp would make of it; no test reaches YouTube -------------------

FILM = "https://www.youtube.com/watch?v=aqz-KE-bpKQ"
WAYS = "www.youtube.com/watch?v={} youtube.com/watch?list=PL1&v={}&t=30s youtu.be/{}?si=x m.youtube.com/shorts/{}"
WAYS += " music.youtube.com/v/{} www.youtube.com/embed/{} www.youtube.com/live/{}?feature=share"


@pytest.mark.parametrize("way", WAYS.split())
def test_every_way_to_name_a_film(way: str) -> None:
    assert youtube.find_film(f"http://{way.format('aqz-KE-bpKQ')}") == FILM


def test_other_hosts_are_not_youtube_and_an_address_without_a_film_is_told_of() -> None:
    for url in ("https://films.example/watch?v=aqz-KE-bpKQ", "https://youtube.com.evil.example/x"):
        assert youtube.find_film(url) is None
    for place in ("www.youtube.com/", "youtu.be/", "www.youtube.com/playlist?list=PL1", "youtu.be/a"):
        with pytest.raises(InputError, match=r"not the address of a YouTube video; give one with watch\?v="):
            fetch_video(f"https://{place}")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yt_dlp", None)
    with pytest.raises(MissingExtraError, match=r"\.\[youtube\]"):
        fetch_video(FILM)


def test_yt_dlp_gets_no_more_than_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def __init__(self, options: dict[str, Any]) -> None:
            found.append(options)
            raise KeyboardInterrupt

    found: list[dict[str, Any]] = []
    heard: list[tuple[int, int | None]] = []
    monkeypatch.setattr("yt_dlp.YoutubeDL", Client)
    rules = FetchRules(most_bytes=1000, timeout_seconds=7.0, attempts=3)
    with pytest.raises(KeyboardInterrupt):
        youtube.download_film(FILM, tmp_path / "100%.part", rules, lambda *state: heard.append(state))
    [listen], logger = (found[0].pop(name) for name in ("progress_hooks", "logger"))
    quiet = {"noplaylist": True, "quiet": True, "no_warnings": True, "noprogress": True, "cachedir": False}
    careful = {"overwrites": False, "updatetime": False, "fixup": "never", "allowed_extractors": ["youtube"]}
    limits = {"format": youtube.FORMATS, "socket_timeout": 7.0, "retries": 3, "fragment_retries": 3}
    assert found == [quiet | careful | limits | {"outtmpl": {"default": f"{tmp_path}/100%%.part"}}]
    assert (logger.handlers != [], logger.parent) == (True, None)
    for done, total in ((None, None), (1000.0, 2000.0)):
        listen({"downloaded_bytes": done, "total_bytes": total})
    assert heard == [(0, None), (1000, 2000)]
    with pytest.raises(youtube._TooLargeError):
        listen({"downloaded_bytes": 1001})


@pytest.fixture
def known(server: FilmServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What yt-dlp found out about the film: streams of several heights, all of them on loopback."""

    def stream(name: str, height: int | None, **more: Any) -> dict[str, Any]:
        place = f"http://127.0.0.1:{server.port}/{name}"
        video = {"vcodec": "avc1.64001f", "height": height} if height else {"vcodec": "none"}
        return {"format_id": name, "url": place, "ext": "mp4", "acodec": "none", "protocol": "http", **video, **more}

    streams = [stream("sound", None, ext="m4a", acodec="mp4a"), stream("v360", 360), stream("v720", 720)]
    streams += [stream("v720webm", 720, ext="webm", vcodec="vp9"), stream("v2160", 2160)]
    info = {"id": "aqz-KE-bpKQ", "title": "A film", "extractor": "youtube", "extractor_key": "Youtube"}
    info |= {"webpage_url": FILM, "formats": streams}

    def extract(client: Any, _film: str, *, download: bool) -> dict[str, Any]:
        assert client.params["allowed_extractors"] == ["youtube"]
        assert not download
        found: dict[str, Any] = client.process_ie_result(info, download=False)
        return found

    monkeypatch.setattr("yt_dlp.YoutubeDL.extract_info", extract)
    return info


def test_the_best_stream_up_to_720_rows_is_fetched_and_kept(known: dict[str, Any], server: FilmServer) -> None:
    heard: list[tuple[int, int | None]] = []
    fetched = fetch_video(FILM, rules=RULES, on_progress=lambda done, total: heard.append((done, total)))
    assert (fetched.path.name, fetched.path.read_bytes()) == ("aqz-KE-bpKQ.mp4", server.body)
    assert {path for path, _ in server.requests} == {"/v720"}
    assert youtube.FORMATS == "bv[height<=720][ext=mp4]/bv[height<=720]/b[height<=720]/bv/b"
    assert heard[-1] == (len(server.body), len(server.body))
    asked = len(server.requests)
    assert fetch_video("https://youtu.be/aqz-KE-bpKQ", rules=RULES) == fetched
    assert len(server.requests) == asked


def test_a_film_that_is_too_large_or_has_no_end_is_refused(known: dict[str, Any], server: FilmServer) -> None:
    known["formats"][2]["filesize"] = 10**12
    with pytest.raises(InputError, match=r"1000\.0 GB or more, and 8\.0 GB are allowed; .*--max-download-gb"):
        fetch_video(FILM, rules=RULES)
    known["is_live"] = True
    with pytest.raises(InputError, match="this video is still live"):
        fetch_video(FILM, rules=RULES)
    assert server.requests == []


def test_a_film_that_grows_too_large_is_stopped(known: dict[str, Any], server: FilmServer) -> None:
    server.manners = server.send_without_end
    with pytest.raises(InputError, match="--max-download-gb"):
        fetch_video(FILM, rules=replace(RULES, most_bytes=1_000_000))
    assert [path.name for path in cache_folder(FILM).iterdir()] == ["lock"]


def test_what_yt_dlp_says_is_one_sentence(
    known: dict[str, Any], server: FilmServer, capfd: pytest.CaptureFixture[str]
) -> None:
    server.manners = lambda handler: bool(handler.send_error(403) or True)
    with pytest.raises(InputError, match=r"yt-dlp could not fetch it: .*403.*[^.]\.$") as refusal:
        fetch_video(FILM, rules=RULES)
    assert youtube._words(Exception("ERROR: \x1b[0;31mno\n\x1b[0m way. (caused by x)")) == "no way"
    assert [len(youtube._words(Exception("x" * length))) for length in (300, 301)] == [300, 301]
    assert ("\n" in str(refusal.value), *capfd.readouterr()) == (False, "", "")
