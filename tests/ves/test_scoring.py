"""Columns, batches and workers give the rows, the figures and the words that one prediction after another gives."""

from __future__ import annotations

import io
import json
import os
import random
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_ves.benches import load_bench, scan_bench
from trace_ves.core import FormatError, InputError, Interval, Question, TraceVesError
from trace_ves.core.schedules import FrameTimes, schedule
from trace_ves.records import Item, Prediction
from trace_ves.records.item_table import ItemTable, Texts
from trace_ves.records.runs import Run
from trace_ves.ves import audit, coverage, load_runs, row_table, score_files, scoring, scoring_worker, scoring_workers
from trace_ves.ves.rows import row_of_prediction, row_of_sampler, row_of_schedule
from trace_ves.ves.samplers import SamplerRows
from trace_ves.ves.scoring import IdIndex
from trace_ves.ves.scoring_files import _worth

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES = st.integers(0, 30).map(lambda half: half / 2)
EVIDENCE = st.lists(st.tuples(TIMES, TIMES).filter(lambda pair: pair[0] != pair[1]).map(sorted), max_size=4)


def item(name: str, evidence: Any = ((1, 4),), *, video: str = "v", duration: float = 15.0) -> Item:
    return Item(Question(name, video, "?", ("w", "x"), "f"), "A", tuple(Interval(*pair) for pair in evidence), duration)


# --- rows ---------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(EVIDENCE, st.lists(TIMES, max_size=8)), min_size=1, max_size=8), st.sampled_from([1, 3, 1024])
)
@settings(deadline=None, max_examples=80)
def test_a_batch_has_the_rows_of_its_predictions(cases: list[Any], widest: int) -> None:
    items = [item(f"q{at}", evidence) for at, (evidence, _) in enumerate(cases)]
    predictions = [Prediction(f"q{at}", "A", tuple(times), len(times) + 1) for at, (_, times) in enumerate(cases)]
    before = coverage.WIDEST, coverage.MOST_INTERVALS
    coverage.WIDEST = coverage.MOST_INTERVALS = widest  # type: ignore[misc]
    try:
        rows = audit(items, {"run": predictions}, resamples=1).runs[0].rows
    finally:
        coverage.WIDEST, coverage.MOST_INTERVALS = before  # type: ignore[misc]
    assert list(rows) == [row_of_prediction(*pair) for pair in zip(items, predictions, strict=True)]


@pytest.mark.parametrize("batch_frames", [1, 40, 500_000])
def test_schedules_have_the_rows_of_their_frames(monkeypatch: pytest.MonkeyPatch, batch_frames: int) -> None:
    monkeypatch.setattr("trace_ves.ves.samplers.BATCH_FRAMES", batch_frames)
    items = [item(f"q{at}", [(at, at + 3.3), (at + 1, at + 7)], duration=20 + at / 3) for at in range(9)]
    items.append(item("q9", [(0, 2), (18, 20)], duration=20))  # both ends of the video
    found = SamplerRows(ItemTable.of(items), lambda each: FrameTimes.assumed(each.duration, 3.0)).of(
        [7, "linspace-5", "step-4"], taken=()
    )
    assert list(found["uniform-7"]) == [row_of_sampler(each, 7) for each in items]
    for name in ("linspace-5", "step-4"):
        times = [schedule(name).timestamps(FrameTimes.assumed(each.duration, 3.0)) for each in items]
        assert list(found[name]) == [row_of_schedule(*pair) for pair in zip(items, times, strict=True)]


