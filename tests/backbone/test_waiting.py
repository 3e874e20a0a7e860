"""Nobody waits in silence: rate limits, retries and slow responses are told, with the time until the next attempt."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from tests.fakes import Response, make_request, quick_backbone

from trace_ves.backbone import remote
from trace_ves.backbone.retry import NOTICES, Announcer, Notice, WaitingNotices

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes import Dialect, Server

GOOD = json.dumps({"colour": "red"})


@pytest.mark.parametrize(("status", "words"), [(429, "HTTP 429, rate limit"), (503, "HTTP 503")])
def test_a_wait_for_the_next_attempt_is_a_log_line_with_its_seconds(
    dialect: Dialect, server: Server, status: int, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    busy = Response(status=status, body=dialect.error("busy"), headers={"retry-after": "1.6"})
    server.respond(busy, Response(body=dialect.ok(GOOD)))
    quick_backbone(dialect.provider()).generate([make_request()])
    assert [record.getMessage() for record in caplog.records if record.name == NOTICES.name] == [
        f"{dialect.name}:m: {words}; trying again in 2 s."
    ]


def test_many_requests_that_meet_one_rate_limit_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    announcer = Announcer("openai:m")
    with ExitStack() as waits:
        for _ in range(8):
            waits.enter_context(announcer.waits("HTTP 429, rate limit", 30.0))
    assert len(caplog.records) == 1


def test_waits_that_nobody_notices_are_not_worth_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with Announcer("openai:m").waits("HTTP 500", 0.4):
        pass
    assert caplog.records == []


def test_a_slow_response_is_told_while_it_is_awaited(
    dialect: Dialect, server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remote, "SLOW_SECONDS", 0.2)
    told_before_the_response = []

    def respond(_: object) -> Response:
        for _ in range(100):
            if caplog.records:
                break
            time.sleep(0.05)
        told_before_the_response.append(bool(caplog.records))
        return Response(body=dialect.ok(GOOD))

    server.respond(respond)
    quick_backbone(dialect.provider()).generate([make_request()])
    (record,) = caplog.records
    assert record.getMessage() == f"{dialect.name}:m: no response for 0.2 s; giving this attempt up in 11 s."
    assert told_before_the_response == [True]


WAITS = """
import sys
from pydantic import BaseModel
from trace_ves.backbone import Prompt, Request, open_backbone

class Reply(BaseModel):
    colour: str

open_backbone("openai:m@" + sys.argv[1] + "/v1").generate([Request(Prompt("look", "?"), {}, Reply)])
"""


def test_without_a_terminal_it_is_a_line_on_standard_error(
    named_dialect: Callable[[str], Dialect], server: Server
) -> None:
    dialect = named_dialect("openai")
    busy = Response(status=429, body=dialect.error("slow down"), headers={"retry-after": "1.1"})
    server.respond(busy, Response(body=dialect.ok(GOOD)))
    done = subprocess.run(
        [sys.executable, "-c", WAITS, server.url], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.startswith(f"openai:m@{server.url}/v1: HTTP 429, rate limit; trying again in ")
    assert done.stderr.count("\n") == 1


def test_a_screen_takes_the_notices_over_and_counts_down(caplog: pytest.LogCaptureFixture) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with WaitingNotices() as notices:
        assert notices.lines() == []
        with Announcer("gemini:[m]").waits("HTTP 429, rate limit", 90.0):
            pass
        assert notices.lines() == ["gemini:[m]: HTTP 429, rate limit; trying again in 90 s"]
        console.print(notices)
        assert caplog.records == []  # nothing else printed it
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "gemini:[m]: HTTP 429, rate limit; trying again in" in shown
    NOTICES.warning("after the screen")
    assert caplog.records[-1].getMessage() == "after the screen"


def test_the_seconds_count_down_and_a_wait_that_is_over_is_no_longer_shown() -> None:
    notice = Notice("openai:m", "HTTP 429, rate limit", "trying again", until=100.0, waiting=3)
    assert notice.sentence(58.2) == "openai:m: HTTP 429, rate limit; trying again in 42 s, 3 requests waiting"
    handler = WaitingNotices()
    for until, expected in ((time.monotonic() + 60, 1), (time.monotonic() - 1, 0)):
        record = logging.makeLogRecord({"notice": Notice("openai:m", "HTTP 503", "trying again", until)})
        handler.emit(record)
        assert len(handler.lines()) == expected


def test_the_table_of_a_run_shows_what_is_waited_for() -> None:
    from trace_ves.runs.live_table import LiveTable
    from trace_ves.runs.prices import load_prices

    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with (
        LiveTable(console, load_prices()) as table,
        table._waiting,
        Announcer("openai:m").waits("HTTP 429, rate limit", 90.0),
    ):
        console.print(table._live.get_renderable())
    assert "openai:m: HTTP 429, rate limit; trying again in" in console.file.getvalue()  # type: ignore[attr-defined]
