"""Logs of lmms-eval, VLMEvalKit and inspect_ai, in the shapes that these tools write, audited like any run."""

import gzip
import json
import math
import re
import runpy
import struct
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.benches.frame_log import footage
from tests.benches.tables import write_rows

from trace_ves import Interval, Item, Prediction, Question
from trace_ves.benches import load_bench
from trace_ves.benches.logs import read_log, read_logs
from trace_ves.benches.logs.formats import Fields
from trace_ves.benches.logs.letters import read_letter
from trace_ves.benches.logs.reading import _shorten_names, assumed_times
from trace_ves.benches.logs.recorded_frames import read_frame_lists
from trace_ves.cli import main
from trace_ves.core.errors import InputError
from trace_ves.core.schedules import FrameTimes, parse_schedule
from trace_ves.integrations import lmms_eval
from trace_ves.records.run_file import Reconstruction, Run
from trace_ves.ves import audit

OPTIONS = ("a red car", "a blue car", "nobody")


def item(name: str) -> Item:
    question = Question(name, f"videos/{name}.mp4", "Who comes first?", OPTIONS, "x")
    return Item(question, "B", (Interval(0.0, 1.0), Interval(50.0, 52.0)), 100.0)


ITEMS = [item("7"), item("8"), item("9")]
LINSPACE = parse_schedule("linspace-5")


def lmms_eval_line(number: int, qid: int, response: str, parsed: str) -> dict[str, Any]:
    """As lmms-eval 0.7 logs a document of its task cgbench."""
    doc = {"qid": qid, "question": "Who comes first?", "choices": list(OPTIONS), "right_answer": "B"}
    metric = {"question_id": qid, "video_uid": "v", "pred_answer": parsed, "answer": "B", "score": float(parsed == "B")}
    line = {"doc_id": number, "doc": doc, "target": "B", "arguments": ["Who comes first?"], "cgbench_accuracy": metric}
    return line | {"resps": [[response]], "filtered_resps": [response], "token_counts": [None], "doc_hash": "0" * 64}


def test_lmms_eval_samples_have_the_parsed_answer_and_the_schedules_frames(tmp_path: Path) -> None:
    lines = [lmms_eval_line(0, 7, "It is B.", "B"), lmms_eval_line(1, 8, "no idea", "") | {"target": "C"}]
    lines.append(lmms_eval_line(2, 9, "(C) nobody", "") | {"cgbench_accuracy": 0.0})  # a metric without an answer
    run = read_log(write_rows(tmp_path / "x_samples_cgbench.jsonl", lines), "lmms-eval", ITEMS, sampler=LINSPACE)
    assert [(each.question_id, each.answer) for each in run.predictions] == [("7", "B"), ("8", None), ("9", "C")]
    assert [warning.partition("cgbench.jsonl: ")[2] for warning in run.warnings] == [
        "the right answers of 1 questions differ from the bench, which may be another version (8).",
        "1 responses do not name exactly one option and count as no answer (8).",
    ]
    first = run.predictions[0]
    assert (first.timestamps, first.frames_supplied) == (LINSPACE.timestamps(FrameTimes.assumed(100.0)), 5)
    assert first.extra == {"read_by": "single letter", "response": "It is B."}
    assert run.reconstruction is not None
    assert run.reconstruction.describe(30.0) == "linspace-5 on 30fps"


def test_fields_say_where_id_and_answer_stand(tmp_path: Path) -> None:
    line = {"doc": {"vid": "7"}, "filtered_resps": ["A"], "mine": {"choice": "B"}, "cost": float("nan")}
    path = write_rows(tmp_path / "s.jsonl", [line])
    fields = Fields.parse("id={doc.vid}, answer=mine.choice")
    run = read_log(path, "lmms-eval", ITEMS, sampler=LINSPACE, fields=fields)
    assert (run.predictions[0].question_id, run.predictions[0].answer) == ("7", "B")
    with pytest.raises(InputError, match=r"s.jsonl:1: it has no question id; give its path with --fields id=PATH"):
        read_log(path, "lmms-eval", ITEMS, sampler=LINSPACE)


