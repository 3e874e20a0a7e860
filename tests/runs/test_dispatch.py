"""Every question becomes one line, whoever dies or fails; a bad worker is told from a bad question."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.cluster import FakeWorker, line, simulate, tasks
from trace_ves.runs.ray_engine import Dispatch, lost_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trace_ves.runs.answering import QuestionTask, TaskResult


def number(task: QuestionTask) -> int:
    return sum(ord(character) * 31**place for place, character in enumerate(task.question.id)) % 997


def test_a_worker_that_fails_fast_does_not_eat_the_queue() -> None:
    bad = FakeWorker(seconds=0.05, opening_seconds=0.0, fails=lambda _: True)
    outcome = simulate(tasks(30, 4), [bad, *(FakeWorker() for _ in range(3))])
    assert len(outcome.lines) == 120
    assert [line.prediction.question_id for _, line in outcome.lines if line.error] == []
    assert outcome.dropped == [bad]
    assert outcome.asked == 123  # three errors, and nothing more, were asked twice


def test_the_workers_of_a_bad_machine_do_not_confirm_each_other() -> None:
    bad = [FakeWorker(seconds=0.05, opening_seconds=0.0, fails=lambda _: True) for _ in range(4)]
    outcome = simulate(tasks(60, 4), [*bad, *(FakeWorker() for _ in range(6))])
    assert not any(line.error for _, line in outcome.lines)
    assert sorted(worker.name for worker in outcome.dropped) == sorted(worker.name for worker in bad)


def test_questions_that_fail_everywhere_are_errors_and_no_worker_is_dropped() -> None:
    def broken(task: QuestionTask) -> bool:
        return task.video in {"v1.mp4", "v2.mp4", "v3.mp4", "v7.mp4"}

    workers = [FakeWorker(fails=broken) for _ in range(4)]
    outcome = simulate(tasks(10, 6), workers)
    assert Counter(line.error is not None for _, line in outcome.lines) == {True: 24, False: 36}
    assert outcome.dropped == []
    assert outcome.asked <= 60 + 12  # one of three errors is asked twice


def test_a_service_that_is_down_for_all_leaves_every_worker_at_work() -> None:
    workers = [FakeWorker(fails=lambda _: True) for _ in range(5)]
    outcome = simulate(tasks(20, 5), workers)
    assert len(outcome.lines) == 100
    assert outcome.dropped == []


def test_questions_of_a_video_go_to_one_worker_until_the_end() -> None:
    workers = [FakeWorker() for _ in range(8)]
    simulate(tasks(200, 10), workers)
    assert sum(worker.openings for worker in workers) <= 200 + 8


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
    one_bad_at_most = bad.count("fails") <= 1 and set(bad) <= {"fails", "good"}  # two may confirm each other
    assert not one_bad_at_most or not any(line.error for _, line in outcome.lines)


def test_workers_of_fifty_machines_wait_less_than_a_twentieth() -> None:
    workers = [FakeWorker(seconds=8 + number % 7) for number in range(50)]
    outcome = simulate(tasks(200, 10), workers, driver_seconds=0.002)
    idle = 1 - sum(worker.busy for worker in workers) / (len(workers) * outcome.seconds)
    assert len(outcome.lines) == 2000
    assert idle < 0.05


# --- step by step ---------------------------------------------------------------------------------


class Drive:
    """A dispatch that is driven by hand; workers are letters."""

    def __init__(self, work: list[QuestionTask], workers: str) -> None:
        self.dispatch = Dispatch(work)
        self.at: dict[str, QuestionTask] = {}
        for worker in workers:
            self.dispatch.add(worker)

    def ask(self, worker: str) -> str | None:
        """The id of the question that a worker is given."""
        task = self.dispatch.next_for(worker)
        if task is None:
            return None
        self.at[worker] = task
        return task.question.id

    def answer(self, worker: str, error: str | None = None) -> list[tuple[str, str | None]]:
        """The lines that stand after a worker's answer: question and error."""
        return stood(self.dispatch.answered(worker, line(self.at.pop(worker), error)))

    def lose(self, worker: str) -> list[tuple[str, str | None]]:
        return stood(self.dispatch.lost(worker))

    def fail(self, worker: str, times: int = 1) -> list[tuple[str, str | None]]:
        """Have a worker fail on its next questions."""
        found = []
        for _ in range(times):
            assert self.ask(worker)
            found += self.answer(worker, "it failed")
        return found


