"""The MCP server, started as an assistant starts it and spoken to with the SDK's own client over stdio."""

import base64
import io
import re
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from PIL import Image

from trace_ves.observer import Listener

pytest.importorskip("mcp", reason="needs the environment of tools/test_integrations.sh")

from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from tests import program
from tests.integrations.conftest import make_video

from trace_ves import video
from trace_ves.core import TraceVesError
from trace_ves.integrations.mcp import run_reported
from trace_ves.observer import Progress, RoundStarted

pytestmark = pytest.mark.anyio
ASKED = {"video": "a.mp4", "question": "Which?", "options": ["one", "two"]}
OWN_MODEL = """
import time
from dataclasses import replace
from trace_ves.backbone.protocol import ScriptedBackbone
from trace_ves.records import Usage

def make():
    def answer(request):
        time.sleep(0.05)
        return {name: "B" for name in request.reply.model_fields}
    return ScriptedBackbone(answer, name="own:model")

def make_paid():
    model, usage = make(), Usage(300_000, 0)
    free = model.generate
    model.generate = lambda batch: [replace(each, usage=usage) for each in free(batch)]
    return model
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with videos, and what lies outside of it."""
    place = tmp_path_factory.mktemp("place")
    (place / "films" / "deep").mkdir(parents=True)
    make_video(place / "films" / "a.mp4")
    make_video(place / "films" / "deep" / "b.mp4", shade=50)
    make_video(place / "secret.mp4")
    (place / "films" / "link.mp4").symlink_to(place / "secret.mp4")
    (place / "films" / "inner.mp4").symlink_to(place / "films" / "deep" / "b.mp4")
    (place / "films" / "up").symlink_to(place)
    (place / "films" / "loop.mp4").symlink_to(place / "films" / "loop.mp4")
    (place / "films" / "notes.txt").write_text("no video")
    (place / "own_model.py").write_text(OWN_MODEL)
    return place


@asynccontextmanager
async def connected(place: Path, *options: str) -> AsyncIterator[Client]:
    arguments = ["-m", "trace_ves", "mcp", str(place / "films"), *options]
    server = StdioServerParameters(command=sys.executable, args=arguments, cwd=place)
    async with Client(stdio_client(server)) as client:
        yield client


def pictures(result: Any) -> list[Image.Image]:
    shown = [part for part in result.content if part.type == "image"]
    assert all(part.mime_type == "image/jpeg" for part in shown)
    return [Image.open(io.BytesIO(base64.b64decode(part.data))) for part in shown]


def words(result: Any) -> list[str]:
    return [part.text for part in result.content if part.type == "text"]


async def test_an_assistant_looks_at_videos(place: Path) -> None:
    async with connected(place) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"videos", "ask", "frames", "clip", "storyboard"}
        assert all(tool.description for tool in tools.values())
        assert "context" not in tools["ask"].input_schema["properties"]

        listed = await client.call_tool("videos", {})
        assert words(listed) == ["a.mp4\ninner.mp4\ndeep/b.mp4"]

        board = await client.call_tool("storyboard", {"video": "a.mp4", "count": 6})
        assert words(board) == ["a.mp4: 1:00.0 (60.0 s)"]
        assert pictures(board)[0].width == 8 + 4 * 248

        shown = await client.call_tool("frames", {"video": "deep/b.mp4", "seconds": [3.14, 59.99], "height": 48})
        assert [re.findall(r"\((.*) s\)", text) for text in words(shown)] == [["3.100"], ["59.900"]]
        with video.open(place / "films" / "deep" / "b.mp4") as source:
            exact = [frame.rgb().mean() for frame in source.frames_at([3.14, 59.99], height=48)]
        seen = [np.asarray(picture).mean() for picture in pictures(shown)]
        assert seen == pytest.approx(exact, abs=3)

        clip = await client.call_tool("clip", {"video": "a.mp4", "start": 10, "end": 20, "count": 5})
        assert [float(re.findall(r"\((.*) s\)", text)[0]) for text in words(clip)] == [11, 13, 15, 17, 19]
        assert len(pictures(clip)) == 5

        for arguments in ({"start": 20, "end": 10}, {"start": 70, "end": 80}):
            wrong = await client.call_tool("clip", {"video": "a.mp4", **arguments})
            assert wrong.is_error
            assert "a clip needs start < end within the video, which has 60.0 s" in words(wrong)[0]
        many = await client.call_tool("frames", {"video": "a.mp4", "seconds": [1.0] * 17})
        assert many.is_error
        assert words(many) == [
            "frames: wrong argument 'seconds': List should have at most 16 items after validation, not 17."
        ]
        lacking = await client.call_tool("storyboard", {"count": "six"})
        assert words(lacking) == ["storyboard: wrong argument 'video': Field required."]