def test_a_log_without_ids_is_matched_by_its_prompts(tmp_path: Path) -> None:
    """lmms-eval's tasks lvbench and nextqa log a score, the response and the prompt, but not the question's id."""
    asked = {"7": "Who comes first?", "8": "Who comes last?", "9": "Who comes last?"}
    items = [Item(Question(name, "v.mp4", text, OPTIONS), "B", (), 100.0) for name, text in asked.items()]
    prompt = "{}\n(A) a red car\n(B)  a blue car\n(C) Nobody\nAnswer the question with the option letter"
    texts = ["Who comes first?", "Who comes last?", "Who comes LAST?", "Who comes last?", "Who leaves?"]
    lines = [
        {"doc_id": n, "target": "B", "filtered_resps": ["B", "C"], "lvbench_score": True, "input": prompt.format(text)}
        for n, text in enumerate(texts)
    ]
    run = read_log(write_rows(tmp_path / "s.jsonl", lines), "lmms-eval", items)
    assert [(each.question_id, each.answer) for each in run.predictions] == [("7", "B"), ("8", "B"), ("9", "B")]
    assert [warning.partition("s.jsonl: ")[2] for warning in run.warnings] == [
        "3 samples have no question id; they were matched by the question and options in the prompt (7, 8, 9).",
        "2 samples are not questions of this bench and were skipped (line 4, line 5).",
    ]
    run = read_log(write_rows(tmp_path / "s.jsonl", [lines[4], lines[0]]), "lmms-eval", items)
    assert [each.question_id for each in run.predictions] == ["7"]  # not by its place


TABLE = [
    {"index": 0, "video": "v", "question": "?", "answer": "B", "qid": 7, "prediction": "B. a blue car"},
    {"index": 1, "video": "v", "question": "?", "answer": "B", "qid": 8, "prediction": "Failed to obtain answer: x"},
    {"index": 2, "video": "v", "question": "?", "answer": "B", "qid": 99, "prediction": "A"},
    {"index": 3, "video": "v", "question": "?", "answer": "B", "qid": 9, "prediction": None},
]
"""As VLMEvalKit dumps the frame of its predictions."""


@pytest.mark.parametrize("ending", [".xlsx", ".tsv", ".csv", ".json"])
def test_tables_of_vlmevalkit_read_the_same_in_every_form(ending: str, tmp_path: Path) -> None:
    formula = [TABLE[3] | {"prediction": '="B"'}] if ending == ".xlsx" else TABLE[3:]  # which nobody has computed
    path = write_rows(tmp_path / f"Model_CGBench{ending}", TABLE[:3] + formula)
    heard: list[tuple[str, int, int]] = []
    run = read_log(
        path, "vlmevalkit", ITEMS, sampler=parse_schedule("inner-4"), on_progress=lambda *said: heard.append(said)
    )
    assert heard == [(f"reading {path.name}", done, 4) for done in (1, 2, 3, 4)]
    assert [(each.question_id, each.answer) for each in run.predictions] == [("7", "B"), ("8", None), ("9", None)]
    assert run.predictions[1].error == "Failed to obtain answer: x"
    assert run.predictions[0].timestamps == (20.0, 40.0, 60.0, 80.0)
    assert run.warnings == (f"{path}: 1 samples are not questions of this bench and were skipped (99).",)
    assert run.name == "Model_CGBench"


def zip_of(path: Path, members: dict[str, bytes], *, zstd: bool) -> Path:
    """A zip; with `zstd`, its members are compressed as recent versions of inspect_ai do (method 93)."""
    frames = {name: (raw[:10], raw[10:]) for name, raw in members.items()} if zstd else {}
    packed = {name: b"".join(map(zstandard.compress, parts)) for name, parts in frames.items()} or members
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED if zstd else zipfile.ZIP_DEFLATED) as archive:
        for name, raw in packed.items():
            archive.writestr(name, raw)
    if not zstd:
        return path
    content = bytearray(path.read_bytes())
    for name, raw in members.items():
        local, central = content.index(name.encode()) - 30, content.rindex(name.encode()) - 46
        for method_at, size_at in ((local + 8, local + 22), (central + 10, central + 24)):
            struct.pack_into("<H", content, method_at, 93)
            struct.pack_into("<I", content, size_at, len(raw))
    path.write_bytes(content)
    return path


