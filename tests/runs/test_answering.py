"""One question answered, and what a run hands to whoever answers: options, videos, durations, results."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agent.test_budget import ClockVideo
from trace_ves import ask, evaluate
from trace_ves.backbone.protocol import ScriptedBackbone
from trace_ves.baselines.direct import Uniform, blind
from trace_ves.benches import Bench
from trace_ves.core import Answer, InputError, Interval, Question, Termination
from trace_ves.core.errors import BackboneError, MethodError
from trace_ves.core.plugins import source_digest
from trace_ves.core.subtitles import Cue, Subtitles
from trace_ves.observer import Memory, Method, Observer, Progress, RoundStarted
from trace_ves.records import Call, Item, ObservationLog, Prediction, Usage
from trace_ves.records.disk_cache import checksum
from trace_ves.records.run_file import Run, RunFile
from trace_ves.records.transcript import read_recording
from trace_ves.runs import video_pool
from trace_ves.runs.answering import Answered, Answerer, Job, QuestionTask, RunOptions, TaskResult, answer_question
from trace_ves.runs.asking import add_question, answer_text, ask_many
from trace_ves.runs.cost import CostLimit
from trace_ves.runs.evaluate import Results
from trace_ves.runs.prices import Price, Prices
from trace_ves.runs.run import answer_locally, answer_tasks, configuration
from trace_ves.runs.video_pool import SharedVideo, VideoPool, check_durations, matches_duration

QUESTION = Question("q", "v.mp4", "Which?", ("red", "blue"))
MODEL = ScriptedBackbone(lambda _: None, name="model")
JOB = Job("own", "model", budget=10)


class Opener:
    """Opens videos that are clocks, and counts them."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open_video(self, path: Path) -> ClockVideo:
        self.opened.append(path.name)
        return ClockVideo(60)


OPTIONS = RunOptions(methods={"own": lambda *_: Answer("B")}, backbones={"model": MODEL}, transcripts=False)


def answered(method: Method, question: Question = QUESTION, **more: Any) -> Answered:
    video = SharedVideo(Path("v.mp4"), Opener())
    return answer_question(question, video, JOB, method=method, backbone=MODEL, **more)


# --- one question ---------------------------------------------------------------------------------


def test_an_answer_becomes_a_line_with_its_clips_and_its_method() -> None:
    found = answered(lambda _, observer: Answer("B", bundle=(observer.survey(Interval(0, 9), 2, height=9),)))
    assert found.error is None
    assert (found.answer.option, found.prediction.answer, found.prediction.error) == ("B", "B", None)
    assert (found.prediction.method, found.prediction.backbone) == ("own", "model")
    assert (found.prediction.termination, len(found.prediction.bundle)) == (Termination.SINGLE_PASS, 1)
    assert found.transcript.question_id == "q"


@pytest.mark.parametrize(
    ("given", "question", "words"),
    [
        ("B", QUESTION, "returned str; it must return a trace_ves.Answer"),
        (Answer(3), QUESTION, "answered 3; an answer is text, or None"),  # type: ignore[arg-type]
        (Answer("C"), QUESTION, "answered 'C'; the question has A-B, or None"),
        (Answer("B"), QUESTION, None),
        (Answer(None), QUESTION, None),
        (Answer("anything"), Question("q", "v", "Why?"), None),
        (Answer(None), Question("q", "v", "Why?"), None),
    ],
)
def test_only_an_answer_to_the_question_becomes_a_line(given: Any, question: Question, words: str | None) -> None:
    found = answered(lambda *_: given, question)
    assert isinstance(found.error, MethodError) == (words is not None)
    assert words is None or words in str(found.prediction.error)
    assert found.prediction.answer == (given.option if words is None else None)


def test_what_a_method_raises_is_on_its_line_and_not_its_half_answer() -> None:
    def fail(error: Exception) -> Answer:
        raise error

    own, ours = (answered(lambda *_, e=e: fail(e)) for e in (KeyError("gone"), BackboneError("the service is down")))
    assert re.fullmatch(r"KeyError: 'gone' \(test_answering\.py:\d+\)", own.prediction.error or "")
    assert isinstance(own.error, MethodError)
    assert isinstance(own.error.__cause__, KeyError)
    assert (type(ours.error), ours.prediction.error) == (BackboneError, "the service is down")
    for found in (own, ours):
        assert (found.answer, found.prediction.termination, found.prediction.answer) == (Answer(None), None, None)


