"""What was said in each call: kept beside a run, bounded, healed after a kill, and never in the way of a run."""

import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from trace_ves.cli.dev import schema_text
from trace_ves.core import FormatError, Interval
from trace_ves.core.jsonl import JsonlAppender
from trace_ves.records import ClipRecord
from trace_ves.records import transcript as module
from trace_ves.records.run_index import RunIndex
from trace_ves.records.transcript import (
    CallTexts,
    ModelText,
    Transcript,
    TranscriptFile,
    TranscriptIndex,
    make_transcript,
    read_saved_transcript,
    read_transcript,
    transcripts_path,
)

CLIP = ClipRecord(Interval(1, 3), 0.5, 360, (1.5, 2.5))
CALLS = [
    CallTexts("claims", "List.", replies=(ModelText("no JSON", "it has no object"), ModelText('{"claims": []}'))),
    CallTexts("look", "Look at it.", (CLIP,), (ModelText("{}"),), raw=False),
    CallTexts("look", "Look at it.", (CLIP, CLIP), (ModelText("{}"),)),
]
TRANSCRIPT = make_transcript("q1", CALLS)


def write(run: Path, *transcripts: Transcript) -> Path:
    """Append these to the sidecar of a run."""
    with closing(TranscriptFile(run)) as file:
        for transcript in transcripts:
            file.append(transcript)
    return file.path


def test_calls_come_back_in_order_and_a_shared_prompt_is_kept_once(tmp_path: Path) -> None:
    run = tmp_path / "trace@m.jsonl"
    write(run, TRANSCRIPT)
    found = read_transcript(run, "q1")
    assert found == TRANSCRIPT
    assert found.prompts == ("List.", "Look at it.")
    again = [CallTexts(each.stage, found.prompt_of(each), each.clips, each.replies, each.raw) for each in found.calls]
    assert again == CALLS
    schema = Draft202012Validator(json.loads(schema_text("transcript")))
    schema.validate(TRANSCRIPT.to_json())
    assert not schema.is_valid(TRANSCRIPT.to_json() | {"prompts": [1]})


def test_a_run_without_transcripts_has_none(tmp_path: Path) -> None:
    assert read_transcript(tmp_path / "old.jsonl", "q1") is None
    write(tmp_path / "old.jsonl")
    assert list(tmp_path.iterdir()) == []
    assert RunIndex(tmp_path / "old.jsonl").transcripts.read("q1") is None
    assert read_saved_transcript(tmp_path) is None
    (tmp_path / "transcript.json").write_text(json.dumps(TRANSCRIPT.to_json(), indent=1))
    assert read_saved_transcript(tmp_path) == TRANSCRIPT


def test_of_a_question_that_was_asked_again_the_last_words_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "r.jsonl"
    index = TranscriptIndex(run)
    write(run, Transcript("q1"))
    assert index.read("q1") == Transcript("q1")
    write(run, Transcript('q", "2'), TRANSCRIPT)
    assert index.read("q1") == TRANSCRIPT
    assert index.read('q", "2') == Transcript('q", "2')
    assert index.read("q3") is None
    with transcripts_path(run).open("r+b") as file:  # what was read is not read again
        file.write(transcripts_path(run).read_bytes().replace(b"q1", b"q0", 1))
    assert index.read("q0") is None
    assert (index.search(["look", "list"]), index.search(["look", "never"])) == ({"q1"}, set())
    for less, found in ((0, {"q1"}), (1, set())):  # a search reads whole lines up to a limit
        monkeypatch.setattr(module, "MOST_SEARCHED_BYTES", transcripts_path(run).stat().st_size - less)
        assert index.search(["look"]) == found


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    run = tmp_path / "r.jsonl"
    index = TranscriptIndex(run)
    for names in (["a", "b"], ["c"]):
        transcripts_path(run).unlink(missing_ok=True)
        write(run, *map(Transcript, names))
        assert [index.read(name) for name in ("a", "b", "c")] == [
            Transcript(name) if name in names else None for name in ("a", "b", "c")
        ]


def test_texts_are_bounded_and_say_how_long_they_were() -> None:
    long = "r" * 100_001
    said = make_transcript("q", [CallTexts("s", f"{n:02}" * 50_001, replies=(ModelText(long),)) for n in range(11)])
    assert said.prompts == (*(f"{n:02}" * 50_000 for n in range(10)), "")
    cut = [reply for call in said.calls for reply in call.replies]
    assert cut == [ModelText(long[:-1], chars=100_001)] * 10 + [ModelText("", chars=100_001)]
    calls = [CallTexts("s", f"{n:02}" * 50_000) for n in range(19)]
    for spare in (0, 1):
        more = make_transcript("q", [*calls, CallTexts("s", "p", replies=(ModelText(long[: 99_999 + spare]),))])
        assert sum(map(len, more.prompts)) == 1_900_001
        assert more.prompt_of(more.calls[-1]) == "p"
        assert more.calls[-1].replies == (ModelText(long[:99_999], chars=100_000 if spare else None),)


def test_a_sidecar_that_another_process_writes_is_left_to_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = tmp_path / "r.jsonl"
    with JsonlAppender(transcripts_path(run)) as other:
        other.append(TRANSCRIPT.to_json())
        write(run, Transcript("mine"), Transcript("mine too"))
    assert read_transcript(str(run), "q1") == TRANSCRIPT
    assert read_transcript(run, "mine") is None
    assert caplog.text.count("another process is writing there") == 1  # said once; the run continues


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b'{"question_id": "q1", "prompts": [1]}', "'prompts[0]' must be a string"),
        (b'{"question_id": "q1", "calls": [{"stage": "s", "prompt": 0}]}', "names a prompt that is not there"),
        (b'{"question_id": "q1", "prompts": ["', "not valid JSON"),
        (b'{"prompts": [], "question_id": "q1", "calls": {}}', "'calls' must be an array"),
    ],
)
def test_a_damaged_line_is_one_sentence_and_the_others_are_read(tmp_path: Path, line: bytes, complaint: str) -> None:
    run = tmp_path / "r.jsonl"
    good = json.dumps(Transcript("q2").to_json()).encode()
    transcripts_path(run).write_bytes(b"\xff\n[]\n" + line + b"\n" + good + b"\n" + good.replace(b"q2", b"q3"))
    with pytest.raises(FormatError, match=re.escape(complaint)):
        read_transcript(run, "q1")
    assert read_transcript(run, "q2") == Transcript("q2")
    assert read_transcript(run, "q3") is None  # its line is not finished