def inspect_sample(name: str, *, epoch: int = 1, **more: Any) -> dict[str, Any]:
    sample = {"id": name, "epoch": epoch, "input": "Who comes first?", "choices": list(OPTIONS), "target": "B"}
    scores = {"scores": {"choice": {"value": "C", "answer": "B"}}, "metadata": {}, "store": {}}
    return sample | {"output": {"model": "mockllm/model", "completion": "ANSWER: B"}} | scores | more


STORED = {"question_id": "8", "answer": "A", "timestamps": [0.04, 51.0], "frames_supplied": 3, "method": "trace"}


@pytest.mark.parametrize("zstd", [False, True])
def test_a_prediction_in_the_store_is_taken_with_its_exact_timestamps(zstd: bool, tmp_path: Path) -> None:
    rows = [inspect_sample("8", store={"trace_ves:prediction": STORED}), inspect_sample("8", epoch=2)]
    members = {f"samples/{row['id']}_epoch_{row['epoch']}.json": json.dumps(row).encode() for row in rows}
    path = zip_of(tmp_path / "log.eval", {"header.json": b"{}", **members}, zstd=zstd)
    for sampler in (None, LINSPACE):  # a schedule has nothing to reconstruct here
        run = read_log(path, "inspect", ITEMS, sampler=sampler)
        assert [each.to_json() for each in run.predictions] == [STORED]
        assert (run.name, run.reconstruction) == ("trace", None)


def test_any_other_sample_of_inspect_needs_a_schedule(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"version": 2, "samples": [inspect_sample("7"), inspect_sample("9", scores=None)]}))
    run = read_log(path, "inspect", ITEMS, sampler=LINSPACE)
    assert [(each.question_id, each.answer) for each in run.predictions] == [("7", "B"), ("9", "B")]
    with pytest.raises(InputError, match=r"does not contain the supplied frames .*--sampler"):
        read_log(path, "inspect", ITEMS)


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_of_several_models_is_read_as_lmms_eval_writes_it(packed: bool, tmp_path: Path) -> None:
    for model, date in (("Qwen__Qwen3-VL-8B", "20261101_120000"), ("lmms-lab__llava", "20261102_130000")):
        (tmp_path / model).mkdir()
        (tmp_path / model / f"{date}_results.json").write_text("{}")
        for task, qid in (("cgbench", 7), ("mlvu", 99)):
            log = write_rows(tmp_path / model / f"{date}_samples_{task}.jsonl", [lmms_eval_line(0, qid, "B", "B")])
            if packed:
                log.with_suffix(".jsonl.gz").write_bytes(gzip.compress(log.read_bytes()))
                log.unlink()
    runs = read_logs([tmp_path], "lmms-eval", ITEMS, sampler=LINSPACE)
    assert [run.name for run in runs] == ["Qwen__Qwen3-VL-8B_20261101_120000", "lmms-lab__llava_20261102_130000"]
    assert [len(run.predictions) for run in runs] == [1, 1]
    assert sum("the first sample is '99'. It was skipped." in warning for warning in runs[0].warnings) == 2
    for log in tmp_path.rglob("*cgbench*"):
        log.unlink()
    with pytest.raises(InputError, match="no question of the bench is in this log"):
        read_logs([tmp_path], "lmms-eval", ITEMS, sampler=LINSPACE)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no log of inspect in this folder"):
        read_logs([tmp_path / "empty"], "inspect", ITEMS)


PHRASES = [
    *((phrase, "single letter") for phrase in ("{}", "({})", "**{}.**", "<answer>{}</answer>")),
    ("<think>maybe the answer is {other}</think> {}", "single letter"),
    ("reasoning about {other}</think>{}", "single letter"),
    ("The correct option is {}.", "statement"),
    ("final: ({})", "statement"),
    ("Answer {other} is wrong. I pick {}", "statement"),
    ("The answer might be {other}. But the hunter is late: the answer is {}", "statement"),
    ("The answer is {}, not {other}.", "statement"),
    ("Therefore, the best choice is **{}**", "statement"),
    ("\\boxed{{{}}}", "statement"),
    ("{} is correct, {other} isn't.", "statement"),
    ("I would choose {} because it is there", "statement"),
    *(
        (text, "first letter")
        for text in ("{}. some words", "{}, red car", "Option {}: some words", "{}\nbecause it is")
    ),
    *((phrase, "only letter") for phrase in ("Option {}", "It is {}.")),
    *(
        (phrase, "not read")
        for phrase in ("{other} or {}", "{other}, {}", "{} man walks by", "<think>the answer is {}")
    ),
    ("I cannot see the video.", "not read"),
]
NINE = ("red", "blue", "green", "grey", "pink", "white", "black", "brown", "gold")  # I is a letter and a pronoun