def stood(pairs: Iterable[tuple[QuestionTask, TaskResult]]) -> list[tuple[str, str | None]]:
    return [(task.question.id, result.error) for task, result in pairs]


def test_each_worker_keeps_its_video_then_takes_a_new_one_then_helps_with_the_fullest() -> None:
    drive = Drive(tasks(2, 1) + tasks(3, 4)[8:] + tasks(4, 3)[9:], "ab")
    assert [drive.ask("a"), drive.ask("b")] == ["v0q0", "v1q0"]
    assert drive.answer("a") == [("v0q0", None)]
    assert drive.answer("b") == [("v1q0", None)]
    assert [drive.ask("a"), drive.ask("b")] == ["v2q0", "v3q0"]
    drive.dispatch.add("c")
    assert drive.ask("c") == "v2q1"  # no video is left that nobody has, and v2 has the most questions
    assert not drive.dispatch.is_finished


def test_errors_wait_until_an_answer_shows_that_the_worker_works() -> None:
    drive = Drive(tasks(1, 4), "a")
    assert drive.fail("a", 2) == []
    assert not drive.dispatch.is_finished
    assert drive.ask("a")
    assert drive.answer("a") == [("v0q0", "it failed"), ("v0q1", "it failed"), ("v0q2", None)]
    assert drive.fail("a") == [("v0q3", "it failed")]  # nobody else can be asked
    assert drive.dispatch.is_finished


def paused() -> Drive:
    """The worker a has failed on three questions of v0 while b was at one of v1, which it has answered since."""
    drive = Drive(tasks(3, 5), "abc")
    assert [drive.ask("a"), drive.ask("b")] == ["v0q0", "v1q0"]
    assert drive.answer("a", "it failed") == []
    assert drive.fail("a", 2) == []
    assert drive.ask("a") is None  # it gets no more until another was asked
    assert drive.ask("c") == "v2q0"  # c has answered nothing yet, so it is not asked about a
    assert drive.answer("b") == [("v1q0", None)]
    return drive


def test_after_three_errors_a_worker_that_answers_is_asked_and_the_other_dropped() -> None:
    drive = paused()
    assert [drive.ask("b"), *drive.answer("b")] == ["v0q0", ("v0q0", None)]
    assert (drive.dispatch.has("a"), drive.dispatch.has("b")) == (False, True)
    assert [drive.ask("b"), *drive.answer("b")] == ["v0q1", ("v0q1", None)]
    assert [drive.ask("b"), *drive.answer("b", "again")] == ["v0q2", ("v0q2", "again")]  # two failed: it stands
    assert drive.ask("b") == "v1q1"


def test_where_the_other_fails_too_the_errors_stand_and_the_worker_goes_on() -> None:
    drive = paused()
    assert drive.ask("b") == "v0q0"
    assert drive.answer("b", "no") == [("v0q0", "no"), ("v0q1", "it failed"), ("v0q2", "it failed")]
    assert drive.dispatch.has("a")
    assert drive.ask("a") == "v0q3"


def test_where_nothing_is_under_way_any_other_worker_will_do() -> None:
    drive = Drive(tasks(2, 5), "ab")
    assert drive.fail("a", 3) == []
    assert [drive.ask("b"), *drive.answer("b")] == ["v0q0", ("v0q0", None)]
    assert not drive.dispatch.has("a")


