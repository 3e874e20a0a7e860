"""`trace-ves ask` as a person runs it, with a model behind a real HTTP server on loopback."""

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.conftest import Call, Model, serving
from tests.fakes import OPENAI, Received, Response

from trace_ves import ask
from trace_ves.cli.answer_panel import LEAST_SECONDS
from trace_ves.cli.ask import _describe_rejected
from trace_ves.observer import ReplyRejected

OPTIONS = ("-o", "red", "-o", "blue")


def unwrapped(shown: str) -> str:
    """The words of a panel on one line."""
    return " ".join(shown.replace("│", "").split())


class SlowModel(Model):
    def answer(self, text: str, images: int) -> dict[str, Any]:
        time.sleep(2 * LEAST_SECONDS)  # long enough to be listed on any machine
        return super().answer(text, images)


def test_the_seconds_of_each_stage_are_shown(cli: Call, clip: Path) -> None:
    for backbone in serving(SlowModel):
        done = cli("ask", clip, "Which colour is seen?", *OPTIONS, "--backbone", backbone)
    assert re.search(r"seconds .*claims \d+\.\d, .*temporal proposal \d", unwrapped(done.stdout))


def test_python_answers_as_the_command_does(cli: Call, clip: Path, backbone: str) -> None:
    asked = ("ask", clip, "Which colour is seen?", *OPTIONS, "--backbone", backbone, "--json")
    done = cli(*asked, FORCE_COLOR="1")
    record = json.loads(done.stdout)
    assert record["video_checksum"]["bytes"] == clip.stat().st_size
    assert done.stderr == ""  # on a terminal, too
    result = ask(clip, "Which colour is seen?", options=["red", "blue"], backbone=backbone)
    same = ("answer", "text", "stable", "frames_supplied", "timestamps", "bundle", "trajectory")
    assert [result.to_json()[key] for key in same] == [record[key] for key in same]
    assert "stable-prefix-found" in str(result)
    assert all(10 <= span.start <= span.end <= 26 for span in result.evidence)


def test_a_recorded_search_needs_no_model(cli: Call, clip: Path, backbone: str, tmp_path: Path) -> None:
    asked = ("ask", clip, "Which colour is seen?", *OPTIONS, "--json")
    first = json.loads(cli(*asked, "--backbone", backbone, "--record", tmp_path / "r.jsonl").stdout)
    [line] = (tmp_path / "r.jsonl").read_text().splitlines()
    assert json.loads(line)["backbone"] == "openai:red"  # without its address
    cli(*asked, "--backbone", backbone, "--save", tmp_path / "saved")
    for recording in (tmp_path / "r.jsonl", tmp_path / "saved" / "transcript.json"):
        again = json.loads(cli(*asked, "--backbone", f"replay:{recording}").stdout)
        same = ("answer", "stable", "timestamps", "bundle", "trajectory")
        assert [again[key] for key in same] == [first[key] for key in same]
    other = cli(*asked, "--method", "uniform-9", "--backbone", f"replay:{tmp_path / 'r.jsonl'}", status=2)
    assert "no recorded reply to the stage 'direct-answer' with these 9 frames" in other.stderr
    assert len(other.stderr.splitlines()) == 1


def test_save_writes_what_can_be_taken_away(cli: Call, clip: Path, backbone: str, tmp_path: Path) -> None:
    from PIL import Image

    from trace_ves import open_video

    folder = tmp_path / "out"
    asked = ("ask", clip, "Which *colour* is seen?", *OPTIONS, "--backbone", backbone, "--save", folder)
    cli(*asked)
    [bundled] = json.loads((folder / "record.json").read_text())["bundle"]
    frames = sorted((folder / "frames").iterdir())
    with Image.open(frames[0]) as picture:
        assert picture.convert("RGB").getpixel((48, 32))[0] > 200  # type: ignore[index]  # red, as the source is there
    span = bundled["span"]
    with open_video(folder / "clips" / "clip1.mp4") as cut:
        assert abs(cut.duration - (span[1] - span[0])) <= 0.41
    page = (folder / "answer.md").read_text()
    assert not [name for name in re.findall(r"\]\(([^)]+)\)", page) if not (folder / name).is_file()]
    story = (folder / "story.html").read_text()
    assert story.count("data:image/jpeg") >= 3
    assert "Which *colour* is seen?" in story
    # what is there is not overwritten silently, and nothing was asked in vain
    (folder / "mine.txt").write_text("keep me")
    again = cli(*asked, status=2)
    assert "is not empty" in again.stderr
    assert again.stdout == ""
    cli(*asked, "--overwrite")
    assert (folder / "mine.txt").read_text() == "keep me"