@pytest.mark.parametrize(("phrase", "rule"), PHRASES)
def test_every_letter_is_read_alike(phrase: str, rule: str) -> None:
    question = Question("q", "v.mp4", "?", tuple(f"the {word} thing" for word in NINE))
    for place, letter in enumerate(question.letters):
        other = question.letters[(place + 3) % len(NINE)]
        text = phrase.format(letter, other=other)
        assert read_letter(text, question) == (None if rule == "not read" else letter, rule), text


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        *(
            (text, "B")
            for text in ("b", "a blue car", "A blue car.", "Red? No, my answer is b.", "It must be (b), surely")
        ),
        *((text, "B") for text in ("The answer is the blue car.", "There goes a blue car today")),
        ("They saw a blue car pass by the old house on the far hill", None),  # far longer than the options
        *((text, None) for text in ("D", "")),
        ("The answer is A." + " so" * 7000 + " The answer is B.", "B"),
        (" so" * 7000 + " answer: B.", "B"),
        ("The answer is A. No, the answer is B.", "B"),
        ("<answer>A</answer> no: <answer>B</answer>", "B"),
    ],
)
def test_the_text_of_an_option_is_its_letter(text: str, letter: str | None) -> None:
    assert read_letter(text, ITEMS[0].question).letter == letter


@given(st.text(max_size=200) | st.sampled_from(["answer " * 4000, "\n" * 20_000, "A" + " " * 20_000, "<think>" * 3000]))
def test_whatever_is_written_is_an_option_or_no_answer(text: str) -> None:
    started = time.monotonic()
    assert read_letter(text, ITEMS[0].question).letter in {*ITEMS[0].question.letters, None}
    assert time.monotonic() - started < 5


def video_mme_line(number: int, response: str) -> dict[str, Any]:
    """As published logs of lmms-eval's task videomme have it: no frames, but groups."""
    facts = {"question_id": f"{number:03}", "duration": ("short", "long")[number % 2], "category": "Knowledge"}
    score = {**facts, "pred_answer": response[:1], "answer": "B"}
    return {"doc_id": number, "target": "B", "filtered_resps": [response], "videomme_perception_score": score}


def test_published_logs_are_scored_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = tmp_path / "questions.jsonl"
    videos = [replace(item(f"{n:03}"), evidence=(), duration=math.inf).to_json() for n in range(40)]
    write_rows(bench, [line | {"video": f"videos/{n % 4}.mp4"} for n, line in enumerate(videos)])
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in ("aks", "mdp", "own"):
        lines = [video_mme_line(n, "C." if name == "own" and n < 20 else "B." if n % 4 else "A.") for n in range(40)]
        write_rows(logs / f"x_{name}_samples_videomme.jsonl", [*lines, lines[0]])
    lists = tmp_path / "picked.json"
    lists.write_text(json.dumps([[0.0, 30.0, 60.0 + n % 4] for n in range(40)]))
    for more in ([], ["--sampler", "linspace-8"]):
        with pytest.raises(SystemExit) as caught:
            main(["audit", str(bench), str(logs), "--format", "lmms-eval", "--json", "--resamples", "9", *more])
        out, err = capsys.readouterr()
        report = json.loads(out)
        assert caught.value.code == 0
    run = report["runs"][0]
    assert [each["name"] for each in report["runs"]] == ["aks", "mdp", "own"]
    assert (run["answer_only"]["Acc"], run["metrics"]["Fr"], run["read_by"]) == (75.0, None, {"single letter": 40})
    assert run["groups"]["duration_group"]["short"] == {"questions": 20, "Acc": 50.0}
    pairs = {(pair["a"], pair["b"]): (pair["answers"], pair["responses"]) for pair in report["agreement"]}
    assert pairs == {("aks", "mdp"): (100.0, 100.0), ("aks", "own"): (50.0, 50.0), ("mdp", "own"): (50.0, 50.0)}
    assert "aks and mdp gave the same response to 100.0% of the questions: these runs are almost certainly" in err
    assert "1 samples repeat an earlier question" in err
    assert "40 questions have no duration in this bench, so linspace-8 gives no frames for them" in err
    with pytest.raises(SystemExit):
        main(["audit", str(bench), "--frames", str(lists), "--resamples", "9"])
    out, err = capsys.readouterr()
    assert re.search(r"picked +40 +3\.0 +--", out)
    assert "picked: all questions about a video were answered from the same frames (4 videos" in err


