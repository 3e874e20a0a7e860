"""The parts of a run on their own: open videos, names, durations, and the loop that writes lines."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent.test_budget import ClockVideo
from trace_ves.backbone.protocol import ScriptedBackbone
from trace_ves.core import Answer, InputError, Question, Termination
from trace_ves.observer import Observer
from trace_ves.records import Item, ObservationLog, Prediction, Usage
from trace_ves.records.run_file import RunFile
from trace_ves.runs.answering import Job, QuestionTask, RunOptions, TaskResult
from trace_ves.runs.asking import VideoQuestion, answer_text, ask_many, with_question
from trace_ves.runs.cost import CostLimit
from trace_ves.runs.prices import Price, Prices
from trace_ves.runs.run import answer_tasks, configuration
from trace_ves.runs.video_pool import SharedVideo, VideoPool, is_duration


class Opener:
    """Opens videos that are clocks, and counts them."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open_video(self, path: Path) -> ClockVideo:
        self.opened.append(path.name)
        return ClockVideo(60)


def look(pool: VideoPool, name: str, opener: Opener) -> SharedVideo:
    with pool.borrow(name, opener) as video:
        assert video.duration == 60
        return video


def test_as_many_videos_as_allowed_stay_open_the_latest_ones() -> None:
    opener, pool = Opener(), VideoPool(2)
    for name in ("a", "b", "a", "c", "a", "b"):
        look(pool, name, opener)
    assert opener.opened == ["a", "b", "c", "b"]  # c took the place of b, which had been idle for longer


def test_a_video_that_somebody_looks_at_is_not_closed() -> None:
    opener, pool = Opener(), VideoPool(1)
    with pool.borrow("a", opener) as first:
        look(pool, "a", opener)
        look(pool, "b", opener)
        assert first.duration == 60
    assert look(pool, "a", opener) is first
    assert opener.opened == ["a", "b"]


def test_a_video_is_opened_when_it_is_looked_at_and_again_after_it_was_closed() -> None:
    opener, pool = Opener(), VideoPool(1)
    with pool.borrow("a", opener) as video:
        assert opener.opened == []
        assert video.checksum() is None
        assert [frame.seconds for frame in video.frames_at([3.0])] == [3.0]
        assert video.subtitles() is None
        video.close()
        assert video.duration == 60
    assert opener.opened == ["a", "a"]


@pytest.mark.parametrize(
    ("stated", "real", "precision", "is_right"),
    [
        (100, 100, 0, True),
        (100, 101, 0, True),  # a second of slack
        (100, 101.01, 0, False),
        (100, 103, 3, True),
        (105, 100, 0, True),  # a soundtrack outlasts its pictures by up to a twentieth
        (105.1, 100, 0, False),
        (11, 10, 0, True),
        (11.01, 10, 0, False),
        (math.inf, 10, 0, True),
    ],
)
def test_a_duration_is_right_as_far_as_benches_are_rounded(
    stated: float, real: float, precision: float, is_right: bool
) -> None:
    item = Item(Question("q", "v.mp4", "?", ("a", "b")), "A", (), stated, duration_precision=precision)
    assert is_duration(item, real) == is_right


@pytest.mark.parametrize(
    ("method", "backbone", "name"),
    [
        ("trace", "openai:gpt-4o@http://host/v1", "trace@openai-gpt-4o-http-host-v1"),
        ("my.module:method", "lab", "my.module-method@lab"),
        ("...", "-x-", "unnamed@x"),
    ],
)
def test_a_run_file_is_named_after_method_and_backbone(method: str, backbone: str, name: str) -> None:
    assert Job(method, backbone).name == name


def test_a_configuration_says_how_many_frames_a_question_may_cost() -> None:
    assert configuration(Job("trace", "model"), None, None, OPTIONS).budget == 112
    assert configuration(Job("trace", "model", 50), None, None, OPTIONS).budget == 50
    free = configuration(Job("own", "model"), None, None, OPTIONS)
    assert (free.budget, free.method_sha256, free.backbone_sha256, free.bench) == ("the method's own", None, None, None)


# --- many questions -------------------------------------------------------------------------------


def letter(question: Question, observer: Observer) -> Answer:
    """Answers the second option, stably, and an open question in a word; never looks."""
    return Answer("so" if question.is_open else "B", Termination.STABLE_PREFIX_FOUND)


