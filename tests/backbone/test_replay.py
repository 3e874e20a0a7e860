"""Recorded replies: matched by stage, frames and order; a file that is damaged or foreign is one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.fakes import make_clip

from trace_ves.backbone.protocol import Generation, ModelFault, Prompt, Request
from trace_ves.backbone.registry import open_backbone
from trace_ves.core import BackboneError, Clip, TraceVesError
from trace_ves.records.transcript import ModelText


class Seen(BaseModel):
    seen: str


def line(*calls: tuple[str, Clip | None, str, dict[str, Any]], question: str = "q") -> str:
    """A recording of calls: stage, clip, prompt, reply."""
    prompts = [prompt for _, _, prompt, _ in calls]
    record = [
        {
            "stage": stage,
            "prompt": at,
            "clips": [
                {"span": [0, 9], "fps": 1, "height": 36, "timestamps": [frame.seconds for frame in clip.frames]}
                for clip in ([clip] if clip else [])
            ],
            "replies": [reply],
        }
        for at, (stage, clip, _, reply) in enumerate(calls)
    ]
    return json.dumps({"question_id": question, "prompts": prompts, "calls": record})


def ask(stage: str, text: str, clip: Clip | None = None) -> Request[Seen]:
    return Request(Prompt(stage, text), {}, Seen, (clip,) if clip else ())


def test_replies_are_found_by_stage_frames_and_order_whatever_the_words(tmp_path: Path) -> None:
    first, second = make_clip(0, [10, 20]), make_clip(5, [10, 20])
    recorded = line(
        ("look", first, "Old words.", {"text": '{"seen": "first"}'}),
        ("look", second, "Old words.", {"text": '{"seen": "second"}'}),
        ("decide", None, "One.", {"text": '```json\n{"seen": "round 1"}\n```'}),
        ("decide", None, "Two.", {"text": '{"seen": "round 2"}'}),
        ("decide", None, "Three.", {"text": "no idea", "problem": "It is no Seen."}),
    )
    (tmp_path / "r.jsonl").write_text(recorded + "\n")
    model = open_backbone(f"replay:{tmp_path / 'r.jsonl'}")
    assert model.name == "replay:r.jsonl"
    looks = [ask("look", "New words.", clip) for clip in (second, first)]
    batch = [*looks, ask("decide", "Two."), ask("decide", "?")]
    words = ["second", "first", "round 2", "round 1"]
    for _ in range(2):  # the same request gets the same reply again
        assert [each.reply.seen for each in model.generate(batch) if isinstance(each.reply, Seen)] == words
    [last] = model.generate([ask("decide", "Else?")])
    fault = ModelFault("It is no Seen.", "no idea")
    assert last == Generation(fault, texts=(ModelText("no idea", "It is no Seen."),))
    for unknown in (ask("decide", "More?"), ask("look", "Old words.", make_clip(7, [1]))):
        with pytest.raises(BackboneError, match=f"no recorded reply to the stage '{unknown.stage}'"):
            model.generate([unknown])


def test_with_several_questions_the_prompt_must_be_the_same(tmp_path: Path) -> None:
    clip = make_clip(0, [10])
    lines = [
        line(("look", clip, f"Is it {name}?", {"text": f'{{"seen": "{name}"}}'}), question=name) for name in ("a", "b")
    ]
    (tmp_path / "run.transcripts").write_text("\n".join(lines) + "\n")
    model = open_backbone(f"replay:{tmp_path / 'run.transcripts'}")
    [generation] = model.generate([ask("look", "Is it b?", clip)])
    assert generation == Generation(Seen(seen="b"), texts=(ModelText('{"seen": "b"}'),))
    with pytest.raises(BackboneError, match="no recorded reply"):
        model.generate([ask("look", "Is it c?", clip)])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read"),
        ("", "is empty"),
        ("{}", "question_id"),
        ("not json", "not valid JSON"),
        (line(("look", None, "?", {"text": "x"})).replace('"prompt": 0', '"prompt": 9'), "a prompt that is not there"),
        (line(("look", None, "?", {"text": "x"})) + "\n{", "r.jsonl:2"),
        ("[" * 100_000, "r.jsonl"),
        (line(("look", None, "?", {"text": "x"})), "does not fit this version"),
        (line(("look", None, "?", {"text": '{"seen": [7]}'})), "does not fit this version"),
    ],
)
def test_a_file_that_is_no_recording_is_one_sentence(tmp_path: Path, content: str | None, sentence: str) -> None:
    if content is not None:
        (tmp_path / "r.jsonl").write_text(content)
    with pytest.raises(TraceVesError) as caught:
        open_backbone(f"replay:{tmp_path / 'r.jsonl'}").generate([ask("look", "?")])
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
