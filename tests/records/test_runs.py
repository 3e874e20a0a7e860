"""Runs as they come from files, what they are called, and what a bench says of itself."""

import json
from pathlib import Path

import pytest

from trace_ves.core import InputError, Interval, Question
from trace_ves.core.jsonl import PROGRESS_LINES
from trace_ves.records import Item, Prediction
from trace_ves.records.run_file import (
    Reconstruction,
    Run,
    RunConfiguration,
    distinct_names,
    frame_times_word,
    read_configuration,
    read_predictions,
    write_configuration,
)
from trace_ves.ves import audit, load_run, load_runs
from trace_ves.ves.audit import summarise


def written(path: Path, *lines: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps({"timestamps": [], "answer": "A"} | line) + "\n" for line in lines))
    return path


def item(name: str, evidence: tuple[Interval, ...], *, family: str, video: str = "v", duration: float = 100.0) -> Item:
    return Item(Question(name, video, "?", ("x", "y"), family), "A", evidence, duration)


# --- names --------------------------------------------------------------------------------------


def test_a_run_is_named_after_its_method_or_else_after_its_file(tmp_path: Path) -> None:
    both = {"method": "m", "backbone": "b"}
    same = load_run(written(tmp_path / "a.jsonl", {"question_id": "q1"} | both, {"question_id": "q2"} | both))
    other = {"question_id": "q2", "method": "n", "backbone": "c"}
    mixed = load_run(written(tmp_path / "b.jsonl", {"question_id": "q1"} | both, other))
    assert [(run.name, run.method, run.backbone) for run in (same, mixed)] == [("m", "m", "b"), ("b", "", "")]


def test_runs_of_one_method_are_told_apart_by_backbone_then_file_then_path(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    line = {"question_id": "q1", "method": "m"}
    by_backbone = [written(tmp_path / f"{name}.jsonl", line | {"backbone": name}) for name in ("glance", "lab")]
    assert [run.name for run in load_runs(by_backbone)] == ["m (glance)", "m (lab)"]
    by_file = [written(tmp_path / f"{name}.jsonl", line) for name in ("one", "two")]
    assert [run.name for run in load_runs(by_file)] == ["m (one)", "m (two)"]
    by_path = [written(tmp_path / folder / "one.jsonl", line) for folder in "xy"]
    assert [run.name for run in load_runs(by_path)] == [f"m (one) ({path})" for path in by_path]
    alone = [written(tmp_path / "alone.jsonl", {"question_id": "q1", "method": "other"}), *by_file]
    assert [run.name for run in load_runs(alone)] == ["other", "m (one)", "m (two)"]


def test_a_plain_list_of_predictions_is_one_run_named_after_its_method() -> None:
    items = [item("a", (Interval(1, 2),), family="f")]
    for method, name in (("mine", "mine"), ("", "run")):
        report = audit(items, [Prediction("a", "A", (1.5,), 1, method=method)], resamples=1)
        assert [(run.name, run.method) for run in report.runs] == [(name, name)]


def test_the_same_run_twice_is_refused(tmp_path: Path) -> None:
    run = written(tmp_path / "a.jsonl", {"question_id": "q1", "method": "m"})
    with pytest.raises(InputError, match="two runs are named 'm"):
        load_runs([run, run])
    with pytest.raises(InputError, match="two runs are named 'm'; give each run once"):
        distinct_names([Run("m", ()), Run("m", ())])


# --- files --------------------------------------------------------------------------------------


def test_a_folder_is_its_run_files_in_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        written(tmp_path / f"{name}.jsonl", {"question_id": "q1", "method": name})
    (tmp_path / "a.run.toml").write_text("")
    assert [run.name for run in load_runs([tmp_path])] == ["a", "b"]


def test_a_folder_without_a_run_and_a_file_without_a_line_are_told_of(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no run in this folder; a run is a file that ends with \.jsonl"):
        load_runs([tmp_path])
    with pytest.raises(InputError, match=r"a\.jsonl: no prediction in this file"):
        load_run(written(tmp_path / "a.jsonl"))


def test_a_cut_last_line_is_a_warning_that_ends_as_a_sentence(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"question_id": "q1"})
    with path.open("a") as file:
        file.write('{"question_id": "q2", "ans')
    run = load_run(path)
    assert [prediction.question_id for prediction in run.predictions] == ["q1"]
    [warning] = run.warnings
    assert warning.endswith(".")
    assert not warning.endswith("..")


# --- reconstructed timestamps -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exact", "word"), [({True}, "video"), ({False}, "29.97fps"), ({True, False}, "video+29.97fps"), (set(), "")]
)
def test_where_frame_times_came_from_is_said(exact: set[bool], word: str) -> None:
    assert frame_times_word(frozenset(exact), 29.97) == word
    assert Reconstruction("linspace-32", frozenset(exact)).described(29.97) == f"linspace-32 on {word}"