def test_a_question_that_was_lost_is_asked_next_and_given_up_after_three_workers() -> None:
    drive = Drive(tasks(1, 2), "abcd")
    for worker in "ab":
        assert drive.ask(worker) == "v0q0"
        assert drive.lose(worker) == []
        assert not drive.dispatch.has(worker)
    assert drive.ask("c") == "v0q0"
    assert drive.lose("c") == [("v0q0", "3 workers were lost while answering this question")]
    assert [drive.ask("d"), *drive.answer("d")] == ["v0q1", ("v0q1", None)]
    assert drive.dispatch.is_finished


def test_the_line_of_a_lost_question_has_no_answer_and_names_its_job() -> None:
    [task] = tasks(1, 1)
    lost = lost_line(task).prediction
    assert (lost.question_id, lost.answer, lost.termination, lost.frames_supplied) == ("v0q0", None, None, 0)
    assert (lost.method, lost.backbone, lost.seconds) == ("uniform-8", "fake", 0.0)


def test_what_a_lost_worker_had_failed_on_is_asked_again() -> None:
    drive = Drive(tasks(1, 3), "ab")
    assert drive.fail("a", 2) == []
    assert drive.lose("a") == []
    assert [drive.ask("b"), *drive.answer("b")] == ["v0q0", ("v0q0", None)]
    assert [drive.ask("b"), *drive.answer("b")] == ["v0q1", ("v0q1", None)]
    assert drive.ask("b") == "v0q2"
    assert drive.lose("nobody") == []  # a worker that had nothing loses nothing


def test_a_probe_that_kills_three_workers_clears_the_paused_worker() -> None:
    drive = paused()
    assert drive.answer("c") == [("v2q0", None)]
    drive.dispatch.add("d")
    for worker in "bc":
        assert drive.ask(worker) == "v0q0"
        assert drive.lose(worker) == []
    assert drive.ask("d") == "v0q0"  # nothing else is under way
    gone = "3 workers were lost while answering this question"
    assert drive.lose("d") == [("v0q0", gone), ("v0q1", "it failed"), ("v0q2", "it failed")]
    assert drive.ask("a") == "v0q3"


@pytest.mark.parametrize(("error", "lines"), [(None, [("v2q0", None)]), ("it failed", [])])
def test_what_a_worker_was_at_when_it_was_dropped_stands_if_it_is_an_answer(
    error: str | None, lines: list[tuple[str, str | None]]
) -> None:
    drive = paused()
    assert drive.lose("c") == []
    assert drive.ask("a") == "v2q0"  # what was lost with another may be asked of anybody
    assert [drive.ask("b"), *drive.answer("b")] == ["v0q0", ("v0q0", None)]
    assert not drive.dispatch.has("a")
    assert drive.answer("a", error) == lines
    left = ["v0q1", "v0q2", *([] if lines else ["v2q0"])]  # an error of a worker that is gone is asked again
    for name in left:
        assert [drive.ask("b"), *drive.answer("b", "no")] == [name, (name, "no")]
    assert drive.ask("b") == "v1q1"


def test_errors_at_the_end_are_looked_into_by_another() -> None:
    drive = Drive(tasks(2, 1), "ab")
    assert [drive.ask("a"), drive.ask("b")] == ["v0q0", "v1q0"]
    assert drive.answer("a", "it failed") == []
    assert drive.answer("b") == [("v1q0", None)]
    assert [drive.ask("a"), drive.ask("b")] == [None, "v0q0"]
    assert drive.answer("b") == [("v0q0", None)]
    assert drive.dispatch.is_finished


def test_the_last_worker_is_not_asked_about_its_own_errors() -> None:
    drive = Drive(tasks(2, 4), "ab")
    assert drive.fail("a", 3) == []
    assert drive.ask("b") == "v0q0"
    assert drive.lose("b") == [("v0q0", "it failed"), ("v0q1", "it failed"), ("v0q2", "it failed")]
    assert drive.ask("a") == "v0q3"
