"""The Ray engine against a cluster that is a page of code: workers that are killed for their memory, or never begin."""

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from trace_ves.core import Answer, InputError, Question
from trace_ves.records import ObservationLog, Prediction
from trace_ves.runs import ray_engine
from trace_ves.runs.answering import Job, QuestionTask, RunOptions, TaskResult
from trace_ves.runs.ray_engine import Worker, _Cluster, _connect, _without_shared_cache, answer_on_ray

JOB = Job("uniform-8", "fake")


def tasks(videos: int, questions_each: int) -> list[QuestionTask]:
    return [
        QuestionTask(JOB, Question(f"v{video}q{number}", f"v{video}.mp4", "?", ("a", "b")), f"v{video}.mp4")
        for video in range(videos)
        for number in range(questions_each)
    ]


def line(task: QuestionTask, error: str | None = None) -> TaskResult:
    answer = Answer(None if error else "A")
    made = Prediction.of(task.question, answer, ObservationLog(), method="uniform-8", backbone="fake", seconds=0.0)
    return TaskResult(replace(made, error=error))


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


class OutOfMemoryError(RayError):
    """As in Ray: not a kind of `RayActorError`."""


class RayTaskError(RayError):
    pass


class FakeRay:
    """As much of Ray as the engine uses; `answer(actor, task)` is what its workers do.

    `report(actor)` is what a worker says when it is ready; one that says `WAITS` has no room on the cluster.
    """

    exceptions = type("exceptions", (), {"RayError": RayError, "RayTaskError": RayTaskError})

    def __init__(
        self, answer: Callable[[Any, QuestionTask], Any], report: Callable[[Any], object] = lambda _: None
    ) -> None:
        self.answer, self.report = answer, report
        self.started = 0
        self.resources: dict[str, float] = {"CPU": 4}
        self.share: dict[str, float] = {}

    def remote(self, _: type) -> "FakeRay":
        return self

    def options(self, *, max_restarts: int, **share: float) -> Any:
        assert max_restarts == 0  # the driver starts another worker itself
        ray, self.share = self, share

        class Actor:
            def __init__(self) -> None:
                ray.started += 1
                self.number = ray.started
                self.check_jobs = Call(lambda _: ray.report(self))
                self.answer = Call(lambda task: ray.answer(self, task))

        return type("factory", (), {"remote": staticmethod(lambda *_: Actor())})

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def wait(self, refs: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        ready = next(ref for ref in refs if ref.result() != WAITS)
        return [ready], [ref for ref in refs if ref is not ready]

    def get(self, ref: Any) -> Any:
        if isinstance(result := ref.result(), Exception):
            raise result
        return result


WAITS = "there is no room"


class Call:
    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work = work

    def remote(self, argument: Any) -> Any:
        found = cache(lambda: self.work(argument))
        return type("ref", (), {"result": staticmethod(found)})()


def run_on(ray: FakeRay, work: list[QuestionTask], workers: int) -> Counter[str | None]:
    lines = list(_Cluster(ray, work, RunOptions(), workers).run())
    assert {(result.prediction.method, result.prediction.backbone) for _, result in lines} == {("uniform-8", "fake")}
    assert Counter(task.question.id for task, _ in lines) == Counter(task.question.id for task in work)
    assert all(task.question.id == result.prediction.question_id for task, result in lines)
    return Counter(result.prediction.error for _, result in lines)


def test_a_question_that_kills_every_worker_becomes_an_error_and_the_rest_goes_on() -> None:
    deadly = FakeRay(lambda _, task: OutOfMemoryError("again") if task.question.id == "v1q1" else line(task))
    assert run_on(deadly, tasks(3, 4), 3) == {None: 11, "3 workers were lost while answering this question": 1}
    assert deadly.started == 6
    assert deadly.share == {"num_cpus": 1.0, "num_gpus": 0}


def test_questions_that_fail_are_lines_with_their_error() -> None:
    ray = FakeRay(lambda _, task: line(task, "no such file" if task.video == "v1.mp4" else None))
    assert run_on(ray, tasks(3, 4), 20) == {None: 8, "no such file": 4}
    assert ray.started == 12  # no more workers than questions


def test_questions_of_a_video_go_to_one_worker() -> None:
    by_worker: dict[int, list[str]] = defaultdict(list)

    def answer(actor: Any, task: QuestionTask) -> TaskResult:
        by_worker[actor.number].append(task.question.id)
        return line(task)

    run_on(FakeRay(answer), tasks(2, 3), 2)
    assert by_worker == {1: ["v0q0", "v0q1", "v0q2"], 2: ["v1q0", "v1q1", "v1q2"]}


def test_a_worker_that_is_killed_for_its_memory_loses_nothing_though_no_other_finds_room() -> None:
    def answer(actor: Any, task: QuestionTask) -> Any:
        return OutOfMemoryError("killed by the memory monitor") if actor.number > 1 else line(task)

    ray = FakeRay(answer, report=lambda actor: WAITS if actor.number > 3 else None)
    assert run_on(ray, tasks(4, 3), 3) == {None: 12}
    assert ray.started == 5


def test_the_last_question_is_asked_again_by_a_worker_that_has_nothing_to_do() -> None:
    ray = FakeRay(
        lambda actor, task: OutOfMemoryError("killed") if actor.number == 2 else line(task),
        report=lambda actor: WAITS if actor.number > 2 else None,
    )
    assert run_on(ray, tasks(2, 1), 2) == {None: 2}


def test_a_local_model_gets_a_gpu_where_there_is_one() -> None:
    local = [replace(task, job=Job("uniform-8", "hf:model")) for task in tasks(1, 8)]
    for resources, cpus, gpus in (({"CPU": 4, "GPU": 2}, 0.5, 1), ({}, 0.125, 0)):
        ray = FakeRay(lambda _, task: line(task))
        ray.resources = resources
        run_on(ray, local, 8)
        assert ray.share == {"num_cpus": cpus, "num_gpus": gpus}


def test_what_stops_the_program_inside_a_worker_is_raised_here() -> None:
    with pytest.raises(RayTaskError):
        run_on(FakeRay(lambda *_: RayTaskError("a bug of ours")), tasks(1, 1), 1)


def test_a_worker_that_cannot_open_a_job_says_so() -> None:
    with pytest.raises(InputError, match="no such model"):
        run_on(FakeRay(lambda _, task: line(task), report=lambda _: "no such model"), tasks(1, 1), 1)


def test_workers_that_never_begin_are_one_sentence_unless_others_do() -> None:
    dead = FakeRay(lambda _, task: line(task), report=lambda _: RayActorError("no memory"))
    with pytest.raises(InputError, match="die before they start: no memory"):
        run_on(dead, tasks(2, 2), 2)
    for dies in (1, 2):
        one = FakeRay(
            lambda _, task: line(task), lambda actor, n=dies: RayActorError("x") if actor.number == n else None
        )
        assert run_on(one, tasks(2, 2), 2) == {None: 4}


@pytest.mark.parametrize("address", [None, "host:1"])
def test_a_cluster_of_this_machine_alone_is_closed_to_others_and_ended(
    address: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ray.py").write_text("calls = []\nis_initialized = lambda: False\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    ray = ray_engine._import_ray(elsewhere=address is not None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    closed = (os.environ.get("RAY_AUTH_MODE"), len(os.environ.get("RAY_AUTH_TOKEN", "")))
    assert closed == ((None, 0) if address else ("token", 64))
    ray.init = lambda **given: ray.calls.append(given["address"])
    ray.shutdown = lambda: ray.calls.append("ended")
    assert list(answer_on_ray([], RunOptions(), workers=2, address=address)) == []
    assert ray.calls == [address or "local", "ended"]


def test_a_worker_imports_from_the_drivers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    for folder in (tmp_path, tmp_path, tmp_path / "missing"):
        Worker(RunOptions(), str(folder))
    assert (sys.path.count(str(tmp_path)), str(tmp_path / "missing") in sys.path) == (1, False)


def test_answers_are_cached_on_other_machines_only_if_a_person_says_so() -> None:
    for given, kept in ((None, False), (True, True)):
        options = _without_shared_cache(RunOptions({"cache": given, "temperature": 1.0}))
        assert options.backbone_options == {"cache": kept, "temperature": 1.0}


@pytest.mark.parametrize("failures", [2, 3])
def test_a_local_cluster_that_is_slow_to_start_is_started_again(failures: int) -> None:
    outcomes = [Exception("The current node timed out during startup.")] * failures + [None] * 3

    class SlowRay:
        def init(self, **_: object) -> None:
            if (outcome := outcomes.pop(0)) is not None:
                raise outcome

        def shutdown(self) -> None:
            pass

    if failures < 3:
        _connect(SlowRay(), None, 2, elsewhere=False)
    else:
        with pytest.raises(InputError, match="Ray does not start: The current node timed out"):
            _connect(SlowRay(), None, 2, elsewhere=False)
    assert len(outcomes) == failures  # three starts in either case
