"""Runs that are too similar to be different methods, and runs whose frames ignore the question."""

from dataclasses import replace

import pytest

from trace_ves import Item, Prediction, Question
from trace_ves.ves import audit

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
        (
            {"a": run(1), "c": run(3), "b": run(1), "d": run(3)},
            [same("a and b", "100.0"), same("c and d", "100.0")],
        ),
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
    items = [
        replace(item, question=replace(item.question, video="v" if same_video else f"{n}"))
        for n, item in enumerate(ITEMS)
    ]
    lines = [
        Prediction(
            item.question.id, "A", (7.0,) * frames, int(frames), method="m", extra={"response": "A"} if response else {}
        )
        for item in items[:count]
    ]
    report = audit(items[:count], {"a": lines, "b": [replace(line, method="n") for line in lines]}, resamples=1)
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
