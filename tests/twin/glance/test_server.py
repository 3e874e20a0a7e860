"""Glance behind HTTP: the same answers as in process, from text and JPEGs only, and nothing that breaks it."""

import base64
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import simplejpeg
from tests.program import run
from tests.twin.glance.conftest import read_code
from tests.twin.glance.test_methods import COUNT, ORDER, VIDEO
from tests.web.conftest import serving_app

from trace_ves.backbone.registry import open_backbone
from trace_ves.core import Question
from trace_ves.observer import Observer
from trace_ves.runs.methods import default_budget, open_method
from trace_ves.twin.glance.glance import Glance
from trace_ves.twin.glance.server import CHAT_PATH, MAX_BODY_BYTES, create_app
from trace_ves.web.guard import LOOPBACK_NAMES, Guard

QUESTIONS = (
    ORDER,
    COUNT,
    Question("choice", "v", "Which of these is seen?", ("a fox", "a cow", "a bee", "a whale")),
    Question("open", "v", "How many times does a taxi go by?"),
    Question("unknown", "v", "Why is the sky blue?", ("air", "water")),
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of the server, behind the guard of the command."""
    app = Guard(create_app(Glance(read_code)), hosts=LOOPBACK_NAMES, token=None, body_bytes={CHAT_PATH: MAX_BODY_BYTES})
    with serving_app(app) as address:
        yield address


@pytest.mark.parametrize(
    ("method", "question"),
    [("trace", each) for each in QUESTIONS] + [(each, COUNT) for each in ("uniform-32", "blind", "avp", "vca")],
)
def test_answers_are_those_of_glance_in_process(method: str, question: Question, server: str) -> None:
    near = Observer(VIDEO, Glance(read_code), budget=default_budget(method))
    far = Observer(VIDEO, open_backbone(f"openai:glance@{server}/v1", cache=False), budget=default_budget(method))
    ours, theirs = (open_method(method)(question, observer) for observer in (near, far))
    assert (theirs.option, theirs.termination) == (ours.option, ours.termination)
    assert [call.timestamps for call in far.log.calls] == [call.timestamps for call in near.log.calls]
    assert not [call.fault for call in far.log.calls if call.fault]


# --- hostile requests ------------------------------------------------------------------------------


def post(server: str, body: bytes, **headers: str) -> tuple[int, Any]:
    said = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx.post(f"{server}{CHAT_PATH}", content=body, headers=said, timeout=30)
    return response.status_code, response.json() if response.headers["Content-Type"] == "application/json" else None


def chat(*content: dict[str, Any], model: str = "glance", **more: Any) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": list(content)}], **more}).encode()


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def picture(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def jpeg_url(data: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"


HUGE = simplejpeg.encode_jpeg(np.zeros((4200, 4200, 3), np.uint8))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "body"),
        (b"nonsense", "Invalid JSON"),
        (b"[" * 100_000, "Invalid JSON"),
        (b'{"model": "glance", "messages": []}', "messages"),
        (chat(words("hello"), model="gpt-4o"), "unknown model 'gpt-4o'"),
        (chat(words("hello"), stream=True), "stream"),
        (chat({"type": "file", "file": "/etc/passwd"}), "messages.0.content"),
        (chat(picture("http://127.0.0.1:1/secret.jpg")), "part of the request"),
        (chat(picture("file:///etc/passwd")), "part of the request"),
        (chat({"type": "image_url"}), "part of the request"),
        (chat(picture("data:image/jpeg;base64,!!!!")), "not a JPEG"),
        (chat(picture(jpeg_url(b"GIF89a"))), "not a JPEG"),
        (chat(picture(jpeg_url(HUGE))), "too many"),
        (chat(words("Clip 1, 9.0-3.0 s")), "ends before it starts"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(server: str, body: bytes, said: str) -> None:
    status, reply = post(server, body)
    assert status == 400
    assert said in reply["error"]["message"]


@pytest.mark.parametrize("wanted", ["answer", "facts_supported", "candidates", "target_anchors", "scores", "segment"])
def test_no_prompt_breaks_the_server(server: str, wanted: str) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": {"properties": {wanted: {}}}}}
    for text in ("", "Question: ?\nOptions: 5", "Question: x\nOptions: [1]", "Claims: {}", 'Options: {"A": null}'):
        status, reply = post(server, chat(words(text), response_format=form))
        assert status == 200
        assert isinstance(reply["choices"][0]["message"]["content"], str)


def test_other_names_and_other_forms_are_refused(server: str) -> None:
    assert post(server, chat(words("hi")), Host="evil.example")[0] == 421
    assert post(server, chat(words("hi")), Content_Type="text/plain")[0] == 415
    assert post(server, b" " * 100_000)[0] == 400  # as long as frames may be


def test_the_models_are_listed_and_other_paths_are_not_found(server: str) -> None:
    for path, status in (("/v1/models", 200), ("/", 404), ("/v1/../etc/passwd", 404)):
        assert httpx.get(server + path).status_code == status


def test_the_command_serves_until_it_is_interrupted() -> None:
    command = [sys.executable, "-m", "trace_ves", "dev", "serve-glance", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/v1", process.stdout.readline())
        assert found
        assert httpx.get(f"{found[0]}/models", timeout=30).json()["data"][0]["id"] == "glance"
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=30)
    assert process.returncode == 0
    assert complaint == ""


def test_a_port_that_is_taken_is_said_so(server: str) -> None:
    refused = run("dev", "serve-glance", "--port", server.rpartition(":")[2])
    assert refused.returncode == 2
    assert "could not listen" in refused.stderr
