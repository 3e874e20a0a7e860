"""The Ray engine against a cluster that is a page of code: workers that are killed for their memory, or never begin."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.runs.cluster import line, tasks
from trace_ves.core import InputError
from trace_ves.runs.answering import QuestionTask, RunOptions
from trace_ves.runs.ray_engine import _Cluster, _connect, _without_shared_cache

if TYPE_CHECKING:
    from collections.abc import Callable


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


class OutOfMemoryError(RayError):
    """As in Ray: not a kind of `RayActorError`."""


class RayTaskError(RayError):
    pass


class FakeRay:
    """As much of Ray as the engine uses; `answer(actor, task)` is what its workers do."""

    exceptions = type("exceptions", (), {"RayError": RayError, "RayTaskError": RayTaskError})

    def __init__(self, answer: Callable[[Any, QuestionTask], Any], problem: str | Exception | None = None) -> None:
        self.answer, self.problem = answer, problem
        self.started, self.killed = 0, 0

    def remote(self, _: type) -> FakeRay:
        return self

    def options(self, **_: object) -> Any:
        ray = self

        class Actor:
            def __init__(self) -> None:
                ray.started += 1
                self.number = ray.started
                self.check_jobs = Call(lambda _: ray.problem)
                self.answer = Call(lambda task: ray.answer(self, task))

        return type("factory", (), {"remote": staticmethod(lambda *_: Actor())})

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 4}

    def wait(self, refs: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        return refs[:num_returns], refs[num_returns:]

    def get(self, ref: Any) -> Any:
        result = ref.work(ref.argument)
        if isinstance(result, Exception):
            raise result
        return result

    def kill(self, _: object) -> None:
        self.killed += 1


class Call:
    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work = work

    def remote(self, argument: Any) -> Any:
        return type("ref", (), {"work": staticmethod(self.work), "argument": argument})()


def run_on(ray: FakeRay, work: list[QuestionTask], workers: int) -> Counter[str | None]:
    lines = list(_Cluster(ray, work, RunOptions(), workers).run())
    assert Counter(task.question.id for task, _ in lines) == Counter(task.question.id for task in work)
    return Counter(prediction.error for _, prediction in lines)


def test_a_question_that_kills_every_worker_becomes_an_error_and_the_rest_goes_on() -> None:
    deadly = FakeRay(lambda _, task: OutOfMemoryError("again") if task.question.id == "v1q1" else line(task))
    assert run_on(deadly, tasks(3, 4), 3) == {None: 11, "3 workers were lost while answering this question": 1}


def test_a_worker_that_cannot_open_a_job_says_so() -> None:
    with pytest.raises(InputError, match="no such model"):
        run_on(FakeRay(lambda _, task: line(task), problem="no such model"), tasks(1, 1), 1)


def test_a_worker_that_is_killed_for_its_memory_loses_nothing() -> None:
    killed: set[str] = set()

    def answer(_: Any, task: QuestionTask) -> Any:
        if task.question.id in {"v1q1", "v2q0"} and task.question.id not in killed:
            killed.add(task.question.id)
            return OutOfMemoryError("killed by the memory monitor")
        return line(task)

    ray = FakeRay(answer)
    assert run_on(ray, tasks(4, 3), 3) == {None: 12}
    assert ray.started == 5


def test_a_worker_whose_machine_is_bad_is_let_go_and_replaced() -> None:
    ray = FakeRay(lambda actor, task: line(task, "no such file" if actor.number == 2 else None))
    assert run_on(ray, tasks(10, 4), 3) == {None: 40}
    assert (ray.killed, ray.started) == (1, 4)


def test_what_stops_the_program_inside_a_worker_is_raised_here() -> None:
    with pytest.raises(RayTaskError):
        run_on(FakeRay(lambda *_: RayTaskError("a bug of ours")), tasks(1, 1), 1)


def test_workers_that_never_begin_are_one_sentence() -> None:
    with pytest.raises(InputError, match="die before they start: no room"):
        run_on(FakeRay(lambda _, task: line(task), problem=RayActorError("no room")), tasks(2, 2), 2)


def test_a_cluster_that_loses_every_worker_is_one_sentence() -> None:
    with pytest.raises(InputError, match="every worker of the Ray cluster was lost"):
        run_on(FakeRay(lambda *_: OutOfMemoryError("again")), tasks(9, 9), 2)


def test_answers_are_cached_on_other_machines_only_if_a_person_says_so() -> None:
    assert _without_shared_cache(RunOptions({"cache": None, "temperature": 1.0})).backbone_options == {
        "cache": False,
        "temperature": 1.0,
    }
    assert _without_shared_cache(RunOptions({"cache": True})).backbone_options == {"cache": True}


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