async def test_a_question_is_answered_with_its_evidence_and_progress_meanwhile(place: Path) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with connected(place, "--backbone", "own_model:make", "--method", "uniform-8", "--budget", "20") as client:
        result = await client.call_tool("ask", ASKED, progress_callback=hear)
    assert not result.is_error, words(result)
    assert words(result)[0].splitlines()[0] == "B. two"
    assert "8 frames in 1 call to own" in words(result)[0]
    assert len(pictures(result)) == 1
    assert heard[0][2] == "opening the video"
    assert heard[-1][1] == 20
    numbers = [number for number, _, _ in heard]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] >= 8


async def test_without_a_model_a_question_says_what_to_set_and_the_server_lives_on(place: Path) -> None:
    async with connected(place) as client:
        told = await client.call_tool("ask", ASKED)
        assert told.is_error
        assert "no model is set up" in words(told)[0]
        assert not (await client.call_tool("videos", {})).is_error


async def test_a_session_spends_no_more_than_its_limit(place: Path) -> None:
    (place / "prices.toml").write_text('["own:model"]\ninput = 1\ncached = 1\noutput = 0\n')
    own = ["--backbone", "own_model:make_paid", "--method", "uniform-8", "--prices", "prices.toml"]

    async with connected(place, *own, "--max-cost", "0.5") as client:
        [tool] = [tool for tool in (await client.list_tools()).tools if tool.name == "ask"]
        results = [await client.call_tool("ask", ASKED) for _ in range(3)]
    assert "cost at most $0.5" in tool.description
    assert [result.is_error for result in results] == [False, False, True]
    assert "have cost $0.6000, and --max-cost is $0.5" in words(results[2])[0]
    done = program.run("mcp", place / "nothing")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no such file or folder" in done.stderr


HOSTILE = [
    "../secret.mp4",
    "deep/../../secret.mp4",
    "link.mp4",
    "up/secret.mp4",
    "loop.mp4",
    "/etc/passwd",
    "~/secret.mp4",
    "a.mp4\0.txt",
    "a" * 5000,
    "",
    ".",
    "deep",
    "missing.mp4",
    "file:///etc/passwd",
    "https://127.0.0.1/a.mp4",
    "concat:a.mp4|../secret.mp4",
]


async def test_no_path_leads_out_of_the_folders(place: Path) -> None:
    async with connected(place) as client:
        for name in (*HOSTILE, str(place / "secret.mp4")):
            for tool, arguments in (("frames", {"seconds": [1.0]}), ("ask", {"question": "Which?"})):
                told = await client.call_tool(tool, {"video": name, **arguments})
                assert told.is_error
                assert "in these folders" in words(told)[0]
        inside = await client.call_tool("storyboard", {"video": str(place / "films" / "a.mp4"), "count": 1})
        linked = await client.call_tool("storyboard", {"video": "inner.mp4", "count": 1})
        text = await client.call_tool("storyboard", {"video": "notes.txt", "count": 1})
        assert not inside.is_error
        assert not linked.is_error
        assert text.is_error
        assert "notes.txt" in words(text)[0]
        assert str(place) not in words(text)[0]


async def test_silence_is_filled_and_who_hangs_up_ends_the_search() -> None:
    heard: list[str] = []
    ended = threading.Event()
    asked = threading.Event()

    async def report(number: float, total: float | None, words: str) -> None:
        heard.append(words)
        if len(heard) == 3:
            asked.set()

    def silent(listener: Listener) -> str:
        assert asked.wait(30)
        return "done"

    def endless(listener: Listener) -> None:
        try:
            for number in range(1_000_000):
                listener(Progress(RoundStarted(number), 0, 10))
        finally:
            ended.set()

    def failing(listener: Listener) -> None:
        raise TraceVesError("nothing to see")

    assert await run_reported(silent, report, heartbeat_seconds=0.01) == "done"
    assert heard[:3] == ["opening the video"] * 3
    with anyio.move_on_after(0.2):
        await run_reported(endless, report)
    assert await anyio.to_thread.run_sync(ended.wait, 30)
    with pytest.raises(TraceVesError, match="nothing to see"):
        await run_reported(failing, report)
    assert "round 1" in heard