FRAME_LISTS: list[tuple[object, str | None]] = [
    ([[0, 30, 1500.0, 3030], [1530], []], None),
    ({"7": [0, 30, 1500, 3030], "8": [1530], "9": []}, None),
    ([{"question_id": 7, "frame_idx": "[0, 30, 1500, 3030]"}, {"question_id": "8", "frame_idx": [1530]}], None),
    ([[0]] * 4, "4 lists for 3 questions"),
    *(
        ([[0, index]], rf"aks\.json: question '7': a frame index is a whole number from 0 up, found {shown}\.$")
        for index, shown in ((0.5, "0.5"), (-1, "-1"), (True, "True"), ("0", "'0'"), (None, "None"), (10**9, "10+"))
    ),
    *(
        ([[index]], rf"frame {shown} would be at {seconds} s, after the end of its video \(100 s\); give the right")
        for index, shown, seconds in ((3031, 3031, "101.0"), (10**9 - 1, "1e.09", "33333333.3"))
    ),
    ({"q": [1]}, "no question of the bench is in this file"),
    ([{"question_id": "7"}], "expected a list of frame indices under one of frames,"),
    ("text", "expected a list of frame indices for each question"),
]


@pytest.mark.parametrize(("content", "fault"), FRAME_LISTS)
def test_lists_of_frame_indices_are_a_run_without_answers(content: object, fault: str | None, tmp_path: Path) -> None:
    path = tmp_path / "aks.json"
    path.write_text(json.dumps(content))
    if fault is not None:
        with pytest.raises(InputError, match=fault):
            read_frame_lists(path, ITEMS, assumed_times)
        return
    run = read_frame_lists(path, ITEMS, assumed_times)
    assert [each.timestamps for each in run.predictions][:2] == [(0.0, 1.0, 50.0, 101.0), (51.0,)]
    kind = Reconstruction("frame indices", frozenset({False}))
    assert run == Run("aks", run.predictions, path, [0] * len(run.predictions), run.warnings, kind)
    figures = audit(ITEMS, [run], resamples=9).runs[0]
    assert figures.is_sampler
    assert (figures.metrics["Acc"], figures.metrics["Cov@1"]) == (None, pytest.approx(100 / 3))
    log = write_rows(tmp_path / "s.jsonl", [lmms_eval_line(0, 7, "B", "B")])
    answered = read_log(log, "lmms-eval", ITEMS, selection=replace(run, warnings=("A list is long.",)))
    assert answered.warnings == ("A list is long.",)
    assert audit(ITEMS, [answered], resamples=9).runs[0].metrics["ECA@1"] == pytest.approx(100 / 3)


HOSTILE: list[tuple[str, str, bytes]] = [
    *(("lmms-eval", "s.jsonl", content) for content in (b"{" * 100_000, b"\xff\xfe\n", b"[]\n", b"")),
    ("lmms-eval", "s.jsonl", b'{"doc": {"qid": [1]}, "filtered_resps": ["A"]}\n'),
    ("lmms-eval", "s.jsonl", b'{"doc": {"qid": 7}, "filtered_resps": [{"a": 1}]}\n'),
    ("vlmevalkit", "t.xlsx", b"PK no zip"),
    ("vlmevalkit", "t.json", b'{"prediction": "A"}'),
    ("vlmevalkit", "t.tsv", b"prediction\nA\n"),
    ("vlmevalkit", "t.pkl", b"cos\nsystem\n"),
    ("inspect", "l.eval", b"not a zip"),
    ("inspect", "l.json", b'{"samples": 3}'),
    ("inspect", "l.json", b'{"samples": [{"id": "7", "store": {"trace_ves:prediction": {"question_id": 3}}}]}'),
]


