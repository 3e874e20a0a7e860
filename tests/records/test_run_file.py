"""A run file keeps its configuration, every line that was written, and the errors that were asked again."""

from dataclasses import replace
from pathlib import Path

import pytest

from trace_ves.core import InputError
from trace_ves.core.jsonl import JsonlAppender
from trace_ves.records import Prediction
from trace_ves.records.run_file import RunConfiguration, RunFile, read_configuration, read_predictions, read_retried

PREDICTIONS = [
    Prediction(f"q{number}", "A", (1.5, float(number + 2)), 2, method="m", error="café failed" if number == 1 else None)
    for number in range(4)
]
CONFIGURATION = RunConfiguration(
    trace_ves="0.1.0",
    method='a "quoted" naïve\nname',
    backbone="b",
    budget=64,
    bench="bench/questions.jsonl",
    bench_sha256="0" * 64,
    started="now",
    temperature=0.5,
    extra={"own": [1, "two"]},
)


def write_all(folder: Path) -> Path:
    """The path of a run with every prediction."""
    with RunFile(folder, "run", CONFIGURATION) as file:
        for prediction in PREDICTIONS:
            file.append(prediction)
    return file.path


def test_a_configuration_comes_back_as_it_was_written(tmp_path: Path) -> None:
    with RunFile(tmp_path, "run", CONFIGURATION) as file:
        assert read_configuration(file.path) == CONFIGURATION
    assert list(tmp_path.iterdir()) == []  # a run without a line leaves nothing
    assert CONFIGURATION.refusal(replace(CONFIGURATION, started="later", bench="elsewhere")) is None
    refusal = CONFIGURATION.refusal(replace(CONFIGURATION, thinking="high"))
    assert refusal == "this run was made with thinking = nothing, and now it would be high"


def test_a_line_written_just_before_an_interrupt_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Prediction) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Prediction, "summary", interrupt)  # it runs after the line is on disk
    with pytest.raises(KeyboardInterrupt), RunFile(tmp_path, "run", CONFIGURATION) as file:
        file.append(PREDICTIONS[0])
    monkeypatch.undo()
    with RunFile(tmp_path, "run", CONFIGURATION) as again:
        assert set(again.finished) == {"q0"}


def test_errors_are_moved_once_though_a_kill_came_in_between_and_no_other_process_gets_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_all(tmp_path)

    def killed(*_: object) -> None:
        with pytest.raises(InputError, match="another process is writing there"):
            JsonlAppender(path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, RunFile(tmp_path, "run", CONFIGURATION) as file:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            file.forget_errors()
    with RunFile(tmp_path, "run", CONFIGURATION) as again:
        assert set(again.finished) == {"q0", "q1", "q2", "q3"}
        again.forget_errors()
        again.append(replace(PREDICTIONS[1], error=None))
        assert [each.question_id for each in again.retried] == ["q1"]
    assert [each.question_id for each in read_retried(path)] == ["q1"]
    assert [each.question_id for _, each in read_predictions(path)] == ["q0", "q2", "q3", "q1"]


def test_a_run_of_errors_alone_begins_anew(tmp_path: Path) -> None:
    with RunFile(tmp_path, "run", CONFIGURATION) as file:
        file.append(PREDICTIONS[1])
        file.forget_errors()
        assert (file.finished, len(file.retried)) == ({}, 1)


def test_a_run_that_cannot_begin_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Unable to serialize"):
        RunFile(tmp_path, "run", replace(CONFIGURATION, extra={"own": object()}))
    assert list(tmp_path.iterdir()) == []