@pytest.mark.parametrize(("batch_frames", "of_times"), [(14, [2, 2, 2, 2]), (15, [3, 3, 2])])
def test_schedules_are_counted_about_so_many_frames_at_a_time(
    batch_frames: int, of_times: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trace_ves.ves.samplers.BATCH_FRAMES", batch_frames)
    counted, batches = SamplerRows._counted, []

    def noting(self: SamplerRows, start: int, moments: Any, counts: Any) -> Any:
        batches.append(counts.tolist())
        return counted(self, start, moments, counts)

    monkeypatch.setattr(SamplerRows, "_counted", noting)
    table = ItemTable.of(item(f"q{at}") for at in range(8))
    SamplerRows(table, lambda each: FrameTimes.assumed(each.duration, 3.0)).of([7, "linspace-7", 16], taken=())
    assert batches == [*([7, 7] for _ in range(4)), *([7] * count for count in of_times), *([16] for _ in range(8))]


def test_rows_are_a_sequence_and_are_kept_small() -> None:
    items = [item(name) for name in ("a", "b", "c")]
    rows = (
        audit(items, {"run": [Prediction("b", "A", (2.0, 2.0, 9.0), 300, termination="end")]}, resamples=1).runs[0].rows
    )
    assert (len(rows), rows[1], rows[-2], rows[:1]) == (3, list(rows)[1], rows[1], [rows[0]])
    assert rows[1] == row_of_prediction(items[1], Prediction("b", "A", (2.0, 2.0, 9.0), 300, termination="end"))
    assert rows == tuple(rows)
    assert rows != tuple(rows)[:2]
    assert rows != [rows[0], rows[1], rows[1]]
    assert (rows == 3) is False
    assert (rows.frames_supplied.dtype, rows.density.dtype) == (np.uint16, np.uint8)
    assert rows.correct.dtype == np.int8
    with pytest.raises(IndexError):
        rows[3]
    huge = audit(items[:1], {"run": [Prediction("a", "A", (), 2**60)]}, resamples=1).runs[0].rows
    assert (huge[0].frames_supplied, huge.frames_supplied.dtype) == (2**60, np.float64)


def test_a_part_of_rows_has_their_numbers_and_no_ids() -> None:
    items = [item(name) for name in ("a", "b", "c")]
    lines = [Prediction(name, "A", (1.0, 2.0, 9.0)[:count], 3) for name, count in (("a", 1), ("b", 2), ("c", 3))]
    rows = audit(items, {"run": lines}, resamples=1).runs[0].rows
    for part in (rows.within(1, 3), rows.where(np.array([False, True, True]))):
        assert (len(part), part.ids) == (2, ())
        assert part.frames_distinct.tolist() == [2, 3]


# --- the table of a bench -----------------------------------------------------------------------


def test_a_table_has_its_items_in_order_and_stands_in_files(tmp_path: Path) -> None:
    items = [item("é", [(1, 2), (5, 9)], video="w"), item("a", []), item("b", [(3, 4)], duration=9.0)]
    table = ItemTable.of(replace(each, duration_precision=2.0) for each in items)
    table.save(tmp_path)
    for found in (table, ItemTable.load(tmp_path)):
        assert list(found.ids) == found.ids[:] == ["a", "b", "é"]
        bare = [replace(each.question, text="", options=("", "")) for each in (items[1], items[2], items[0])]
        assert [each.question for each in found.bare_items()] == bare
        assert found.bare_item(2).evidence == items[0].evidence
        assert found.bare_item(1).slack_seconds == 2.0


def test_ids_are_found_even_where_two_have_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ItemTable.of(item(name) for name in ("a", "b", "c"))
    assert IdIndex(table).find(["c", "d", "a"]).tolist() == [2, -1, 0]
    monkeypatch.setattr(scoring, "hash", lambda name: ord(name[0]), raising=False)
    assert IdIndex(table).find(["bb", "b", "cc", "aa", "a"]).tolist() == [
        -1,
        1,
        -1,
        -1,
        0,
    ]  # the hash of one that is there
    monkeypatch.setattr(scoring, "hash", lambda _: 7, raising=False)
    assert IdIndex(table).find(["c", "d", "a"]).tolist() == [2, -1, 0]


def test_texts_are_what_they_were() -> None:
    words = ["", "é", "a\0", "a", "\ud800"]
    assert list(Texts.of(words)) == [Texts.of(words)[at] for at in range(5)] == words


# --- files --------------------------------------------------------------------------------------


def world(folder: Path, *, seed: int = 0, questions: int = 40, runs: int = 3) -> Path:
    rng = random.Random(seed)
    lines = []
    for at in range(questions):
        evidence = [[start := rng.randint(0, 80), start + 9] for _ in range(rng.randint(1, 4))]
        if at == 7:
            evidence = [[9, 8]]  # left out
        lines.append(
            {"id": f"q{at}", "video": f"v{at // 3}", "duration": 100, "question": "?", "options": ["x", "y", "z"]}
            | {
                "answer": rng.choice("ABC"),
                "family": rng.choice("fg"),
                "evidence": evidence,
                "domain": rng.choice("xy"),
            }
        )
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "runs").mkdir()
    for number in range(runs):
        answered = rng.sample(range(questions), questions - number)
        made = [
            {"question_id": f"q{at}", "answer": rng.choice(["A", " b", None]), "method": f"m{number % 2}"}
            | {"timestamps": [rng.randint(0, 100) for _ in range(rng.randint(0, 20))], "error": None if at % 9 else "x"}
            | {"observations": [{"stage": rng.choice("st"), "timestamps": [1, 2]}], "frames_supplied": 30}
            | {"termination": "exhausted" if at % 2 else "stable-prefix-found"}
            for at in answered
        ]
        text = "".join(json.dumps(line) + "\n" for line in made)
        (folder / f"runs/r{number}.jsonl").write_text(text + '{"question_id": "q1", "ans' * (number == 2))
    return folder


