"""Threads: each task once, groups stay together, errors reach the caller, leaving early stops the rest."""

import threading

import pytest

from trace_ves.core.threads import GroupedQueue, run_in_daemons


def test_a_worker_stays_with_its_group_then_begins_another_then_helps_with_the_fullest() -> None:
    queue = GroupedQueue((name[0], name) for name in ("a1", "b1", "a2", "b2", "b3", "b4", "c1", "c2", "c3"))
    given = []
    for own in (None, None, "a", "a", None, "c", "b", "c", "c", None):
        group, name = queue.take(own) or ("", "")
        assert group == name[:1]
        given.append(name)
    assert given == ["a1", "b1", "a2", "c1", "b2", "c2", "b3", "c3", "b4", ""]
    assert not queue


def test_every_task_has_one_result_at_its_place() -> None:
    assert GroupedQueue[str](()).take(None) is None
    found = dict(run_in_daemons(lambda number, _: number * number, range(50), workers=4))
    assert found == {number: number * number for number in range(50)}
    meeting = threading.Barrier(3, timeout=30)  # tasks run at the same time
    found = dict(run_in_daemons(lambda _task, _stop: meeting.wait(), range(3), workers=3))
    assert sorted(found.values()) == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        list(run_in_daemons(lambda number, _: 1 // number, [1, 1, 0], workers=1))
    # the end of the program waits for no thread, and no tasks need none
    assert dict(run_in_daemons(lambda _task, _stop: threading.current_thread().daemon, [0], workers=1)) == {0: True}
    before = threading.active_count()
    assert list(run_in_daemons(lambda task, _: task, [], workers=4)) == []
    assert threading.active_count() == before


def test_leaving_early_tells_the_work_to_stop_and_starts_no_more() -> None:
    events: list[threading.Event] = []

    def work(_task: int, stop: threading.Event) -> None:
        events.append(stop)
        if len(events) > 1:
            stop.wait(30)

    results = run_in_daemons(work, range(10), workers=1)
    next(results)
    results.close()
    assert events[0].is_set()
    assert len(events) <= 2


def test_a_thread_stays_with_a_group() -> None:
    in_step = threading.Barrier(2, timeout=30)
    by_thread: dict[int, list[str]] = {}

    def work(task: str, _stop: threading.Event) -> None:
        in_step.wait()
        by_thread.setdefault(threading.get_ident(), []).append(task)
        in_step.wait()

    tasks = ["a1", "a2", "a3", "b1", "b2", "b3"]
    assert len(list(run_in_daemons(work, tasks, workers=2, group=lambda task: task[0]))) == 6
    assert sorted(by_thread.values()) == [["a1", "a2", "a3"], ["b1", "b2", "b3"]]