OPTIONS = RunOptions(
    methods={"own": letter}, backbones={"model": ScriptedBackbone(lambda _: None, name="model")}, transcripts=False
)
JOB = Job("own", "model", budget=10)


def asked(*ids: str, text: str = "Which?", options: tuple[str, ...] = ("red", "blue")) -> list[VideoQuestion]:
    return [VideoQuestion(Question(each, f"{each}.mp4", text, options), 60.0) for each in ids]


def test_many_questions_are_asked_once_and_each_line_says_what_was_asked(tmp_path: Path) -> None:
    before: list[int] = []
    heard: list[str] = []

    def ask(questions: list[VideoQuestion]) -> dict[str, Prediction]:
        lines, path = ask_many(
            questions,
            JOB,
            tmp_path,
            options=OPTIONS,
            workers=1,
            begun=before.append,
            finished=lambda line: heard.append(line.question_id),
        )
        assert path == tmp_path / "own@model.jsonl"
        return lines

    assert list(ask(asked("one", "two"))) == ["one", "two"]
    lines = ask(asked("two", "three"))
    assert sorted(lines) == ["three", "two"]  # a line of another question is not given back
    assert before == [0, 1]
    assert heard == ["one", "two", "three"]
    told = lines["three"].to_json()
    assert {key: told[key] for key in ("question", "options", "text", "stable", "duration", "answer")} == {
        "question": "Which?",
        "options": ["red", "blue"],
        "text": "blue",
        "stable": True,
        "duration": 60.0,
        "answer": "B",
    }
    with pytest.raises(InputError, match="'two' is another question there, or has other options"):
        ask(asked("two", text="Which one?"))
    with pytest.raises(InputError, match="'two' is another question there, or has other options"):
        ask(asked("two", options=("red", "green")))


def prediction(question: Question, answer: Answer) -> Prediction:
    return Prediction.of(question, answer, ObservationLog(), method="m", backbone="b", seconds=0.0)


def test_an_answer_in_words_is_the_options_text_or_the_open_answer() -> None:
    closed, free = Question("q", "v", "?", ("red", "blue")), Question("q", "v", "?")
    assert answer_text(prediction(closed, Answer("A")), closed) == "red"
    assert answer_text(prediction(closed, Answer(None)), closed) is None
    assert answer_text(prediction(free, Answer("in the rain")), free) == "in the rain"
    forced = with_question(prediction(closed, Answer("A", Termination.NO_STABLE_PREFIX)), closed, 9.0)
    assert forced.to_json()["stable"] is False


# --- the loop that writes lines, and its limit ----------------------------------------------------


def limit_of(dollars: float) -> CostLimit:
    """A limit where each line costs a dollar."""
    return CostLimit(dollars, Prices({"model": Price(1e6, 0, 0)}))


def answer_some(folder: Path, count: int, limit: CostLimit | None) -> list[str]:
    begun: list[str] = []

    def engine(tasks: Sequence[QuestionTask], _: RunOptions) -> Iterator[tuple[QuestionTask, TaskResult]]:
        for task in tasks:
            begun.append(task.question.id)
            yield task, TaskResult(replace(prediction(task.question, Answer("A")), usage=Usage(1)))

    with RunFile(folder, JOB.name, configuration(JOB, None, None, OPTIONS)) as file:
        tasks = [
            QuestionTask(JOB, one.question, "v")
            for one in asked(*(f"q{number}" for number in range(count)))
            if one.question.id not in file.finished
        ]
        heard: list[str] = []
        answer_tasks(
            tasks,
            {JOB: file},
            engine,  # type: ignore[arg-type]
            OPTIONS,
            cost_limit=limit,
            finished=lambda task, line: heard.append(line.question_id),
        )
        assert heard == begun
        assert set(heard) <= set(file.finished)
    return begun


def test_a_run_ends_when_its_limit_is_reached_and_says_so(tmp_path: Path) -> None:
    for dollars, asked_now, is_stopped in (
        (2, ["q0", "q1"], True),
        (2, [], True),  # what was paid for before counts
        (3, ["q2"], False),  # it was reached with the last question
        (3, [], False),  # nothing was left to ask
    ):
        limit = limit_of(dollars)
        assert answer_some(tmp_path, 3, limit) == asked_now
        assert (limit.stopped, limit.spent) == (is_stopped, dollars)
    assert answer_some(tmp_path, 4, None) == ["q3"]