@pytest.mark.parametrize(("workers", "batch"), [(1, 1), (1, 7), (1, 1024), (2, 1024)])
def test_files_give_the_report_of_what_is_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, batch: int
) -> None:
    monkeypatch.setattr(scoring, "BATCH", batch)
    folder = world(tmp_path)
    bench, scan = load_bench(folder), scan_bench(folder)
    heard: list[tuple[str, int, int]] = []
    scored = score_files(
        scan.table,
        [folder / "runs"],
        left_out=scan.left_out,
        workers=workers,
        on_progress=lambda *said: heard.append(said),
    )
    in_memory = audit(bench.items, load_runs([folder / "runs"]), left_out=bench.left_out, samplers=[4], resamples=20)
    streamed = audit(scan.table, scored, left_out=scan.left_out, samplers=[4], resamples=20)
    assert streamed.to_json() == in_memory.to_json()
    assert [list(run.rows) for run in streamed.runs] == [list(run.rows) for run in in_memory.runs]
    assert (scan.warnings, scan.left_out) == (bench.warnings, bench.left_out)
    assert list(scan.video_files()) == bench.video_files()
    sizes = [path.stat().st_size for path in sorted((folder / "runs").iterdir())]
    assert heard[-1][1:] == ((sum(sizes),) * 2 if workers == 2 else (sizes[-1],) * 2)


def test_a_run_without_a_fault_is_counted_batch_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(*_: object) -> None:
        raise AssertionError("counted one by one, which takes ten times as long")

    monkeypatch.setattr(scoring.Scorer, "_count_one", alone)
    count, sizes = scoring.Scorer._count, []

    def noting(self: scoring.Scorer, positions: list[int], lines: list[Any]) -> bool:
        sizes.append(len(lines))
        return count(self, positions, lines)

    monkeypatch.setattr(scoring.Scorer, "_count", noting)
    folder = world(tmp_path)
    scan = scan_bench(folder)
    for batch, expected in ((1, [1] * 40), (3, [3] * 13 + [1]), (1024, [40])):
        monkeypatch.setattr(scoring, "BATCH", batch)
        sizes.clear()
        scored = score_files(scan.table, [folder / "runs"], left_out=scan.left_out)
        assert [(run.left_out, run.missing) for run in scored] == [(1, 0), (1, 1), (1, 2)]
        assert sizes[: len(expected)] == expected
    last = audit([item("a")], {"run": [Prediction("a", "A", (16.0,), 1)]}, resamples=1)  # the end, and a second's slack
    assert last.runs[0].rows[0].frames_distinct == 1


def test_one_by_one_gives_what_a_batch_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = world(tmp_path)
    scan = scan_bench(folder)

    def report() -> dict[str, object]:
        scored = score_files(scan.table, [folder / "runs"], left_out=scan.left_out)
        return audit(scan.table, scored, resamples=5).to_json() | {"rows": [list(run.rows) for run in scored]}

    at_once = report()
    monkeypatch.setattr(scoring.Scorer, "_count", lambda *_: False)
    assert report() == at_once


def test_missing_questions_are_named_up_to_three() -> None:
    items = [item(name) for name in "abcde"]
    for predicted, examples in (("de", "a, b, c"), ("e", "a, b, c, …")):
        [warning] = audit(items, {"run": [Prediction(name, "A") for name in predicted]}, resamples=1).warnings
        told = f"run: {5 - len(predicted)} of 5 questions have no prediction and count as wrong and unobserved"
        assert warning == f"{told} ({examples})."
    lines = [Prediction(name, "A", error="down" if name < "c" else None) for name in "abcde"]
    for run, told in ((Run("mine", lines), "mine"), (Run("mine", lines, Path("a.jsonl"), range(5)), "a.jsonl")):
        assert audit(items, [run], resamples=1).warnings == (
            f"{told}: 2 predictions carry an error of the method's own.",
        )
    unknown = scoring.ScoredRun("run", row_table.RowTable.empty())
    assert (unknown.warnings, unknown.unanswered) == ([], 0)


