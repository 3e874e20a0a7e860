"""Runs in memory and in files are scored alike, schedules like predictions; faults and runs that are alike are said."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trace_ves.benches import load_bench
from trace_ves.core import InputError, Interval, Question
from trace_ves.core.schedules import FrameTimes, parse_schedule
from trace_ves.records import Item, Prediction
from trace_ves.records.run_file import Reconstruction, Run
from trace_ves.ves import audit, load_runs, score_files
from trace_ves.ves.rows import AuditRow, ScoredRun, row_of_prediction, row_of_sampler, row_of_schedule, score_samplers


def item(name: str, evidence: Any = ((1, 4),), *, video: str = "v", duration: float = 15.0) -> Item:
    return Item(Question(name, video, "?", ("w", "x"), "f"), "A", tuple(Interval(*pair) for pair in evidence), duration)


# --- schedules ----------------------------------------------------------------------------------


def test_schedules_have_the_rows_of_their_frames() -> None:
    items = [item(f"q{at}", [(at, at + 3.3), (at + 1, at + 7)], duration=20 + at / 3) for at in range(9)]
    items.append(item("q9", [(0, 2), (18, 20)], duration=20))  # both ends of the video
    samplers = [7, "linspace-5", "step-4"]
    found, _ = score_samplers(items, samplers, lambda each: FrameTimes.assumed(each.duration, 3.0))
    assert found["uniform-7"] == [row_of_sampler(each, 7) for each in items]
    for name in ("linspace-5", "step-4"):
        times = [parse_schedule(name).timestamps(FrameTimes.assumed(each.duration, 3.0)) for each in items]
        predictions = [
            Prediction(each.question.id, None, own, len(own)) for each, own in zip(items, times, strict=True)
        ]
        assert found[name] == [row_of_schedule(*pair) for pair in zip(items, times, strict=True)]
        counted = [row_of_prediction(*pair) for pair in zip(items, predictions, strict=True)]
        assert [row.density for row in found[name]] == [row.density for row in counted]
    assert row_of_schedule(item("a"), (2.0, 2.0, 9.0)) == AuditRow("a", None, 3, 2, 1, 1)  # chosen and supplied twice


# --- runs ---------------------------------------------------------------------------------------


def test_rows_stand_in_order_of_ids() -> None:
    items = [item(name) for name in ("c", "a", "b")]
    line = Prediction("b", "A", (2.0, 2.0, 9.0), 300, termination="end")
    rows = audit(items, {"run": [line]}, resamples=1).runs[0].rows
    assert [row.question_id for row in rows] == ["a", "b", "c"]
    assert rows[1] == row_of_prediction(items[2], line) == AuditRow("b", True, 300, 2, 1, 1, "end")


def test_missing_questions_are_named_up_to_three() -> None:
    items = [item(name) for name in "abcde"]
    for predicted, examples in (("de", "a, b, c"), ("e", "a, b, c, …")):
        [warning] = audit(items, {"run": [Prediction(name, "A") for name in predicted]}, resamples=1).warnings
        told = f"run: {5 - len(predicted)} of 5 questions have no prediction and count as wrong and unobserved"
        assert warning == f"{told} ({examples}); of the other {len(predicted)}, 100.0% are correct."
    lines = [Prediction(name, "A", error="down" if name < "c" else None) for name in "abcde"]
    for run in (Run("mine", lines), Run("mine", lines, Path("a.jsonl"), range(5))):
        [warning] = audit(items, [run], resamples=1).warnings
        assert warning == "mine: 2 predictions have an error raised by the method."
    for scans, count in ((2, 0), (3, 1)):  # of five questions, one of which has no prediction
        extra = [{"recorded": {"scan": True}} if at < scans else {} for at in range(4)]
        lines = [Prediction(name, "A", extra=each) for name, each in zip("abcd", extra, strict=True)]
        warnings = audit(items, {"run": [*lines, Prediction("z", "A")]}, left_out=frozenset("z"), resamples=1).warnings
        assert warnings[0] == "run: 1 predictions are for questions that were left out of the bench."
        assert len(warnings[2:]) == count
        assert all(f"most recorded looks ({scans} questions) read consecutive" in each for each in warnings[2:])
    unknown = ScoredRun("run", [])
    assert (unknown.warnings, unknown.unanswered) == ([], 0)


def test_an_open_answer_is_right_in_any_accepted_wording_and_a_log_says_by_which_rule_it_was_read() -> None:
    asked = [
        Item(Question(f"q{at}", "v", "?"), "The red car", (), 15.0, accepted=("an automobile",)) for at in range(4)
    ]
    said = ("red car!", "Automobile", "a blue car", None)
    lines = [Prediction(f"q{at}", words, extra={"read_by": "text"} if at else {}) for at, words in enumerate(said)]
    [run] = audit(asked, {"log": lines}, resamples=1).runs
    assert [row.correct for row in run.rows] == [True, True, False, False]
    assert run.read_by == {"text": 3}


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
            | {"answer": rng.choice("ABC"), "family": rng.choice("fg"), "domain": rng.choice("xy")}
            | {"evidence": evidence}
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


def test_files_give_the_report_of_what_is_in_them(tmp_path: Path) -> None:
    folder = world(tmp_path)
    bench = load_bench(folder)
    heard: list[tuple[str, int, int]] = []
    scored = score_files(
        bench.items, [folder / "runs"], left_out=bench.left_out, on_progress=lambda *said: heard.append(said)
    )
    in_memory = audit(bench.items, load_runs([folder / "runs"]), left_out=bench.left_out, samplers=[4], resamples=20)
    streamed = audit(bench.items, scored, left_out=bench.left_out, samplers=[4], resamples=20)
    assert streamed == in_memory
    assert [(run.left_out, len(run.missing)) for run in scored] == [(1, 0), (1, 1), (1, 2)]
    size = (folder / "runs/r2.jsonl").stat().st_size
    assert heard[-1] == ("reading r2.jsonl", size, size)


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
    "empty": lambda _: [],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_is_said_in_the_same_words(tmp_path: Path, fault: str) -> None:
    folder = world(tmp_path)
    path = folder / "runs/r1.jsonl"
    lines = [line for line in path.read_text().splitlines() if 'timestamps": []' not in line]
    path.write_text("\n".join(FAULTS[fault](lines)))
    bench = load_bench(folder)
    with pytest.raises(InputError) as found:
        score_files(bench.items, [folder / "runs"], left_out=bench.left_out)
    with pytest.raises(InputError) as expected:
        audit(bench.items, load_runs([folder / "runs"]), left_out=bench.left_out, resamples=1)
    assert str(found.value) == str(expected.value)
    assert str(found.value).startswith(f"{path}:" if fault != "empty" else f"{path}: no prediction in this file")
    assert type(found.value) is type(expected.value)


# --- runs that are alike, and frames that ignore the question ---

QUESTIONS = 200
ITEMS = [
    Item(Question(f"q{n:03}", f"v{n % 20}.mp4", "?", ("w", "x", "y", "z")), "A", (), 1000.0) for n in range(QUESTIONS)
]


def run(seed: int, *, response: bool = True, frames: int = 0, changed: int = 0) -> list[Prediction]:
    """Answers that depend on the seed; the first `changed` are different, the last `frames` have frames."""
    lines = []
    for n, item in enumerate(ITEMS):
        letter = "ABCD"[(n * seed + (n < changed)) % 4]
        seen = (float(n % 20), 500.0) if n >= QUESTIONS - frames else ()
        extra: dict[str, object] = {"response": f"{letter}, said {seed}"} if response else {}
        lines.append(Prediction(item.question.id, letter, timestamps=seen, frames_supplied=len(seen), extra=extra))
    return lines


EIGHT = "8 runs (r1, r2, r3, r4, r5, r6, r7, r8), two by two,"


def same(who: str, percent: str, what: str = "response") -> str:
    inputs = "these runs are almost certainly the same inputs"
    return f"{who} gave the same {what} to {percent}% of the questions: {inputs}."


@pytest.mark.parametrize(
    ("runs", "warnings"),
    [
        ({"a": run(1), "b": run(1)}, [same("a and b", "100.0")]),
        ({"a": run(1), "b": run(1, changed=1)}, [same("a and b", "99.5")]),
        ({"a": run(1), "b": run(1, changed=2)}, []),
        ({f"r{n}": run(1, changed=n % 2) for n in range(1, 9)}, [same(EIGHT, "at least 99.5")]),
        ({"r0": run(3), **{f"r{n}": run(1) for n in range(1, 9)}}, [same(EIGHT, "at least 100.0")]),
        ({"a": run(1), "c": run(3), "b": run(1), "d": run(3)}, [same("a and b", "100.0"), same("c and d", "100.0")]),
        ({"a": run(1, response=False), "b": run(1)}, [same("a and b", "100.0", "answer")]),
        ({"a": run(1, frames=19), "b": run(3, frames=19)}, []),  # nineteen questions may agree by chance
        (
            {"a": run(1, frames=40), "b": run(3, frames=40)},
            [
                "a and b looked at the same frames for 100.0% of the questions: the methods do not differ in what the "
                "model was shown.",
                *(
                    f"{name}: all questions about a video were answered from the same frames (20 videos with several "
                    "questions); its frames do not depend on the question."
                    for name in "ab"
                ),
            ],
        ),
    ],
)
def test_similar_runs_are_named_together(runs: dict[str, list[Prediction]], warnings: list[str]) -> None:
    report = audit(ITEMS, runs, resamples=1).to_json()
    assert report["warnings"] == warnings
    assert len(report["agreement"]) == len(runs) * (len(runs) - 1) // 2
    pair = report["agreement"][0]
    assert (pair["a"], pair["b"], pair["questions"]) == (*list(runs)[:2], QUESTIONS)


def alike(count: int, *, response: bool, frames: bool, same_video: bool = False) -> list[str]:
    """The warnings about two runs that agree in every answer, over so many questions."""
    items = [item(f"q{n}", (), video="v" if same_video else f"{n}") for n in range(count)]
    extra = {"response": "A"} if response else {}
    lines = [Prediction(each.question.id, "A", (7.0,) * frames, int(frames), "m", extra=extra) for each in items]
    report = audit(items, {"a": lines, "b": [replace(line, method="n") for line in lines]}, resamples=1)
    return [warning.split(" of the questions")[0] for warning in report.warnings]


def test_fewer_questions_agree_by_chance() -> None:
    assert alike(49, response=False, frames=False) == []
    assert alike(50, response=False, frames=False) == ["a and b gave the same answer to 100.0%"]
    assert alike(19, response=True, frames=True) == []
    assert alike(20, response=True, frames=True) == [
        "a and b gave the same response to 100.0%",
        "a and b looked at the same frames for 100.0%",
    ]
    assert alike(9, response=True, frames=True, same_video=True) == []
    words = "all questions about a video were answered from the same frames (1 videos with several questions)"
    assert alike(10, response=True, frames=True, same_video=True) == [
        f"{name}: {words}; its frames do not depend on the question." for name in "ab"
    ]


def test_frames_that_cannot_depend_on_the_question_are_said_of_no_schedule() -> None:
    items = [item(f"q{n}", (), video="v") for n in range(10)]
    lines = [Prediction(each.question.id, None, (7.0,), 1) for each in items]
    made = Reconstruction("8", frozenset())
    runs = [
        Run("schedule", lines, reconstruction=made),
        Run("selector", [replace(line, extra={"selection": True}) for line in lines], reconstruction=made),
        Run("uniform-1", lines),
        Run("mine", [replace(line, method="random") for line in lines]),
        *(replace(line, method="loose") for line in lines),
    ]
    warnings = [each for each in audit(items, runs, resamples=1).warnings if "same frames (" in each]
    assert [each.partition(":")[0] for each in warnings] == ["selector", "loose"]