def test_a_report_says_which_timestamps_were_not_logged() -> None:
    items = [item("a", (Interval(1, 2),), family="f")]
    lines = [Prediction("a", "A", (1.5,), 1)]
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
    sampled = audit(items, samplers=["linspace-8"], resamples=1)
    assert "|frames-of:30fps|" in sampled.signature


# --- the bench's own numbers --------------------------------------------------------------------


def test_families_are_those_of_the_questions_that_are_measured() -> None:
    items = [
        item("a", (Interval(10, 30),), family="counting"),
        item("b", (Interval(10, 20), Interval(50, 60)), family="ordering", video="w", duration=50.0),
        item("c", (), family="counting", video="w", duration=50.0),
        item("d", (), family="zoo", video="x", duration=float("nan")),
    ]
    found = summarise(items)
    assert found.families == {"counting": 1, "ordering": 1}
    assert (found.questions, found.measured, found.videos) == (4, 2, 3)
    assert found.mean_duration == 75.0
    assert (found.mean_intervals, found.mean_interval_length) == (1.5, pytest.approx(40 / 3))


def test_without_evidence_every_question_counts_and_nothing_else_is_known() -> None:
    found = summarise([item("a", (), family="counting"), item("b", (), family="ordering", duration=float("nan"))])
    assert found.families == {"counting": 1, "ordering": 1}
    assert (found.measured, found.ep_ref, found.mean_intervals, found.mean_interval_length) == (0, None, None, None)


def test_the_paper_has_a_thousand_resamples_and_the_density_two() -> None:
    signature = audit([item("a", (Interval(1, 2),), family="f")], samplers=["uniform-4"]).signature
    assert {"k:2", "resamples:1000", "seed:0"} <= set(signature.split("|"))


@pytest.mark.parametrize(("name", "least"), [("k", 1), ("resamples", 1), ("seed", 0)])
def test_the_least_of_each_number_is_allowed_and_less_is_not(name: str, least: int) -> None:
    items, runs = [item("a", (Interval(1, 2),), family="f")], {"m": [Prediction("a", "A", (1.5,), 1)]}
    options = {"k": 1, "resamples": 2, "seed": 0}
    assert audit(items, runs, **(options | {name: least})).run("m").metrics["Acc"] == 100
    with pytest.raises(InputError, match=rf"^{name} must be at least {least}, got {least - 1}\.$"):
        audit(items, runs, **(options | {name: least - 1}))


def test_a_configuration_is_written_as_it_is_read_by_people(tmp_path: Path) -> None:
    write_configuration(tmp_path / "a.jsonl", RunConfiguration(method="é", budget=8))
    assert (tmp_path / "a.run.toml").read_text(encoding="utf-8") == (
        "# Written by trace-ves run. The run beside this file continues under this configuration only.\n"
        'method = "é"\nbudget = 8\n'
    )
    assert read_configuration(tmp_path / "a.jsonl") == RunConfiguration(method="é", budget=8)


def test_readers_of_a_run_hear_how_far_they_are(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", *({"question_id": f"q{number}"} for number in range(PROGRESS_LINES)))
    heard: list[tuple[int, int]] = []
    numbers = [number for number, _ in read_predictions(path, on_progress=lambda *far: heard.append(far))]
    assert numbers == list(range(1, PROGRESS_LINES + 1))
    assert heard[-1] == (path.stat().st_size, path.stat().st_size)
