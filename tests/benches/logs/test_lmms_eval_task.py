"""A bench as a task of lmms-eval: the folder is what its loader expects, and what it logs is audited."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from tests.benches.tables import write_rows

from trace_ves import InputError, Prediction
from trace_ves.benches import load_bench
from trace_ves.benches.logs import read_log
from trace_ves.integrations.lmms_eval import main, write_task

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
    write_task(load_bench(bench), tmp_path / "task")
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
    logged = [
        functions["process_results"](doc, [response]) for doc, response in zip(docs, ["(B)", "dunno"], strict=True)
    ]
    assert functions["mean_accuracy"]([each["ves_accuracy"] for each in logged]) == 50.0
    lines = [{"doc_id": i, "filtered_resps": "?", **each} for i, each in enumerate(logged)]
    path = write_rows(tmp_path / "s.jsonl", lines)
    recorded = {name: Prediction(name, None, (1.5,), 1, extra={"exact": name == "q1"}) for name in ("q1", "q2")}
    run = read_log(path, "lmms-eval", load_bench(bench).items, recorded=recorded)
    assert [(each.question_id, each.answer, each.timestamps) for each in run.predictions] == [
        ("q1", "B", (1.5,)),
        ("q2", None, (1.5,)),
    ]
    assert run.reconstruction is None
    assert any("come from the decoding library" in warning for warning in run.warnings)


def test_a_name_that_is_none_and_a_bench_without_its_videos_are_refused(bench: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a task name"):
        write_task(load_bench(bench), tmp_path / "task", "a: !function os.system")
    (bench / "videos" / "a.mp4").unlink()
    with pytest.raises(InputError, match=r"a\.mp4: this video is missing \(1 of 1 are\)"):
        write_task(load_bench(bench), tmp_path / "task")


def test_the_command_writes_the_folder_and_says_how_to_use_it(
    bench: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(bench), str(tmp_path / "made"), "mine"])
    assert f"--include_path {tmp_path / 'made'} --tasks mine --log_samples" in capsys.readouterr().out
    assert (tmp_path / "made" / "mine.yaml").is_file()
    with pytest.raises(SystemExit, match="2"):
        main([str(tmp_path / "none"), "x"])
    assert "no bench here" in capsys.readouterr().err