@pytest.mark.parametrize(("log_format", "name", "content"), HOSTILE)
def test_a_hostile_log_is_one_sentence(log_format: str, name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_log(path, log_format, ITEMS, sampler=LINSPACE)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        *((said, "its size differs from the size in the archive") for said in (1000, 1 << 28)),
        ((1 << 28) + 1, "it would unpack to 268435457 bytes; the limit is 268435456"),
    ],
)
def test_a_member_that_unpacks_to_more_than_it_says_is_refused(said: int, words: str, tmp_path: Path) -> None:
    path = zip_of(tmp_path / "log.eval", {"samples/7_epoch_1.json": b" " * 1_000_000}, zstd=True)
    content = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", content, content.index(mark) + at, said)
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_log(path, "inspect", ITEMS)


def test_the_command_marks_timestamps_as_reconstructed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench, log = tmp_path / "questions.jsonl", tmp_path / "s.jsonl"
    write_rows(bench, [each.to_json() for each in ITEMS])
    write_rows(log, [lmms_eval_line(i, 7 + i, "B", "B") for i in range(3)])
    arguments = ["audit", str(bench), str(log), "--format", "lmms-eval", "--sampler", "linspace-5", "--fps", "25"]
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    out = capsys.readouterr().out
    assert caught.value.code == 0
    assert "Timestamps reconstructed, not logged: s (linspace-5 on 25fps)." in out
    assert "|timestamps:reconstructed(linspace-5)|frames-of:25fps|" in out
    with pytest.raises(SystemExit, match="2"):
        main([each.replace("linspace-5", "linspace-5,inner-5") for each in arguments])
    assert "give one of --sampler, --frames and --recorded" in capsys.readouterr().err


def test_a_video_that_is_there_gives_its_true_frame_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "videos").mkdir()
    footage.make(tmp_path / "videos" / "7.mkv", [0, 40, 1000, 1040, 5000, 99_000])  # most frames stand close together
    bench = write_rows(tmp_path / "questions.jsonl", [ITEMS[0].to_json() | {"video": "videos/7.mkv"}])
    log = write_rows(tmp_path / "s.jsonl", [lmms_eval_line(0, 7, "B", "B")])
    with pytest.raises(SystemExit):
        main(["audit", str(bench), str(log), "--format", "lmms-eval", "--sampler", "linspace-3", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["runs"][0]["reconstructed"] == "linspace-3 on video"
    assert "|frames-of:video|" in report["signature"]
    assert report["runs"][0]["metrics"]["EP"] == pytest.approx(200 / 3)  # frames 0, 2 and 5: 0 s, 1 s, 99 s
    lists = tmp_path / "aks.json"
    for indices in ([1, 2, 4.0], [1, 6]):
        lists.write_text(json.dumps([indices]))
        with pytest.raises(SystemExit) as caught:
            main(["audit", str(bench), "--frames", str(lists), "--fps", "1", "--json"])
        out, err = capsys.readouterr()
        if indices == [1, 6]:
            assert caught.value.code == 2
            assert "aks.json: question '7': frame 6 is not in its video, which has 6 frames" in err
        else:  # frames 1, 2 and 4: 0.04 s, 1 s and 5 s, whatever --fps says
            [run] = json.loads(out)["runs"]
            assert (run["reconstructed"], run["metrics"]["EP"]) == ("frame indices on video", pytest.approx(200 / 3))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a_x_z", "a_y_z"], ["x", "y"]),
        (["a_b_x", "a_b_y"], ["x", "y"]),
        (["x_y_z", "w_y_z"], ["x", "w"]),
        (["a_b", "a_b_c"], ["b", "b_c"]),
        *((same.split(), same.split()) for same in ("a a_b", "a_b b", "a_b a_b", "a_x a_y a_x", "a_b", "a_x b_y")),
    ],
)
def test_names_lose_the_words_that_all_share(names: list[str], expected: list[str]) -> None:
    assert list(_shorten_names(names)) == expected


