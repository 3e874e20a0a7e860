"""`trace-ves ask` as a person runs it, with a model behind a real HTTP server on loopback."""

from __future__ import annotations

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from tests.fake_models import default_value
from tests.fakes import openai_ok

from trace_ves.cli.answer_panel import LEAST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Call

OPTIONS = ("-o", "red", "-o", "blue")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes, red before and blue after the middle."""
    import av
    import numpy as np

    path = tmp_path_factory.mktemp("ask") / "colours.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=5, options={"preset": "ultrafast"})
        stream.width, stream.height = 96, 64
        for number in range(5 * 120):
            picture = np.zeros((64, 96, 3), dtype=np.uint8)
            picture[..., 0 if number < 300 else 2] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return path


def reply(text: str, images: int) -> dict[str, Any]:
    """What a model that sees red would say, told from the words of the prompt."""
    if "List what has to be seen" in text:
        return {"claims": [{"claim": "the colour", "kind": "fact", "values": []}]}
    if "candidates: up to" in text:
        candidate = {"start": 10, "end": 26, "moment": 18, "claims": ["c1"], "look_for": "general"}
        return {"notes": [], "candidates": [candidate] if images else []}
    if "a short stretch" in text:
        span = {"start": 12, "end": 20, "claims": ["c1"]}
        return {"seen": "red", "relevant": "yes", "spans": [span], "look_between": []}
    if "one square" in text:
        return {"colour": "red"}
    if "facts_supported" in text:
        fact = {"claim": "c1", "value": "red", "spans": []}
        return {
            "seen": "red",
            "facts_supported": [fact],
            "unmet_needs": [],
            "status": "answerable",
            "answer": "A",
        }
    return {"answer": "A" if "letter of an option" in text and '"A"' in text else "red"}


class Model(BaseHTTPRequestHandler):
    """The smallest OpenAI-compatible server."""

    said = ""

    @classmethod
    def answer(cls, text: str, images: int) -> dict[str, Any]:
        return reply(text, images)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = [part for message in body["messages"] for part in _parts(message["content"])]
        images = sum(part["type"] == "image_url" for part in parts)
        text = "\n".join(part.get("text", "") for part in parts)
        images = 0 if "Say nothing." in text else images  # it does not say what a frame takes
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        default = default_value(schema) if schema else {}  # for stages that `reply` does not know
        said = self.said or json.dumps(default | self.answer(text, images))
        data = json.dumps(openai_ok(said, read=100 * images, output=10)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def _parts(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@pytest.fixture
def backbone() -> Iterator[str]:
    yield from serving(Model)


def serving(model: type[Model]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"openai:red@http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_the_answer_its_stop_its_evidence_and_its_cost_are_shown(call: Call, clip: Path, backbone: str) -> None:
    done = call("ask", clip, "Which colour is seen?", *OPTIONS, "--backbone", backbone)
    assert done.returncode == 0, done.stderr
    assert "A. red" in done.stdout
    words = " ".join(done.stdout.replace("│", "").split())  # a long line is wrapped
    assert "One reading of the clip settled every claim" in words
    assert re.search(r"0:1\d\.\d-0:\d\d\.\d +\d frames of 64 px", done.stdout)
    assert "the colour: red" in done.stdout
    frames = int(re.search(r"(\d+) supplied", done.stdout)[1])  # type: ignore[index]
    assert 32 < frames <= 128
    assert f"{100 * frames:,} in" in done.stdout


class SlowModel(Model):
    @classmethod
    def answer(cls, text: str, images: int) -> dict[str, Any]:
        time.sleep(2 * LEAST_SECONDS)  # long enough to be listed on any machine
        return reply(text, images)


def test_the_seconds_of_each_stage_are_shown(call: Call, clip: Path) -> None:
    for backbone in serving(SlowModel):
        done = call("ask", clip, "Which colour is seen?", *OPTIONS, "--backbone", backbone)
    words = " ".join(done.stdout.replace("│", "").split())
    assert re.search(r"seconds .*claims \d+\.\d, .*temporal proposal \d", words), words


def test_json_is_one_object_that_a_run_file_could_hold(call: Call, clip: Path, backbone: str) -> None:
    done = call("ask", clip, "-", *OPTIONS, "--backbone", backbone, "--json", stdin="Which colour is seen?\n")
    record = json.loads(done.stdout)
    assert (record["answer"], record["text"], record["stable"]) == ("A", "red", True)
    assert record["question"] == "Which colour is seen?"
    assert record["video"] == str(clip)
    assert record["video_checksum"]["bytes"] == clip.stat().st_size
    assert record["frames_supplied"] == sum(len(call["timestamps"]) for call in record["observations"])
    assert record["cost"]["total"]["calls"] == len(record["observations"])
    assert record["cost"]["total"]["input_tokens"] == record["usage"]["input_tokens"]
    assert set(record["cost"]["by_stage"]) == {call["stage"] for call in record["observations"]}
    assert done.stderr == ""


def test_a_recorded_search_is_given_again_without_the_model(
    call: Call, clip: Path, backbone: str, tmp_path: Path
) -> None:
    asked = ("ask", clip, "Which colour is seen?", *OPTIONS, "--json")
    first = json.loads(call(*asked, "--backbone", backbone, "--record", tmp_path / "r.jsonl").stdout)
    [line] = (tmp_path / "r.jsonl").read_text().splitlines()
    assert json.loads(line)["backbone"] == "openai:red"  # without its address
    assert call(*asked, "--backbone", backbone, "--save", tmp_path / "saved").returncode == 0
    for recording in (tmp_path / "r.jsonl", tmp_path / "saved" / "transcript.json"):
        again = json.loads(call(*asked, "--backbone", f"replay:{recording}").stdout)
        same = ("answer", "stable", "timestamps", "bundle", "trajectory")
        assert [again[key] for key in same] == [first[key] for key in same]
    other = call("ask", clip, "?", *OPTIONS, "--method", "uniform-9", "--backbone", f"replay:{tmp_path / 'r.jsonl'}")
    assert other.returncode == 2
    assert "no recorded reply to the stage 'direct-answer' with these 9 frames" in other.stderr
    assert len(other.stderr.splitlines()) == 2  # the notice that replies are recorded, and this sentence


def test_the_sample_is_answered_offline_with_its_clips(call: Call, tmp_path: Path) -> None:
    done = call("ask", "--sample", "--save", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "C. a white car" in done.stdout
    assert "settled every claim, and a second look agreed" in " ".join(done.stdout.replace("│", "").split())
    assert "are recorded: no model is called." in done.stderr
    assert len(list((tmp_path / "out" / "clips").glob("*.mp4"))) == 4
    assert "In which order" in (tmp_path / "out" / "story.html").read_text()


def test_a_question_without_options_is_answered_in_words(call: Call, clip: Path, backbone: str) -> None:
    done = call("ask", clip, "Which colour is seen?", "--backbone", backbone, "--method", "uniform-8", "--json")
    record = json.loads(done.stdout)
    assert (record["answer"], record["text"], record["frames_supplied"]) == ("red", "red", 8)


def test_save_writes_what_can_be_taken_away(call: Call, clip: Path, backbone: str, tmp_path: Path) -> None:
    from PIL import Image

    from trace_ves import open_video

    folder = tmp_path / "out"
    ask = ("ask", clip, "Which *colour* is seen?", *OPTIONS, "--backbone", backbone, "--save", folder)
    done = call(*ask)
    assert done.returncode == 0, done.stderr
    [bundled] = json.loads((folder / "record.json").read_text())["bundle"]
    frames = sorted((folder / "frames").iterdir())
    assert len(frames) == len(bundled["timestamps"])
    with Image.open(frames[0]) as picture:
        assert picture.convert("RGB").getpixel((48, 32))[0] > 200  # type: ignore[index]  # red, as the source is there
    with Image.open(folder / "contact-sheet.jpg") as sheet:
        assert sheet.width > 240
    with Image.open(folder / "preview.gif") as animation:
        assert animation.n_frames == len(frames)  # type: ignore[attr-defined]
    span = bundled["span"]
    with open_video(folder / "clips" / "clip1.mp4") as cut:
        assert abs(cut.duration - (span[1] - span[0])) <= 0.41
    page = (folder / "answer.md").read_text()
    assert page.startswith("# Which \\*colour\\* is seen?\n")
    assert "**A. red**" in page
    assert "the colour: red" in page
    for name in re.findall(r"\]\(([^)]+)\)", page):
        assert (folder / name).is_file(), name
    assert (folder / "story.html").read_text().count("data:image/jpeg") >= 3
    assert "Which *colour* is seen?" in (folder / "story.html").read_text()
    # what is there is not overwritten silently, and nothing was asked in vain
    (folder / "mine.txt").write_text("keep me")
    again = call(*ask)
    assert again.returncode == 2
    assert "is not empty" in again.stderr
    assert again.stdout == ""
    replaced = call(*ask, "--overwrite")
    assert replaced.returncode == 0, replaced.stderr
    assert (folder / "mine.txt").read_text() == "keep me"


class Indiscreet(Model):
    """A server that puts the key it was sent, and one that looks like another's, into every other reply."""

    def do_POST(self) -> None:
        key = self.headers["Authorization"].removeprefix("Bearer ")
        type(self).said = "" if self.said else f"you sent {key}, and sk-proj-abcdefghijklm is another"
        super().do_POST()


