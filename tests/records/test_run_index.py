"""The index of a run file follows it as it grows; what a cache keeps of it gives the same index."""

import hashlib
import json
import stat
from pathlib import Path

import numpy as np
import pytest

from trace_ves.core import InputError
from trace_ves.core.files import cache_dir
from trace_ves.core.jsonl import dump_line
from trace_ves.records import Prediction
from trace_ves.records.base import FieldError
from trace_ves.records.disk_cache import Checksum, Facts, checksum, load_facts, save_facts
from trace_ves.records.run_index import MOST_PROBLEMS, RunIndex, Score


def line(name: str, **more: object) -> bytes:
    return dump_line({"question_id": name, "answer": "A", "timestamps": [1.0], **more})


def score(prediction: Prediction) -> Score | None:
    if prediction.question_id == "q3":
        raise FieldError("it ends after the video")
    return Score(correct=True, frames_distinct=3, frames_inside=2, density=1) if prediction.method else None


def test_a_file_is_followed_as_it_grows_changes_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    whole = line("q1", method="m") + line("q2") + line("q3", error="no")
    path.write_bytes(whole[: len(line("q1", method="m")) + 9])
    index = RunIndex(path, score)
    assert (index.key, index.problem_count, index.is_torn, index.generation) == ("run", 0, False, 0)
    assert (index.refresh(), index.refresh()) == (True, False)
    assert (list(index.entries), index.is_torn, index.generation) == (["q1"], True, 1)
    path.write_bytes(whole)
    assert (index.refresh(), index.is_torn, index.generation, index.problem_count) == (True, False, 2, 0)
    assert [(each.line, each.correct, each.frames_distinct, each.refusal) for each in index.entries.values()] == [
        (1, True, 3, None),
        (2, None, 0, None),
        (3, None, 0, "it ends after the video"),
    ]
    assert [index.read(name).question_id for name in index.entries] == ["q1", "q2", "q3"]
    again = RunIndex(path)
    again.restore(Facts(json.loads(json.dumps(index.facts().values))))
    assert (again.entries, again.generation, again.refresh()) == (index.entries, 1, False)
    path.write_bytes(whole.replace(b"q1", b"q4"))
    with pytest.raises(InputError, match="the file was changed while it was read"):
        index.read("q1")
    path.unlink()
    assert (index.refresh(), index.refresh(), index.generation, index.entries) == (True, False, 3, {})
    assert index.problems[0] == "run.jsonl: cannot be read: No such file or directory."


def test_damaged_and_repeated_lines_are_counted_and_some_are_named(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + line("q1") + b"\n" + line("q1") + b"no\n" * 30 + line("q2") * 168)
    index = RunIndex(path)
    heard: list[tuple[int, int]] = []
    index.refresh(lambda *progress: heard.append(progress))
    assert (index.problem_count, len(index.problems)) == (1 + 30 + 167, MOST_PROBLEMS)
    assert index.problems[0] == "run.jsonl:3: question 'q1' is also in line 1."
    assert index.problems[1].startswith("run.jsonl:4: not valid JSON")
    assert [total for _, total in heard] == [path.stat().st_size] * 2
    assert (heard[1][0], index.entries["q2"].line) == (path.stat().st_size - len(line("q2")), 201)


def test_a_line_that_is_too_long_ends_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.jsonl").write_bytes(line("q1") + line("long"))
    for most, taken, problem in ((2, ["q1", "long"], []), (0, ["q1"], [2]), (-1, [], [1])):
        monkeypatch.setattr("trace_ves.records.run_index.MAX_LINE_BYTES", limit := len(line("q1")) + most)
        index = RunIndex(tmp_path / "run.jsonl")
        index.refresh()
        words = [f"run.jsonl:{number}: the line is longer than {limit} bytes." for number in problem]
        assert (list(index.entries), index.problems) == (taken, words)
    assert Score() == (None, 0, 0, 0)


def test_facts_come_back_with_their_columns_and_a_file_is_read_for_its_checksum_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"a": np.arange(3), "b": np.array([True, False])}
    save_facts("some", ["key"], Facts({"x": "é"}, columns))
    found = load_facts("some", ["key"])
    assert found is not None
    assert found.values == {"x": "é"}
    assert {name: each.tolist() for name, each in found.columns.items()} == {"a": [0, 1, 2], "b": [True, False]}
    assert [stat.S_IMODE(file.stat().st_mode) for file in (cache_dir() / "some").iterdir()] == [0o600]
    assert load_facts("other", ["key"]) is load_facts("some", ["other key"]) is None
    (tmp_path / "film").write_bytes(b"film")
    known = Checksum(4, hashlib.sha256(b"film").hexdigest())
    assert checksum(tmp_path / "film") == known
    monkeypatch.setattr(hashlib, "file_digest", None)
    assert checksum(tmp_path / "film") == known
