"""`trace-ves import`, as a person runs it."""

from __future__ import annotations

import json

import pytest

from trace_ves.benchmarks import load_bench
from trace_ves.cli import main

ROW = {
    "qid": 1,
    "video_uid": "v",
    "question": "?",
    "choices": ["a", "b"],
    "right_answer": "A",
    "clue_intervals": [[1, 2]],
    "duration": 10,
    "sub_category": "x",
}


def call(capsys, *arguments) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return caught.value.code, out, err


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "cg.json"
    path.write_text(json.dumps([ROW, ROW | {"qid": 2, "clue_intervals": [[3, 1]]}]))
    return path


def test_import_writes_a_bench_and_says_what_it_left_out(source, tmp_path, capsys):
    code, out, err = call(capsys, "import", "cg-bench", source, tmp_path / "bench")
    assert code == 0
    assert "1 questions on 1 videos, 1 with evidence intervals. 1 questions were left out." in out
    assert "cg.json, row 2: question '2': evidence interval 3-1 s is reversed (left out)" in err
    assert len(load_bench(tmp_path / "bench").items) == 1


def test_strict_import_refuses_and_writes_nothing(source, tmp_path, capsys):
    code, _, err = call(capsys, "import", "cg-bench", source, tmp_path / "bench", "--strict")
    assert code == 2
    assert "question '2': evidence interval 3-1 s is reversed" in err
    assert not (tmp_path / "bench").exists()


def test_import_does_not_replace_without_force(source, tmp_path, capsys):
    assert call(capsys, "import", "cg-bench", source, tmp_path / "bench")[0] == 0
    code, _, err = call(capsys, "import", "cg-bench", source, tmp_path / "bench")
    assert code == 2
    assert "--force" in err
    assert call(capsys, "import", "cg-bench", source, tmp_path / "bench", "--force")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense", "a", "b"], "'nonsense' is not one of"),
        (["cg-bench", "none.json", "out"], "none.json: cannot be read: No such file"),
        (["cg-bench", "none.json", "out", "--columns", "id=x"], "--columns is for ves-bench alone"),
        (["cg-bench", "none.json", "out", "--grounding", "x"], "--grounding is for next-gqa alone"),
        (["ves-bench", "none.parquet", "out", "--columns", "idd=x"], "FIELD one of"),
        (["next-gqa", "none.csv", "out"], "no grounded segments beside it"),
    ],
)
def test_wrong_arguments_are_explained(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, _, err = call(capsys, "import", *arguments)
    assert code == 2
    assert words in err


@pytest.mark.parametrize(
    "real",
    [
        ("cg-bench", "cgbench_mini.json", "3000 questions on 1118 videos, 3000 with evidence"),
        (
            "next-gqa",
            "nextgqa_val.csv",
            "3355 questions on 567 videos, 3355 with evidence intervals. 3 questions were left",
        ),
        ("lvbench", "avp_eval_lvbench.json", "1549 questions on 103 videos, 1284 with evidence"),
        ("video-mme", "videomme_test.parquet", "2700 questions on 900 videos, 0 with evidence"),
    ],
)
def test_real_files_become_benches_that_can_be_audited(shared, tmp_path, capsys, real):
    name, file, words = real
    code, out, _ = call(capsys, "import", name, shared / "annotations" / file, tmp_path / "bench")
    assert code == 0
    assert words in out
    run = tmp_path / "run.jsonl"
    items = load_bench(tmp_path / "bench").items
    run.write_text(
        "".join(json.dumps({"question_id": i.question.id, "answer": "A", "timestamps": []}) + "\n" for i in items)
    )
    code, out, _ = call(capsys, "audit", tmp_path / "bench", run, "--json", "-", "--resamples", "20")
    assert code == 0
    expected = 100 * sum(item.answer == "A" for item in items) / len(items)
    assert json.loads(out)["runs"][0]["answer_only"]["Acc"] == pytest.approx(expected)