def test_save_keeps_the_prompt_and_the_raw_replies_of_each_call_and_no_key(
    call: Call, clip: Path, tmp_path: Path
) -> None:
    secret = "my-own-secret-0123456789"
    for url in serving(Indiscreet):
        ask = ("ask", clip, "Which colour is seen?", *OPTIONS, "--backbone", url, "--save")
        key = {f"TRACE_VES_127_0_0_1_{re.findall(r'[0-9]+', url)[-2]}_API_KEY": secret}
        done = call(*ask, tmp_path / "out", **key)
        without = call(*ask, tmp_path / "without", "--no-transcripts", **key)
    assert (done.returncode, without.returncode) == (0, 0), done.stderr
    written = {
        file.name: file.read_text()
        for file in (tmp_path / "out").glob("*.*")
        if file.suffix in {".json", ".md", ".html"}
    }
    assert "0123456789" not in "".join(written.values())
    assert "abcdefgh" not in "".join(written.values())
    said, record = json.loads(written["transcript.json"]), json.loads(written["record.json"])
    assert [call["stage"] for call in said["calls"]] == [call["stage"] for call in record["observations"]]
    assert any("Question: Which colour is seen?" in prompt for prompt in said["prompts"])
    failed, used = said["calls"][0]["replies"]
    assert failed["text"] == "you sent [key], and [key] is another"
    assert "no JSON object" in failed["problem"]
    assert json.loads(used["text"]) == {"claims": [{"claim": "the colour", "kind": "fact", "values": []}]}
    assert not (tmp_path / "without" / "transcript.json").exists()
    assert "transcript" not in (tmp_path / "without" / "answer.md").read_text()


