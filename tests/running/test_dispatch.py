"""Every question becomes one line, whoever dies or fails; a bad worker is told from a bad question."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.running.cluster import FakeWorker, simulate, tasks

if TYPE_CHECKING:
    from trace_ves.running.job import QuestionTask


def number(task: QuestionTask) -> int:
    return hash_of(task.question.id)


def hash_of(text: str) -> int:
    return sum(ord(character) * 31**place for place, character in enumerate(text)) % 997


def test_a_worker_that_fails_fast_does_not_eat_the_queue() -> None:
    bad = FakeWorker(seconds=0.05, opening_seconds=0.0, fails=lambda _: True)
    outcome = simulate(tasks(30, 4), [bad, *(FakeWorker() for _ in range(3))])
    assert len(outcome.lines) == 120
    assert [line.prediction.question_id for _, line in outcome.lines if line.error] == []
    assert outcome.set_aside == [bad]
    assert outcome.asked == 123  # three errors, and nothing more, were asked twice


def test_the_workers_of_a_bad_machine_do_not_believe_each_other() -> None:
    bad = [FakeWorker(seconds=0.05, opening_seconds=0.0, fails=lambda _: True) for _ in range(4)]
    outcome = simulate(tasks(60, 4), [*bad, *(FakeWorker() for _ in range(6))])
    assert not any(line.error for _, line in outcome.lines)
    assert sorted(worker.name for worker in outcome.set_aside) == sorted(worker.name for worker in bad)


def test_a_bad_worker_at_the_end_of_the_queue_loses_nothing_either() -> None:
    bad = FakeWorker(seconds=9.0, fails=lambda _: True)
    outcome = simulate(tasks(2, 1), [bad, FakeWorker()])
    assert [line.error for _, line in outcome.lines] == [None, None]


def test_questions_that_fail_everywhere_are_errors_and_no_worker_is_blamed() -> None:
    def broken(task: QuestionTask) -> bool:
        return task.video in {"v1.mp4", "v2.mp4", "v3.mp4", "v7.mp4"}

    workers = [FakeWorker(fails=broken) for _ in range(4)]
    outcome = simulate(tasks(10, 6), workers)
    assert Counter(line.error is not None for _, line in outcome.lines) == {True: 24, False: 36}
    assert outcome.set_aside == []
    assert outcome.asked <= 60 + 12  # one of three errors is asked twice


def test_a_service_that_is_down_for_all_leaves_every_worker_at_work() -> None:
    workers = [FakeWorker(fails=lambda _: True) for _ in range(5)]
    outcome = simulate(tasks(20, 5), workers)
    assert len(outcome.lines) == 100
    assert outcome.set_aside == []


def test_questions_of_a_video_go_to_one_worker_until_the_end() -> None:
    workers = [FakeWorker() for _ in range(8)]
    simulate(tasks(200, 10), workers)
    assert sum(worker.openings for worker in workers) <= 200 + 8


def test_a_question_that_kills_workers_is_given_up_after_three_and_the_rest_goes_on() -> None:
    workers = [FakeWorker(dies=lambda task: task.question.id == "v3q1") for _ in range(6)]
    outcome = simulate(tasks(10, 3), workers)
    errors = [line for _, line in outcome.lines if line.error]
    assert [line.prediction.question_id for line in errors] == ["v3q1"]
    assert errors[0].error == "3 workers were lost while answering this question"
    assert len(outcome.lines) == 30


def test_one_worker_alone_does_everything_and_its_errors_stand() -> None:
    outcome = simulate(tasks(4, 4), [FakeWorker(fails=lambda task: number(task) % 2 == 0)])
    assert len(outcome.lines) == outcome.asked == 16


@given(
    videos=st.integers(1, 6),
    each=st.integers(1, 5),
    bad=st.lists(st.sampled_from(["fails", "fails-some", "dies-some", "good"]), min_size=1, max_size=5),
    seed=st.integers(0, 50),
)
def test_every_question_becomes_exactly_one_line(videos: int, each: int, bad: list[str], seed: int) -> None:
    habits = defaultdict(
        dict,
        {
            "fails": {"fails": lambda _: True, "seconds": 0.1},
            "fails-some": {"fails": lambda task: (number(task) + seed) % 3 == 0},
            "dies-some": {"dies": lambda task: (number(task) + seed) % 7 == 0},
        },
    )
    survivors = [FakeWorker() for _ in range(4)]  # a question takes three workers at most
    work = tasks(videos, each)
    outcome = simulate(work, [*(FakeWorker(**habits[kind]) for kind in bad), *survivors])
    assert Counter(task.question.id for task, _ in outcome.lines) == Counter(task.question.id for task in work)
    one_bad_at_most = bad.count("fails") <= 1 and set(bad) <= {"fails", "good"}  # two may believe each other
    assert not one_bad_at_most or not any(line.error for _, line in outcome.lines)


def test_workers_of_fifty_machines_wait_less_than_a_twentieth() -> None:
    workers = [FakeWorker(seconds=8 + number % 7) for number in range(50)]
    outcome = simulate(tasks(200, 10), workers, driver_seconds=0.002)
    idle = 1 - sum(worker.busy for worker in workers) / (len(workers) * outcome.seconds)
    assert len(outcome.lines) == 2000
    assert idle < 0.05
