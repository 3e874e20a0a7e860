"""A run file keeps its configuration, every line that was written, and the errors that were asked again.

Runs that are read have names, and an audit says where their timestamps come from and what the bench is.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from trace_ves.core import InputError, Interval, Question
from trace_ves.core.jsonl import PROGRESS_LINES, JsonlAppender
from trace_ves.records import Item, Prediction
from trace_ves.records.run_file import (
    Reconstruction,
    Run,
    RunConfiguration,
    RunFile,
    distinguish_runs,
    name_frame_times,
    read_configuration,
    read_predictions,
    read_retried,
)
from trace_ves.ves import audit, load_run, load_runs
from trace_ves.ves.audit import summarise

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
        assert (
            (tmp_path / "run.run.toml")
            .read_text(encoding="utf-8")
            .startswith(
                "# Written by trace-ves run. The run beside this file continues under this configuration only.\n"
                'trace_ves = "0.1.0"\nmethod = "a \\"quoted\\" naïve\\nname"\nbackbone = "b"\nbudget = 64\n'
            )
        )
    assert list(tmp_path.iterdir()) == []  # a run without a line leaves nothing
    assert CONFIGURATION.explain_difference(replace(CONFIGURATION, started="later", bench="elsewhere")) is None
    refusal = CONFIGURATION.explain_difference(replace(CONFIGURATION, thinking="high"))
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
            file.move_errors()
    with RunFile(tmp_path, "run", CONFIGURATION) as again:
        assert set(again.finished) == {"q0", "q1", "q2", "q3"}
        again.move_errors()
        again.append(replace(PREDICTIONS[1], error=None))
        assert [each.question_id for each in again.retried] == ["q1"]
    assert [each.question_id for each in read_retried(path)] == ["q1"]
    assert [each.question_id for _, each in read_predictions(path)] == ["q0", "q2", "q3", "q1"]


def test_a_run_of_errors_alone_begins_anew(tmp_path: Path) -> None:
    with RunFile(tmp_path, "run", CONFIGURATION) as file:
        file.append(PREDICTIONS[1])
        file.move_errors()
        assert (file.finished, len(file.retried)) == ({}, 1)


def test_a_run_that_cannot_begin_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Unable to serialize"):
        RunFile(tmp_path, "run", replace(CONFIGURATION, extra={"own": object()}))
    assert list(tmp_path.iterdir()) == []


def written(path: Path, *lines: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps({"timestamps": [], "answer": "A"} | line) + "\n" for line in lines))
    return path


def item(name: str, *evidence: tuple[float, float], family: str = "f", video: str = "v", duration: float = 100) -> Item:
    return Item(
        Question(name, video, "?", ("x", "y"), family), "A", tuple(Interval(*each) for each in evidence), duration
    )


def test_a_run_is_named_after_its_method_or_else_after_its_file(tmp_path: Path) -> None:
    one, two = ({"question_id": "q", "method": name, "backbone": name} for name in "mn")
    for lines, expected in (((one, one | {"question_id": "r"}), ("m", "m", "m")), ((one, two), ("a", "", ""))):
        run = load_run(written(tmp_path / "a.jsonl", *lines))
        assert (run.name, run.method, run.backbone) == expected


def test_runs_of_one_method_are_told_apart_by_backbone_then_file_then_path(tmp_path: Path) -> None:
    for folder in "xy":
        (tmp_path / folder).mkdir()
    line = {"question_id": "q1", "method": "m"}
    backbones = [written(tmp_path / f"{name}.jsonl", line | {"backbone": name}) for name in ("glance", "lab")]
    files = [written(tmp_path / f"{name}.jsonl", line) for name in ("one", "two")]
    paths = [written(tmp_path / folder / "one.jsonl", line) for folder in "xy"]
    other = written(tmp_path / "alone.jsonl", line | {"method": "other"})
    for group, names in (
        (backbones, ["m (glance)", "m (lab)"]),
        (files, ["m (one)", "m (two)"]),
        (paths, [f"m (one) ({path})" for path in paths]),
        ([other, *files], ["other", "m (one)", "m (two)"]),
        ([tmp_path / "x", tmp_path / "y"], [f"m (one) ({path})" for path in paths]),  # a folder is its runs
    ):
        assert [run.name for run in load_runs(group)] == names
    with pytest.raises(InputError, match="two runs are named 'm"):
        load_runs([files[0], files[0]])
    with pytest.raises(InputError, match="two runs are named 'm'; give each run once"):
        distinguish_runs([Run("m", ()), Run("m", ())])


def test_a_folder_is_its_run_files_in_order_and_one_without_any_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no run in this folder; a run is a file that ends with \.jsonl"):
        load_runs([tmp_path])
    (tmp_path / "a.run.toml").write_text("")
    for name in ("b", "a"):
        written(tmp_path / f"{name}.jsonl", {"question_id": "q1", "method": name})
    assert [run.name for run in load_runs([tmp_path])] == ["a", "b"]
    with pytest.raises(InputError, match=r"a\.jsonl: no prediction in this file"):
        load_run(written(tmp_path / "a.jsonl"))


def test_a_cut_last_line_is_a_warning_that_ends_as_a_sentence(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"question_id": "q1"})
    path.write_text(path.read_text() + '{"question_id": "q2", "ans')
    run = load_run(path)
    assert [prediction.question_id for prediction in run.predictions] == ["q1"]
    [warning] = run.warnings
    assert re.search(r"[^.]\.$", warning)


@pytest.mark.parametrize(
    ("exact", "word"), [({True}, "video"), ({False}, "29.97fps"), ({True, False}, "video+29.97fps"), (set(), "")]
)
def test_where_frame_times_came_from_is_said(exact: set[bool], word: str) -> None:
    assert name_frame_times(frozenset(exact), 29.97) == word
    assert Reconstruction("linspace-32", frozenset(exact)).describe(29.97) == f"linspace-32 on {word}"


def test_a_report_says_which_timestamps_were_not_logged_and_names_a_plain_list_after_its_method() -> None:
    items, lines = [item("a", (1, 2))], [Prediction("a", "A", (1.5,), 1)]
    runs = [
        Run("logged", lines),
        Run("b", lines, reconstruction=Reconstruction("linspace-8", frozenset({True}))),
        Run("a", lines, reconstruction=Reconstruction("fps-1", frozenset({False}))),
    ]
    report = audit(items, runs, resamples=1, fps=25.0)
    told = {run["name"]: run.get("reconstructed") for run in report.to_json()["runs"]}
    assert told == {"logged": None, "b": "linspace-8 on video", "a": "fps-1 on 25fps"}
    assert "|timestamps:reconstructed(fps-1,linspace-8)|frames-of:video+25fps|" in report.signature
    assert "timestamps" not in audit(items, runs[:1], resamples=1).signature
    sampled = set(audit(items, samplers=["linspace-8"]).signature.split("|"))
    assert sampled >= {"frames-of:30fps", "k:2", "resamples:1000", "seed:0"}  # the paper's numbers
    for method, name in (("mine", "mine"), ("", "run")):
        report = audit(items, [replace(lines[0], method=method)], resamples=1)
        assert [(run.name, run.method) for run in report.runs] == [(name, name)]


def test_families_are_those_of_the_questions_that_are_measured() -> None:
    items = [
        item("a", (10, 30), family="counting"),
        item("b", (10, 20), (50, 60), family="ordering", video="w", duration=50.0),
        item("c", family="counting", video="w", duration=50.0),
        item("d", family="zoo", video="x", duration=float("nan")),
    ]
    found = summarise(items)
    assert found.families == {"counting": 1, "ordering": 1}
    assert (found.questions, found.measured, found.videos, found.mean_duration) == (4, 2, 3, 75.0)
    assert (found.mean_intervals, found.mean_interval_length) == (1.5, pytest.approx(40 / 3))
    bare = summarise(items[2:])  # without evidence every question counts, and nothing else is known
    assert bare.families == {"counting": 1, "zoo": 1}
    assert (bare.measured, bare.ep_ref, bare.mean_intervals, bare.mean_interval_length) == (0, None, None, None)


@pytest.mark.parametrize(("name", "least"), [("k", 1), ("resamples", 1), ("seed", 0)])
def test_the_least_of_each_number_is_allowed_and_less_is_not(name: str, least: int) -> None:
    items, runs = [item("a", (1, 2))], {"m": [Prediction("a", "A", (1.5,), 1)]}
    options = {"k": 1, "resamples": 2, "seed": 0}
    assert audit(items, runs, **(options | {name: least})).run("m").metrics["Acc"] == 100
    with pytest.raises(InputError, match=rf"^{name} must be at least {least}, got {least - 1}\.$"):
        audit(items, runs, **(options | {name: least - 1}))


def test_readers_of_a_run_hear_how_far_they_are(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", *({"question_id": f"q{number}"} for number in range(PROGRESS_LINES)))
    heard: list[tuple[int, int]] = []
    numbers = [number for number, _ in read_predictions(path, on_progress=lambda *far: heard.append(far))]
    assert numbers == list(range(1, PROGRESS_LINES + 1))
    assert heard[-1] == (path.stat().st_size, path.stat().st_size)