def test_one_question_stops_at_its_limit(call: Call, clip: Path, backbone: str) -> None:
    ask = ("ask", clip, "Which colour is seen?", *OPTIONS, "--backbone", backbone)
    done = call(*ask, "--price", "1,1,1", "--max-cost", "0.0005")
    assert (done.returncode, done.stdout) == (3, "")
    assert "stopped: the calls of openai:" in done.stderr
    assert "and --max-cost is $0.0005" in done.stderr
    assert "--max-cost needs a price" in call(*ask, "--max-cost", "1").stderr


def test_without_evidence_the_contact_sheet_is_of_the_storyboard(
    call: Call, clip: Path, chatterbox: str, tmp_path: Path
) -> None:
    from PIL import Image

    done = call("ask", clip, "Which?", *OPTIONS, "--backbone", chatterbox, "--save", tmp_path / "out")
    assert done.returncode == 1
    with Image.open(tmp_path / "out" / "contact-sheet.jpg") as sheet:
        assert sheet.width > 8 * 240  # 32 frames in rows of eight
    page = (tmp_path / "out" / "answer.md").read_text()
    assert "not found" in page
    assert "no evidence" in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("{clip}", "Why?", "-o", "a"), "a question needs 2 to 26 options, or none for an open answer; found 1"),
        (("{clip}", "Why?", *(f"-o{n}" for n in range(27))), "found 27"),
        (("{clip}", "Why?", "-o", "a", "-o", "a"), "the option 'a' appears twice"),
        (("{clip}", "Why?", "-o", "a", "-o", ""), "option 2 is empty"),
        (("{clip}", " ", *OPTIONS), "the question is empty"),
        (("{clip}", "Why?", *OPTIONS, "--method", "guess"), "There is no method 'guess'"),
        (("{clip}", "Why?", *OPTIONS, "--budget", "20", "--backbone", "{model}"), "a budget of 20 frames is too small"),
        (("{clip}", "Why?", *OPTIONS, "--backbone", "oracle:x"), "There is no backbone 'oracle:x'"),
        (("{clip}", "Why?", *OPTIONS, "--backbone", "gemini:x"), "needs a key: set GEMINI_API_KEY"),
        (("{folder}/text.mp4", "Why?", *OPTIONS), "text.mp4"),
        (("{folder}/empty.mp4", "Why?", *OPTIONS), "empty"),
        (("nowhere.mp4", "Why?", *OPTIONS), "nowhere.mp4"),
        (("nowhere.mp4", "Why?", *OPTIONS, "--backbone", "glance"), "nowhere.mp4"),
    ],
)
def test_a_mistake_gets_one_sentence_and_status_2_before_notices_about_backbones(
    call: Call, clip: Path, backbone: str, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "text.mp4").write_text("not a video at all")
    (tmp_path / "empty.mp4").touch()
    done = call("ask", *(each.format(clip=clip, folder=tmp_path, model=backbone) for each in arguments))
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_server_that_is_not_there_is_one_sentence(call: Call, clip: Path) -> None:
    done = call("ask", clip, "Why?", *OPTIONS, "--backbone", "openai:m@http://127.0.0.1:9/v1")
    assert done.returncode == 2
    assert "no connection after 4 attempts" in done.stderr
    assert "is the server running?" in done.stderr


