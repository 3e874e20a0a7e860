"""Requests of several threads are answered together, each thread gets its own, and waiting is charged to nobody."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from trace_ves.backbone.hf.chat_format import LocalRequest
from trace_ves.backbone.hf.combining_queue import CombiningQueue
from trace_ves.backbone.provider import Completion
from trace_ves.core import BackboneError

if TYPE_CHECKING:
    from collections.abc import Sequence


def request(number: int) -> LocalRequest:
    return LocalRequest((), {}, seed=number)


class Model:
    """Says each request's seed; its first call waits until others stand in line, and it notes how long it worked."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go_on = threading.Event()
        self.started = threading.Event()
        self.busy_seconds = 0.0

    def complete(self, requests: Sequence[LocalRequest]) -> list[Completion]:
        begun = time.monotonic()
        self.batches.append([one.seed for one in requests])
        self.started.set()
        self.go_on.wait(30)
        try:
            if any(one.seed < 0 for one in requests):
                raise BackboneError(f"{[one.seed for one in requests]} cannot be answered")
            return [Completion(str(one.seed)) for one in requests]
        finally:
            self.busy_seconds += time.monotonic() - begun


def ask_together(model: Model, jobs: Sequence[Sequence[int]]) -> list[object]:
    """The first job is being answered when the others arrive; what each thread got, or its error."""
    queue = CombiningQueue(model)

    def ask(seeds: Sequence[int]) -> object:
        try:
            completions, seconds = queue.complete([request(seed) for seed in seeds])
        except BackboneError as error:
            return str(error)
        return [completion.text for completion in completions], seconds * len(seeds)

    with ThreadPoolExecutor(len(jobs)) as pool:
        first = pool.submit(ask, jobs[0])
        assert model.started.wait(30)
        others = [pool.submit(ask, job) for job in jobs[1:]]
        while len(queue._waiting) < len(jobs) - 1:
            time.sleep(0.001)
        model.go_on.set()
        return [future.result(60) for future in (first, *others)]


def test_what_waits_is_answered_in_one_batch() -> None:
    model = Model()
    found = ask_together(model, [[1], [2, 3], [4], [5, 6, 7]])
    assert [texts for texts, _ in found] == [["1"], ["2", "3"], ["4"], ["5", "6", "7"]]  # type: ignore[misc]
    assert model.batches[0] == [1]
    assert sorted(model.batches[1]) == [2, 3, 4, 5, 6, 7]
    assert len(model.batches) == 2


def test_seconds_add_up_to_the_models_own_and_waiting_is_not_in_them() -> None:
    model = Model()
    found = ask_together(model, [[1], [2, 3], [4]])
    assert sum(seconds for _, seconds in found) == pytest.approx(model.busy_seconds, abs=0.02)  # type: ignore[misc]


def test_an_error_reaches_its_own_thread_alone() -> None:
    model = Model()
    found = ask_together(model, [[1], [2], [-3], [4]])
    assert found[2] == "[-3] cannot be answered"
    assert [texts for texts, _ in (found[0], found[1], found[3])] == [["1"], ["2"], ["4"]]  # type: ignore[misc]


def test_an_interrupted_thread_leaves_the_others_their_turn() -> None:
    class Interrupted(Model):
        def complete(self, requests: Sequence[LocalRequest]) -> list[Completion]:
            found = super().complete(requests)
            if len(self.batches) == 2:
                raise KeyboardInterrupt
            return found

    model = Interrupted()
    queue = CombiningQueue(model)
    answered: list[str] = []

    def ask(seed: int) -> None:
        try:
            answered.append(queue.complete([request(seed)])[0][0].text)
        except KeyboardInterrupt:
            answered.append("interrupted")

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    threads[0].start()
    assert model.started.wait(30)
    for thread in threads[1:]:
        thread.start()
    while len(queue._waiting) < 3:
        time.sleep(0.001)
    model.go_on.set()
    for thread in threads:
        thread.join(30)
    assert answered.count("interrupted") == 1
    assert len(answered) == 4


def test_threads_that_are_answered_ask_again_while_the_model_works_for_others() -> None:
    """Else a batch holds what one thread asks for, and the threads that it answered wait behind it."""
    threads = 6

    class Patient:
        """Works until every thread that is not in its batch stands in line."""

        queue: CombiningQueue

        def __init__(self) -> None:
            self.rows: list[int] = []
            self.left = threads

        def complete(self, requests: Sequence[LocalRequest]) -> list[Completion]:
            self.rows.append(len(requests))
            deadline = time.monotonic() + 20
            while len(requests) + len(self.queue._waiting) < self.left and time.monotonic() < deadline:
                time.sleep(0.001)
            assert time.monotonic() < deadline
            return [Completion(str(one.seed)) for one in requests]

    model = Patient()
    model.queue = CombiningQueue(model)

    def ask(first: int) -> list[str]:
        try:
            return [model.queue.complete([request(first + number)])[0][0].text for number in range(5)]
        finally:
            model.left -= 1

    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(ask, range(0, 100 * threads, 100)))
    assert found == [[str(100 * thread + number) for number in range(5)] for thread in range(threads)]
    assert sum(model.rows) == 5 * threads