def test_seconds_are_written_to_a_thousandth(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([1.0, 2.23456])
    monkeypatch.setattr("trace_ves.runs.answering.time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert answered(lambda *_: Answer("A")).prediction.seconds == 1.235


def reads_and_fails(_: Question, observer: Observer) -> Answer:
    assert observer.subtitles is not None
    raise KeyError("gone")


def reads_and_answers(*_: object) -> Answer:
    return Answer("A")


reads_and_fails.reads_subtitles = reads_and_answers.reads_subtitles = True  # type: ignore[attr-defined]


def test_a_line_says_which_subtitles_were_at_hand_even_where_the_method_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Subtitles("v.srt", (Cue(0, 1, "hello"),))
    monkeypatch.setattr(SharedVideo, "subtitles", lambda _: said)
    found = answered(reads_and_fails, subtitles=True)
    assert (found.prediction.error or "").startswith("KeyError")
    assert found.prediction.extra == {"subtitles": said.to_json()}
    assert answered(reads_and_fails).prediction.extra == {}  # nobody asked for them


def test_a_method_has_the_budget_of_its_job_the_memory_and_whoever_listens() -> None:
    seen: list[Observer] = []
    heard: list[Progress] = []
    memory = Memory()

    def method(_: Question, observer: Observer) -> Answer:
        seen.append(observer)
        observer.announce(RoundStarted(1))
        return Answer("A")

    answered(method, memory=memory, listener=heard.append)
    assert (seen[0].budget, seen[0].memory, len(heard)) == (10, memory, 1)
    answered(method)
    assert seen[1].memory is None


def test_a_line_names_the_file_that_was_looked_at_and_no_other(bench_folder: Path) -> None:
    path = bench_folder / "videos" / "a.mp4"
    model = ScriptedBackbone(lambda _: {"answer": "A"}, name="model")
    for method, extra in ((Uniform(4), {"video": checksum(path).to_json()}), (blind, {})):
        with closing(SharedVideo(path)) as video:
            assert video.duration  # another question has it open
            found = answer_question(QUESTION, video, JOB, method=method, backbone=model)
        assert found.prediction.extra == extra


# --- many of them ---------------------------------------------------------------------------------


def test_methods_and_backbones_are_opened_once_for_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []

    def opening(spec: str, **options: object) -> Any:
        opened.append((spec, options))
        return MODEL

    monkeypatch.setattr("trace_ves.runs.answering.open_backbone", opening)
    answerer = Answerer(RunOptions({"concurrency": 3}, methods={"own": lambda *_: Answer("A")}))
    answerer.prepare([Job("own", "some"), Job("own", "other")])
    assert opened == [("some", {"concurrency": 3}), ("other", {"concurrency": 3})]
    results = [answerer(QuestionTask(Job("own", "some"), QUESTION, "v.mp4")) for _ in range(2)]
    assert len(opened) == 2
    assert all(result.transcript is not None for result in results)
    quiet = Answerer(replace(OPTIONS, transcripts=False))
    assert quiet(QuestionTask(JOB, QUESTION, "v.mp4")).transcript is None


def test_a_session_records_what_was_said_and_closes_its_video(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opener, ends = Opener(), iter([Termination.STABLE_PREFIX_FOUND, Termination.NO_STABLE_PREFIX])
    monkeypatch.setattr("trace_ves.runs.asking.find_opener", lambda _: opener)
    closed: list[SharedVideo] = []
    monkeypatch.setattr(SharedVideo, "close", lambda video: closed.append(video))  # noqa: PLW0108  binds as a method
    options = {"backbone": MODEL, "method": lambda *_: Answer("B", termination=next(ends)), "record": tmp_path / "r"}
    for stable in (True, False):
        found = ask("v.mp4", "Which?", ["red", "blue"], **options)
        assert (found.answer, found.text, found.stable, len(closed)) == ("B", "blue", stable, 2 - stable)
        assert read_recording(tmp_path / "r") == [found.transcript]
    with pytest.raises(InputError, match="is an input of this command"):
        ask("v.mp4", "Which?", **options | {"record": "v.mp4"})


def test_nothing_to_ask_has_no_lines(tmp_path: Path) -> None:
    lines, path = ask_many([], JOB, tmp_path, options=OPTIONS, workers=1)
    assert (lines, path) == ({}, tmp_path / "own@model.jsonl")


def evaluated(bench: Bench, out: Path, **options: Any) -> tuple[RunOptions, list[str]]:
    """What `evaluate` hands to an engine."""
    handed: list[RunOptions] = []
    ids: list[str] = []

    def engine(tasks: Sequence[QuestionTask], given: RunOptions) -> Any:
        handed.append(given)
        ids.extend(task.question.id for task in tasks)
        return answer_locally(tasks, given, workers=1)

    evaluate(bench, {"own": reads_and_answers}, MODEL, out=out, engine=engine, **options)
    return handed[0], ids


def test_an_engine_is_handed_what_a_person_chose(bench: Bench, tmp_path: Path) -> None:
    options, ids = evaluated(bench, tmp_path / "a", workers=3, limit=2, temperature=0.5, subtitles=False)
    refused = {"refuse_dropped_frames": True}
    assert options.backbone_options == {"concurrency": 8, "temperature": 0.5} | refused
    assert (options.open_videos, options.transcripts, options.subtitles) == (3, True, False)
    assert (list(options.methods), options.backbones, ids) == (["own"], {"model": MODEL}, ["q00", "q01"])
    many, _ = evaluated(bench, tmp_path / "b", workers=12, limit=1, transcripts=False, concurrency=20)
    assert (many.backbone_options, many.open_videos, many.transcripts) == ({"concurrency": 20} | refused, 12, False)
    wide, _ = evaluated(bench, tmp_path / "c", workers=12, limit=1, subtitles=True)
    assert (wide.backbone_options, wide.subtitles) == ({"concurrency": 12} | refused, True)


def test_one_usable_reply_is_enough_for_no_warning() -> None:
    faulty, fine = Call("look", fault="no JSON."), Call("look")
    for calls, told in (([faulty, fine], []), ([faulty] * 2, ["no call of m got a usable reply, the first: no JSON"])):
        run = Run("m", [Prediction("q", "A", observations=tuple(calls))])
        assert Results((run,), None, ()).warnings == told  # type: ignore[arg-type]
    run = Run("m", [Prediction("q", "A"), *(Prediction(name, None, error=f"{name} is down.") for name in "ab")])
    [told] = Results((run,), None, ()).warnings  # type: ignore[arg-type]
    assert told.startswith("2 of the 3 questions of m ended in an error, the first 'a': a is down; --retry-errors")


def test_a_configuration_has_digests_of_a_persons_own_code_alone(workplace: Path) -> None:
    own = configuration(Job("models:first_letter", "models:Steady"), None, "d", RunOptions())
    assert own.method_sha256 == own.backbone_sha256 == source_digest("models:Steady") is not None
    assert own.bench_sha256 == "d"
    ours = configuration(Job("trace", "openai:m"), None, None, RunOptions())
    assert (ours.method_sha256, ours.backbone_sha256, ours.subtitles, ours.simulation) == (None,) * 4
    given = RunOptions(methods={"models:first_letter": lambda *_: Answer("A")}, backbones={"models:Steady": MODEL})
    objects = configuration(Job("models:first_letter", "models:Steady"), None, None, given)
    assert (objects.method_sha256, objects.backbone_sha256) == (None, None)
    spoken = configuration(Job("trace", "lab"), None, None, RunOptions({"temperature": 0.0}, subtitles=True))
    assert (spoken.subtitles, spoken.temperature) == (True, 0.0)
    assert "simulation" in (spoken.simulation or "")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", spoken.started or "")


# --- videos ---------------------------------------------------------------------------------------


def test_open_videos_share_the_cache(bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    cached = video_pool.video.CachedVideo

    def noting(file: Any, *, max_bytes: int) -> Any:
        sizes.append(max_bytes)
        return cached(file, max_bytes=max_bytes)

    monkeypatch.setattr(video_pool.video, "CachedVideo", noting)
    for most in (1, 4, 0):  # open videos share the memory for decoded frames
        with VideoPool(most).borrow(str(bench_folder / "videos" / "a.mp4")) as shared:
            [frame] = shared.frames_at([1.0], height=24)
            assert frame.picture.height == 24
            shared.close()
            shared.close()
    assert sizes == [512 << 20, 128 << 20, 512 << 20]


def test_subtitles_are_read_once(bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[float] = []
    monkeypatch.setattr("trace_ves.video.subtitles.read_subtitles", lambda _, duration: read.append(duration))
    shared = SharedVideo(bench_folder / "videos" / "a.mp4")
    assert (shared.subtitles(), shared.subtitles()) == (None, None)
    assert read == [60.0]
    shared.close()


def test_a_video_is_known_by_its_path_and_who_opens_it() -> None:
    pool, one, other = VideoPool(3), Opener(), Opener()
    with pool.borrow("a", one) as first, pool.borrow("a", other) as second, pool.borrow("a", one) as again:
        assert first is again is not second
        assert first.borrowers == 2
    assert first.borrowers == 0


# --- durations ------------------------------------------------------------------------------------


def changed(bench: Bench, letters: str, seconds: float) -> Bench:
    """The bench with another duration for the videos of these letters."""
    items = [replace(each, duration=seconds) if each.question.video[-5] in letters else each for each in bench.items]
    return replace(bench, items=tuple(items))


def test_the_first_wrong_duration_is_named_and_the_others_counted(bench: Bench) -> None:
    videos = [f"videos/{name}.mp4" for name in "abc"]
    heard: list[tuple[int, int]] = []
    check_durations(bench, videos, lambda *told: heard.append(told))
    assert heard == [(1, 3), (2, 3), (3, 3)]
    for letters, words in {
        "b": r"'q01' gives videos/b.mp4 90 s, but .* 60.0 s. Correct .* asked\.$",
        "bc": r"'q01' gives .* asked\. 1 more video differs\.$",
        "abc": r"'q00' gives .* asked\. 2 more videos differ\.$",
    }.items():
        with pytest.raises(InputError, match=words):
            check_durations(changed(bench, letters, 90.0), videos, print)
    check_durations(changed(bench, "b", 90.0), videos[:1], print)  # not a video of these questions
    check_durations(changed(bench, "b", math.nan), videos, print)


def test_files_that_are_absent_or_no_videos_are_passed_over(bench: Bench, tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "a.mp4").write_text("no video")
    moved = replace(bench, path=tmp_path / "questions.jsonl")
    check_durations(moved, ["videos/a.mp4", "videos/b.mp4"], lambda *told: heard.append(told))
    assert heard == [(1, 1)]


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
def test_a_duration_is_right_up_to_rounding(stated: float, real: float, precision: float, is_right: bool) -> None:
    item = Item(Question("q", "v.mp4", "?", ("a", "b")), "A", (), stated, duration_precision=precision)
    assert matches_duration(item, real) == is_right


def test_a_run_file_is_named_after_method_and_backbone() -> None:
    assert Job("trace", "openai:gpt-4o@http://host/v1").name == "trace@openai-gpt-4o-http-host-v1"
    assert Job("my.module:method", "lab").name == "my.module-method@lab"
    assert Job("...", "-x-").name == "unnamed@x"


def test_a_configuration_says_how_many_frames_a_question_may_cost() -> None:
    assert configuration(Job("trace", "model"), None, None, OPTIONS).budget == 112
    assert configuration(Job("trace", "model", 50), None, None, OPTIONS).budget == 50
    free = configuration(Job("own", "model"), None, None, OPTIONS)
    assert (free.budget, free.method_sha256, free.backbone_sha256, free.bench) == ("the method's own", None, None, None)


def prediction(question: Question, answer: Answer) -> Prediction:
    return Prediction.of(question, answer, ObservationLog(), method="m", backbone="b", seconds=0.0)


def test_an_answer_in_words_is_the_options_text_or_the_open_answer() -> None:
    closed, free = Question("q", "v", "?", ("red", "blue")), Question("q", "v", "?")
    assert answer_text(prediction(closed, Answer("A")), closed) == "red"
    assert answer_text(prediction(closed, Answer(None)), closed) is None
    assert answer_text(prediction(free, Answer("in the rain")), free) == "in the rain"
    forced = add_question(prediction(closed, Answer("A", Termination.NO_STABLE_PREFIX)), closed, 9.0)
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
        left = [f"q{number}" for number in range(count) if f"q{number}" not in file.finished]
        tasks = [QuestionTask(JOB, replace(QUESTION, id=each), "v") for each in left]
        heard: list[Prediction] = []
        answer_tasks(
            tasks, {JOB: file}, engine, OPTIONS, cost_limit=limit, on_answer=lambda _, line: heard.append(line)
        )
        assert [line.question_id for line in heard] == begun
        assert set(begun) <= set(file.finished)
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