def test_without_a_model_the_first_ask_says_what_to_set_or_start(call: Call, clip: Path) -> None:
    done = call("ask", clip, "Which colour is seen?", *OPTIONS)
    assert (done.returncode, done.stdout) == (2, "")
    keys = ("GEMINI_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    assert all(way in done.stderr for way in (*keys, "http://localhost", "hf:", "--backbone glance"))
    assert len(done.stderr.splitlines()) <= 10


class Chatterbox(Model):
    """A model that talks and never gives JSON."""

    said = "Sure! I would be happy to describe the video for you."


@pytest.fixture
def chatterbox() -> Iterator[str]:
    yield from serving(Chatterbox)


def test_a_model_whose_replies_cannot_be_used_is_named_with_a_sample(call: Call, clip: Path, chatterbox: str) -> None:
    ask = ("ask", clip, "Which colour is seen?", *OPTIONS, "--backbone", chatterbox)
    done = call(*ask, "--json")
    assert done.returncode == 1
    record = json.loads(done.stdout)
    calls = len(record["observations"])
    assert f"{calls} of {calls} replies of {chatterbox} could not be used" in done.stderr
    assert "I would be happy to describe" in done.stderr
    assert "Try a larger model" in done.stderr
    shown = call(*ask)
    assert shown.returncode == 1
    assert "not found" in shown.stdout
    assert f"{calls} of {calls} replies could not be used" in shown.stdout


def test_a_test_call_tells_a_model_that_sees_from_one_that_does_not(call: Call, backbone: str, chatterbox: str) -> None:
    works = call("doctor", "--try", backbone)
    assert (works.returncode, works.stderr) == (0, "")
    assert f"{backbone} works" in works.stdout
    talks = call("doctor", "--try", chatterbox)
    assert talks.returncode == 1
    assert "I would be happy" in talks.stdout


def test_python_speaks_the_same(clip: Path, backbone: str) -> None:
    from trace_ves import ask

    result = ask(clip, "Which colour is seen?", options=["red", "blue"], backbone=backbone)
    assert (result.answer, result.text, result.stable) == ("A", "red", True)
    assert "stable-prefix-found" in str(result)
    assert all(10 <= span.start <= span.end <= 26 for span in result.evidence)