class Indiscreet(Model):
    """A server that puts the key it was sent, and one that looks like another's, into every other reply."""

    def __call__(self, received: Received) -> Response:
        key = OPENAI.key(received)
        self.said = "" if self.said else f"you sent {key}, and sk-proj-abcdefghijklm is another"
        return super().__call__(received)


def test_save_keeps_the_prompt_and_raw_replies_of_each_call_and_no_key(cli: Call, clip: Path, tmp_path: Path) -> None:
    secret = "my-own-secret-0123456789"
    for url in serving(Indiscreet):
        asked = ("ask", clip, "Which colour is seen?", *OPTIONS, "--backbone", url, "--save")
        key = {f"TRACE_VES_127_0_0_1_{re.findall(r'[0-9]+', url)[-2]}_API_KEY": secret}
        cli(*asked, tmp_path / "out", **key)
        cli(*asked, tmp_path / "without", "--no-transcripts", **key)
    texts = [file.read_text() for kind in ("json", "md", "html") for file in (tmp_path / "out").glob(f"*.{kind}")]
    assert not [text for text in texts if "0123456789" in text or "abcdefgh" in text]
    said, record = (json.loads((tmp_path / "out" / f"{name}.json").read_text()) for name in ("transcript", "record"))
    assert [call["stage"] for call in said["calls"]] == [call["stage"] for call in record["observations"]]
    assert any("Question: Which colour is seen?" in prompt for prompt in said["prompts"])
    failed, used = said["calls"][0]["replies"]
    assert failed["text"] == "you sent [key], and [key] is another"
    assert "no JSON object" in failed["problem"]
    assert json.loads(used["text"]) == {"claims": [{"claim": "the colour", "kind": "fact", "values": []}]}
    assert not (tmp_path / "without" / "transcript.json").exists()
    assert "transcript" not in (tmp_path / "without" / "answer.md").read_text()


def test_without_evidence_the_sheet_is_a_storyboard(cli: Call, clip: Path, chatterbox: str, tmp_path: Path) -> None:
    from PIL import Image

    cli("ask", clip, "Which?", *OPTIONS, "--backbone", chatterbox, "--save", tmp_path / "out", status=1)
    with Image.open(tmp_path / "out" / "contact-sheet.jpg") as sheet:
        assert sheet.width > 8 * 240  # 32 frames in rows of eight
    page = (tmp_path / "out" / "answer.md").read_text()
    assert "not found" in page
    assert "no evidence" in page


@pytest.mark.parametrize(
    ("raw", "quote"),
    [
        (" ", "It said nothing."),
        ("x" * 200, f'It said: "{"x" * 200}".'),
        ("x " * 200, f'It said: "{"x " * 100}…".'),
    ],
)
def test_a_reply_that_cannot_be_used_is_quoted_in_part(raw: str, quote: str) -> None:
    result: Any = SimpleNamespace(log=SimpleNamespace(calls=[1, 2, 3]), prediction=SimpleNamespace(backbone="a:b"))
    said = _describe_rejected(result, [ReplyRejected("claims", "No JSON.", raw)] * 2)
    assert said.startswith("2 of 3 replies of a:b could not be used, so the answer has little support. ")
    assert f"of the stage claims: No JSON. {quote} Try a larger" in said


def test_a_test_call_tells_what_a_model_said_that_talks(cli: Call, chatterbox: str) -> None:
    assert "I would be happy" in cli("doctor", "--try", chatterbox, status=1).stdout
