"""Films of YouTube: which addresses are meant, and yt-dlp's own downloader on a server on loopback.

What YouTube itself answers is replaced by what yt-dlp would make of it; no test reaches YouTube.
"""

import sys
from dataclasses import replace
from typing import Any

import pytest
from tests.video.fetching.servers import FilmServer

from trace_ves.core import InputError, MissingExtraError
from trace_ves.video import youtube
from trace_ves.video.fetching import FetchRules, cache_folder, fetch_video

FILM = "https://www.youtube.com/watch?v=aqz-KE-bpKQ"
RULES = FetchRules(timeout_seconds=5.0, attempts=2)


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


def test_the_best_stream_of_pictures_up_to_720_rows_is_fetched_and_kept(
    known: dict[str, Any], server: FilmServer
) -> None:
    heard: list[tuple[int, int | None]] = []
    fetched = fetch_video(FILM, rules=RULES, on_progress=lambda done, total: heard.append((done, total)))
    assert fetched.path.read_bytes() == server.body
    assert fetched.path.name == "aqz-KE-bpKQ.mp4"
    assert {path for path, _ in server.requests} == {"/v720"}
    assert heard[-1] == (len(server.body), len(server.body))
    asked = len(server.requests)
    assert fetch_video("https://youtu.be/aqz-KE-bpKQ", rules=RULES) == fetched
    assert len(server.requests) == asked


def test_a_film_that_is_too_large_or_has_no_end_is_refused(known: dict[str, Any], server: FilmServer) -> None:
    known["formats"][2]["filesize"] = 10**12
    with pytest.raises(InputError, match=r"1000\.0 GB or more, and 8\.0 GB are allowed; .*--max-download-gb"):
        fetch_video(FILM, rules=RULES)
    known["is_live"] = True
    with pytest.raises(InputError, match="still being broadcast"):
        fetch_video(FILM, rules=RULES)
    assert server.requests == []


def test_a_film_that_grows_too_large_is_stopped(known: dict[str, Any], server: FilmServer) -> None:
    server.manners = server.send_without_end
    with pytest.raises(InputError, match="--max-download-gb"):
        fetch_video(FILM, rules=replace(RULES, most_bytes=1_000_000))
    assert [path.name for path in cache_folder(FILM).iterdir()] == ["lock"]


def test_what_yt_dlp_says_is_one_sentence(known: dict[str, Any], server: FilmServer) -> None:
    server.manners = lambda handler: bool(handler.send_error(403) or True)
    with pytest.raises(InputError, match=r"yt-dlp could not fetch it: .*403.*[^.]\.$") as refusal:
        fetch_video(FILM, rules=RULES)
    assert "\n" not in str(refusal.value)