def test_a_worker_answers_line_by_line_with_rows_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = world(tmp_path)
    scan, shared = scan_bench(folder), tmp_path / "shared"
    shared.mkdir()
    scan.table.save(shared)
    (shared / scoring_workers.LEFT_OUT).write_text(json.dumps(sorted(scan.left_out)))
    wrong, broken = folder / "wrong.jsonl", folder / "broken.jsonl"
    wrong.write_text('{"question_id": "nobody", "answer": "A", "timestamps": []}\n')
    broken.write_text("{}\n{\n")
    files = [folder / "runs/r0.jsonl", wrong, broken, folder / "absent.jsonl"]
    monkeypatch.setattr("sys.stdin", [json.dumps(str(file)) for file in files])
    handler = signal.getsignal(signal.SIGINT)
    try:
        scoring_worker.main(shared)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # Ctrl-C is for whoever started it
    finally:
        signal.signal(signal.SIGINT, handler)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["done"] for each in told if "done" in each] == [files[0].stat().st_size, wrong.stat().st_size]
    first, second, third, fourth = (each for each in told if "done" not in each)
    [expected] = score_files(scan.table, files[:1], left_out=scan.left_out)
    assert (first["refusal"], tuple(first["terminations"])) == (None, expected.rows.terminations)
    assert first["run"] == json.loads(json.dumps({name: getattr(expected, name) for name in first["run"]}))
    for name in row_table.COLUMNS:
        assert np.array_equal(np.load(shared / first["rows"] / f"{name}.npy"), getattr(expected.rows, name))
    assert (second["refusal"]["line"], second["run"]["missing"]) == (1, 40 - 1)
    assert third["unreadable"]["message"].startswith(f"{broken}:1: ")
    assert fourth["unreadable"] == {"message": f"{files[3]}: cannot be read: No such file or directory.", "line": None}


def test_a_worker_keeps_no_line_back(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(pipe))
    scoring_worker._tell({"done": 3})
    assert pipe.getvalue() == b'{"done": 3}\n'


def test_a_worker_says_how_far_it_is_a_few_times_a_second_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [100.0]
    monkeypatch.setattr(scoring_worker.time, "monotonic", lambda: clock[0])
    report = scoring_worker._Progress()
    for done, clock[0] in enumerate((100.1, 100.25, 100.4, 100.5, 100.51), start=1):
        report(done, 5)
    assert [json.loads(line)["done"] for line in capsys.readouterr().out.splitlines()] == [2, 4, 5]


FAULTS: dict[str, Callable[[list[str]], list[str]]] = {
    "twice": lambda lines: [*lines, lines[0]],
    "twice, and left out": lambda lines: [*lines, *[line for line in lines if '"q7"' in line]],
    "unknown": lambda lines: [*lines[:5], lines[0].replace('"q', '"z'), *lines],
    "no option": lambda lines: [*lines[:9], lines[9].replace('"answer": ', '"answer": "Z", "before": ')],
    "outside": lambda lines: [*lines[:9], lines[9].replace('"timestamps": [', '"timestamps": [101.5, ', 1)],
    "negative": lambda lines: [*lines[:9], lines[9].replace('"timestamps": [', '"timestamps": [-1, ', 1)],
    "too few": lambda lines: [line.replace(": 30", ": 0") for line in lines],
    "too many": lambda lines: [line.replace(": 30", f": 1{'0' * 400}") for line in lines],
    "broken": lambda lines: [*lines[:3], "{", *lines[3:]],
    "wrong type": lambda lines: [*lines[:3], lines[3].replace('"method": ', '"method": 3, "n": ')],
    "broken after a wrong answer": lambda lines: [lines[0].replace('"answer": ', '"answer": "Z", "n": '), "{"],
    "empty": lambda _: [],
}


