"""What was played, at the limits of the rules and one step beyond; and the sessions and the log of the desk."""

import io
import json
import logging
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY, MagicMock, Mock, call

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.web.web_bench import number_in, write_video
from trace_ves.construction import looking
from trace_ves.construction.desk import media
from trace_ves.construction.desk.audit_log import AuditLog, AuditMiddleware
from trace_ves.construction.desk.context import ServedFootage
from trace_ves.construction.desk.pages import Day, today, verdict_text
from trace_ves.construction.desk.sessions import Sessions, SignInAttempts
from trace_ves.construction.people import Person, Role
from trace_ves.core import Interval
from trace_ves.video import open as open_video

from .histories import SPANS, Pen


def test_spans_that_nearly_touch_are_one() -> None:
    assert looking.join_spans([[3, 4], [0, 1], [1.12, 2], [2.13, 2.5]]) == [[0, 2], [2.13, 2.5], [3, 4]]
    assert looking.join_spans([[0, 5], [1, 2], [4, 6]]) == [[0, 6]]
    assert looking.length([[0, 2], [3, 4.5]]) == 3.5


@pytest.mark.parametrize(
    ("spans", "share"),
    [([], 0), ([[0, 30]], 1), ([[10, 12.5]], 0.25), ([[0, 12], [19, 40]], 0.3), ([[0, 10], [20, 30]], 0)],
)
def test_the_share_of_an_interval(spans: list[list[float]], share: float) -> None:
    assert looking.watched_share(Interval(10, 20), spans) == pytest.approx(share)
    assert looking.watched_share(Interval(10, 10), spans) == 1


def test_a_player_is_four_times_as_fast_and_reports_every_twenty_seconds() -> None:
    assert [looking.playable_seconds(1.5, seconds) for seconds in (0, 1, 20, 100)] == [1.5, 5.5, 81.5, 82]
    first = looking.add_played({}, [[0, 5]], 1.0)
    assert first == {"spans": [[0, 5]], "credit": 1.0, "active": 1.0}  # 2 s of slack and 4 s of video
    again = looking.add_played(first, [[5, 8]], 500.0)
    assert again == {"spans": [[0, 8]], "credit": 79.0, "active": 121.0}
    assert looking.add_played({}, [[0, 2]], 0.0)["credit"] == 0
    assert [looking.Looking(1, took, clips).pace for took, clips in ((30, 15), (15, 15), (7, 0))] == [2, 1, 1]
    kept = looking.Looking(0.12345, 1.00049, 2.0006).to_json()
    assert [kept[key] for key in ("watched_share", "took_seconds", "clip_seconds")] == [0.123, 1.0, 2.001]