# --- a bench as a task of lmms-eval: the folder is what its loader expects, and what it logs is audited ---------------

LINES = [
    {"id": "q1", "video": "videos/a.mp4", "duration": 9.0, "question": 'Who "waits"?', "options": ["a cat", "a dog"]}
    | {"answer": "B", "evidence": [[1.0, 2.0]], "family": "x", "odd": {"kept": True}},
    {"id": "q2", "video": "videos/a.mp4", "duration": 9.0, "question": "Qui?", "options": ["é", "b", "c"]}
    | {"answer": "A", "evidence": [[3.0, 4.0]], "odd": 3},
]


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    (tmp_path / "bench" / "videos").mkdir(parents=True)
    (tmp_path / "bench" / "videos" / "a.mp4").write_bytes(b"film")
    return write_rows(tmp_path / "bench" / "questions.jsonl", LINES).parent


@pytest.fixture
def task(bench: Path, tmp_path: Path) -> Path:
    lmms_eval.write_task(load_bench(bench), tmp_path / "task")
    return tmp_path / "task"


def documents(task: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (task / "docs.jsonl").read_text().splitlines()]


def test_documents_have_no_evidence_and_every_function_that_the_task_names_is_there(task: Path, bench: Path) -> None:
    kept = ("id", "question", "options", "answer")
    film = str((bench / "videos" / "a.mp4").resolve())
    expected = [{key: line[key] for key in kept} | {"video": film, "family": line.get("family", "")} for line in LINES]
    assert documents(task) == expected
    text = (task / "ves.yaml").read_text()
    named = re.findall(r"!function utils\.(\w+)", text)
    functions = runpy.run_path(str(task / "utils.py"))
    assert len(named) == 4
    assert all(callable(functions[name]) for name in named)
    assert f"test: {json.dumps(str(task / 'docs.jsonl'))}" in text


def test_what_the_task_logs_is_audited(task: Path, bench: Path, tmp_path: Path) -> None:
    functions = runpy.run_path(str(task / "utils.py"))
    docs = documents(task)
    assert functions["doc_to_visual"](docs[0]) == [docs[0]["video"]]
    shown = functions["doc_to_text"](docs[0], {"pre_prompt": "", "post_prompt": "\nLetter?"})
    assert shown == 'Who "waits"?\nA. a cat\nB. a dog\nLetter?'
    logged = [functions["process_results"](doc, [said]) for doc, said in zip(docs, ["(B)", "dunno"], strict=True)]
    assert functions["mean_accuracy"]([each["ves_accuracy"] for each in logged]) == 50.0
    lines = [{"doc_id": i, "filtered_resps": "?", **each} for i, each in enumerate(logged)]
    path = write_rows(tmp_path / "s.jsonl", lines)
    recorded = {name: Prediction(name, None, (1.5,), 1, extra={"exact": False}) for name in ("q1", "q2")}
    run = read_log(path, "lmms-eval", load_bench(bench).items, recorded=recorded)
    found = [(each.question_id, each.answer, each.timestamps) for each in run.predictions]
    assert found == [("q1", "B", (1.5,)), ("q2", None, (1.5,))]
    assert run.reconstruction is None
    assert any("timestamps of 2 questions come from the decoding library" in warning for warning in run.warnings)


def test_a_name_that_is_none_and_a_bench_without_its_videos_are_refused(bench: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a task name"):
        lmms_eval.write_task(load_bench(bench), tmp_path / "task", "a: !function os.system")
    (bench / "videos" / "a.mp4").unlink()
    with pytest.raises(InputError, match=r"a\.mp4: this video is missing \(1 of 1 are\)"):
        lmms_eval.write_task(load_bench(bench), tmp_path / "task")


def test_the_command_says_how_to_use_its_folder(
    bench: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lmms_eval.main([str(bench), str(tmp_path / "made"), "mine"])
    assert f"--include_path {tmp_path / 'made'} --tasks mine --log_samples" in capsys.readouterr().out
    assert (tmp_path / "made" / "mine.yaml").is_file()
    with pytest.raises(SystemExit, match="2"):
        lmms_eval.main([str(tmp_path / "none"), "x"])
    assert "no bench here" in capsys.readouterr().err