@pytest.mark.parametrize(("fault", "workers"), [*((fault, 1) for fault in FAULTS), ("twice", 2), ("empty", 2)])
def test_what_is_wrong_is_said_in_the_same_words(tmp_path: Path, fault: str, workers: int) -> None:
    folder = world(tmp_path)
    path = folder / "runs/r1.jsonl"
    lines = [line for line in path.read_text().splitlines() if 'timestamps": []' not in line]
    path.write_text("\n".join(FAULTS[fault](lines)))
    bench, scan = load_bench(folder), scan_bench(folder)

    def by_objects() -> None:
        audit(bench.items, load_runs([folder / "runs"]), left_out=bench.left_out, resamples=1)

    with pytest.raises(InputError) as expected:
        by_objects()
    with pytest.raises(InputError) as found:
        score_files(scan.table, [folder / "runs"], left_out=scan.left_out, workers=workers)
    assert str(found.value) == str(expected.value)
    assert type(found.value) is type(expected.value)
    assert getattr(found.value, "line", None) == getattr(expected.value, "line", None)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_line_that_cannot_be_read_comes_before_a_prediction_that_cannot_be(tmp_path: Path, workers: int) -> None:
    folder = world(tmp_path)
    first, last = folder / "runs/r0.jsonl", folder / "runs/r1.jsonl"
    first.write_text('{"question_id": "nobody", "answer": "A", "timestamps": []}\n')
    last.write_text('{"question_id": "q1"}\n')
    table = scan_bench(folder).table
    with pytest.raises(FormatError, match=r"r1\.jsonl:1: the key 'timestamps' is missing"):
        score_files(table, [first, last], workers=workers)
    last.unlink()
    with pytest.raises(InputError, match=r"r1\.jsonl: cannot be read: No such file"):
        score_files(table, [first, last], workers=workers)


def test_a_question_that_is_predicted_twice_is_found_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "BATCH", 1)
    for name, left_out in (("a", frozenset()), ("gone", frozenset({"gone"}))):
        lines = [Prediction(name, "A"), Prediction("b", "A"), Prediction(name, "A")]
        with pytest.raises(InputError, match=rf"'{name}' was already predicted in prediction 1; keep one of the two"):
            audit([item("a"), item("b")], {"run": lines}, resamples=1, left_out=left_out)


def test_a_worker_finds_this_package_before_what_the_caller_put_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[dict[str, Any]] = []
    monkeypatch.setattr(scoring_workers.subprocess, "Popen", lambda *_, **options: started.append(options))
    home = str(Path(scoring_workers.__file__).parents[2])
    table = ItemTable.of([item("a")])
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    scoring_workers._Worker(tmp_path, table)
    monkeypatch.delenv("PYTHONPATH")
    scoring_workers._Worker(tmp_path, table)
    assert [each["env"]["PYTHONPATH"] for each in started] == [f"{home}{os.pathsep}elsewhere", home]
    assert {each["env"]["OPENBLAS_NUM_THREADS"] for each in started} == {"1"}


def test_progress_of_several_files_is_told_as_one(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "b", "absent")]
    for file in files[:2]:
        file.write_bytes(b"x" * 10)
    heard: list[tuple[str, int, int]] = []
    queue = scoring_workers._Queue(files, lambda *told: heard.append(told))
    for at, done in ((0, 4), (1, 10), (0, 10)):
        queue._report(at, done)
    assert heard == [("reading 3 runs", done, 20) for done in (4, 14, 20)]


def test_a_worker_that_is_killed_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = world(tmp_path)
    monkeypatch.setattr(scoring_workers.sys, "executable", "/bin/false")
    with pytest.raises(TraceVesError, match=r"r0\.jsonl: the process that read it ended without a result \(status 1\)"):
        score_files(scan_bench(folder).table, [folder / "runs"], workers=2)


MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("sizes", "processors", "workers"),
    [
        ([65 * MEBIBYTE], 2, 2),
        ([40 * MEBIBYTE, None, 25 * MEBIBYTE], 3, 3),  # a file that is not there has no size
        ([65 * MEBIBYTE], 64, 4),  # more would take more memory than they are worth
        ([65 * MEBIBYTE], None, 1),
        ([64 * MEBIBYTE, None], 64, 1),
        ([32 * MEBIBYTE + 1, 32 * MEBIBYTE], 64, 4),
    ],
)
def test_large_files_are_worth_a_process_for_each_processor_up_to_four(
    sizes: list[int | None], processors: int | None, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / f"{number}.jsonl" for number in range(len(sizes))]
    for file, size in zip(files, sizes, strict=True):
        if size is not None:
            file.touch()
            os.truncate(file, size)  # without taking the space
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    assert _worth(files) == workers


def test_an_empty_table_of_rows_has_every_column() -> None:
    assert len(row_table.RowTable.empty()) == 0
    assert list(row_table.RowTable.empty()) == []
    assert row_table.RowTable.empty().packed() == []