def test_frames_count_that_were_sent_completely(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    moments = write_video(path, seconds=3)
    with open_video(path) as video:
        places, duration = video.byte_ranges, video.duration
    size = path.stat().st_size
    assert looking.spans_of_bytes(path, [[0, size]]) == ([[0.0, duration]], duration)
    assert looking.spans_of_bytes(path, []) == ([], duration)
    first, last = (int(edge) for edge in places[4])
    assert looking.spans_of_bytes(path, [[first, last]])[0] == [[moments[4], moments[5]]]
    for less in ([first + 1, last], [first, last - 1]):
        assert looking.spans_of_bytes(path, [less])[0] == []
    assert looking.spans_of_bytes(path, [[int(a), int(b)] for a, b in places[:2]])[0] == [[moments[0], moments[2]]]


def test_a_container_that_does_not_say_where_frames_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    unknown = SimpleNamespace(byte_ranges=np.array([[-1, -1]] * 4), timestamps=np.arange(4.0), duration=4.0)
    monkeypatch.setattr(looking, "open_video", lambda _: nullcontext(unknown))
    path = tmp_path / "odd.avi"
    path.write_bytes(b"x" * 100)
    assert looking.spans_of_bytes(path, [[25, 75]]) == ([[1.0, 3.0]], 4.0)
    assert looking.spans_of_bytes(path, [[1, 25], [75, 99]]) == ([], 4.0)


@pytest.mark.parametrize(("start", "end", "numbers"), [(3.05, 6, range(31, 60)), (3.01, 3.02, [30])])
def test_a_clip_holds_the_frames_of_its_interval_alone(
    footage: Path, tmp_path: Path, start: float, end: float, numbers: Sequence[int]
) -> None:
    """Of 10 frames a second; between two of them, the one that is on screen."""
    (tmp_path / "clip.mp4").write_bytes(looking.cut_clip(footage, Interval(start, end)))
    with open_video(tmp_path / "clip.mp4") as clip:
        assert [number_in(frame.rgb()) for frame in clip.frames_at(list(clip.timestamps))] == list(numbers)
        assert (clip.timestamps[0], clip.height) == (0, 180)
        assert clip.duration == pytest.approx(len(numbers) / 10, abs=0.11)


def test_a_clip_has_twelve_frames_a_second_and_480_rows_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    film = MagicMock()
    monkeypatch.setattr(looking, "open_video", film)
    monkeypatch.setattr("trace_ves.video.clip_file.encode_frames", encode := Mock())
    looking.cut_clip(Path("a.mp4"), Interval(3, 5))
    video = film.return_value.__enter__.return_value
    assert video.frames_between.call_args_list == [call(Interval(3, 5), fps=12.0, height=480, limit=1200)]
    assert video.frames_at.call_args_list == [call([4.0], height=480)]
    assert encode.call_args_list == [call([], ANY, preset="ultrafast", crf=23)]


def test_what_was_sent_is_known_of_fifty_thousand_items() -> None:
    served = ServedFootage()
    for number in range(50_001):
        served.add("ann", f"c{number}", None, 0, 1)
    assert [served.sent("ann", f"c{number}", None) for number in (0, 1)] == [[], [[0, 1]]]


def test_pictures_of_the_desk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single frame shows 0.3 s on either side of it; the pictures of a timeline lie at even distances."""
    monkeypatch.setattr(media, "_whole", lambda _caller, item: Path(f"{item}.mp4"))
    footage, served = Mock(), Mock()
    footage.video.return_value.timestamps = np.array([0.0, 1.5, 9.0])
    context = SimpleNamespace(footage=footage, served=served)
    caller: Any = SimpleNamespace(context=context, person=Person("ann", Role.ANNOTATOR, ""))
    for seconds, span in ((1.5, (1.2, 1.8)), (0.1, (0.0, 0.4))):
        footage.frames_at.return_value = [Mock(seconds=seconds, pts=7, **{"jpeg.return_value": b"jpeg"})]
        shown = media.frame(caller, "c1", 2.0)
        footage.frames_at.assert_called_with(Path("c1.mp4"), [2.0], None)
        served.add.assert_called_with("ann", "c1", "stills", *map(pytest.approx, span))
        assert (shown.body, shown.media_type) == (b"jpeg", "image/jpeg")
        assert (shown.headers["x-frame-seconds"], shown.headers["x-frame-pts"]) == (str(seconds), "7")
    media.frame(caller, "c1", 2.0, 48)
    assert served.add.call_count == 2  # a small picture is not enough to judge by
    times = media.times(caller, "c1")
    assert (np.frombuffer(times.body).tolist(), times.media_type) == ([0.0, 1.5, 9.0], "application/octet-stream")
    footage.frames_at.return_value = [Mock(**{"rgb.return_value": np.zeros((54, 96, 3), np.uint8)})] * 4
    strip = media.strip(caller, "c1", start=2.0, end=12.0, count=4)
    footage.frames_at.assert_called_with(Path("c1.mp4"), [3.25, 5.75, 8.25, 9.0], 54)
    assert (Image.open(io.BytesIO(strip.body)).size, strip.media_type) == ((384, 54), "image/jpeg")


# --- sessions, sign-ins, audit log, own judgements ----------------------------------------------


def test_a_session_ends_after_two_idle_hours_or_twelve_in_all() -> None:
    now = 0.0
    sessions = Sessions(clock=lambda: now)
    idle, busy, ended = (sessions.start(Person("ann", Role.ANNOTATOR, "digest")) for _ in range(3))
    sessions.end(ended)
    sessions.end("never started")
    for now in (7199.0, 14398.0, 21597.0, 28796.0, 35995.0, 43194.0):  # noqa: B007
        assert sessions.find(busy) is not None
    now = 43200.0
    assert [sessions.find(cookie) for cookie in (busy, idle, ended)] == [None] * 3
    late = sessions.start(Person("ann", Role.ANNOTATOR, "digest"))
    for later, is_found in ((7199, True), (7200, False)):
        now += later
        assert (sessions.find(late) is not None) is is_found


def test_guesses_wait_for_the_window() -> None:
    now = 0.0
    attempts = SignInAttempts(clock=lambda: now)
    for now, wait in zip(range(0, 70, 10), [0, 0, 0, 0, 0, 250, 250], strict=True):  # noqa: B007
        assert attempts.note_failure("a", "same-token") == wait
    now = 1000.0
    assert [attempts.note_failure("b", f"{number:04}") for number in range(31)] == [0] * 30 + [300]
    assert attempts.note_failure("c", "same-other") == 0


def request(log: AuditLog, status: int, **scope: Any) -> None:
    """One request through the audit log, with this answer."""

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})

    async def nothing(*_: object) -> None:
        pass

    given = {"type": "http", "path": "/video", "query_string": b"", "method": "GET", "headers": []}
    with pytest.raises(StopIteration):  # without an event loop: nothing here waits
        AuditMiddleware(app, log)(given | scope, nothing, nothing).send(None)


def test_refusals_and_footage_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "log.jsonl"
    log = AuditLog(path)

    def logged(*calls: tuple[int, dict[str, Any]]) -> list[dict[str, Any]]:
        path.write_text("")
        for status, scope in calls:
            request(log, status, **scope)
        return [json.loads(line) for line in path.read_text().splitlines()]

    request(log, 500)
    assert path.stat().st_mode & 0o777 == 0o600
    lines = logged(*((status, {"path": "/"}) for status in range(200, 600)))
    assert [line["status"] for line in lines] == [401, 403, 409, 411, 413, 421, 422, 429, 500, 503]
    media = ("/video", "/clip", "/frame", "/times", "/strip")
    lines = logged(*((status, {"path": name}) for name in (*media, "/task") for status in (206, 299, 300)))
    assert [(line["event"], line["path"]) for line in lines] == [("served", name) for name in media for _ in range(2)]
    hostile = {
        "path": "/" + "p" * 300,
        "query_string": b"token=secret&id=c1&" + b"x" * 500,
        "headers": [(b"range", b"bytes=" + b"1" * 100)],
        "client": ("10.0.0.1", 9),
        "state": {"who": "ann"},
    }
    line, plain = logged((403, hostile), (403, {}), (403, {"type": "lifespan"}))
    assert (plain["who"], plain["address"], plain["at"]) == ("", "", round(plain["at"], 3))
    assert line == {
        "at": line["at"],
        "event": "refused",
        "who": "ann",
        "address": "10.0.0.1",
        "method": "GET",
        "path": "/" + "p" * 199,
        "query": ("id=c1&" + "x" * 500)[:400],
        "range": ("bytes=" + "1" * 100)[:60],
        "status": 403,
    }
    with caplog.at_level(logging.WARNING, "trace_ves.desk"):
        AuditLog(tmp_path / "no" / "log").write("refused")
    assert caplog.messages == ["the audit log could not be written: No such file or directory"]


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("skip", {"reason": "dark"}, "dark"),
        ("without", {"answer": None}, "do not decide"),
        ("without", {"answer": "B"}, "decide B"),
        ("settlement", {"keep": True, "evidence": []}, "kept"),
        ("settlement", {"keep": True, "evidence": [[0, 1]] * 2}, "kept with 2 intervals"),
        ("settlement", {"keep": False, "reason": "no"}, "rejected: no"),
        ("verification", {"accepted": True, "evidence": SPANS, "answer": "C"}, "accepted with 3 intervals, answer C"),
        ("verification", {"accepted": False, "reason": "no"}, "rejected: no"),
        ("verification", {"accepted": False, "reason": "hm", "unsure": True}, "unsure: hm"),
    ],
)
def test_a_judgement_in_words(kind: str, value: dict[str, Any], words: str) -> None:
    assert verdict_text(kind, value) == words


def test_a_day_begins_at_midnight_and_has_a_pace_after_a_minute() -> None:
    assert [Day(3, hours).pace for hours in (0.0, 1 / 61, 1 / 60, 0.5)] == [None, None, 180, 6]
    pen = Pen(at=86400.0 * 20_000 - 2).propose("c1").verify("c1", "ann", seconds=1800).verify("c1", "bob", seconds=900)
    [at] = [entry.at for entry in pen.ledger.entries if entry.who == "ann"]
    start = at - at % 86400
    assert today(pen.ledger, "ann", start + 86399) == Day(1, 0.5)
    assert today(pen.ledger, "ann", start + 86400) == Day(0, 0)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 20)), max_size=12), st.floats(0, 80), st.floats(1, 20))
def test_a_share_is_a_share(pairs: list[tuple[float, float]], start: float, length: float) -> None:
    spans = [[begin, begin + more] for begin, more in pairs]
    interval = Interval(start, start + length)
    share = looking.watched_share(interval, spans)
    assert 0 <= share <= 1
    assert share <= looking.watched_share(interval, [*spans, [start, start + length / 2]]) + 1e-9
    assert looking.watched_share(interval, [[0, 200]]) == pytest.approx(1)
    found = looking.join_spans(spans)
    assert all(one[1] < two[0] for one, two in pairwise(found))
    assert 0 <= looking.playable_seconds(0.0, length) <= looking.playable_seconds(1.0, length) <= 82
