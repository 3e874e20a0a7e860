"""Requests of several threads are answered together, each thread gets its own, and waiting is charged to nobody."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from trace_ves.backbone.hf import combining_queue
from trace_ves.backbone.hf.combining_queue import CombiningQueue, LocalRequest
from trace_ves.backbone.provider import Completion
from trace_ves.core import BackboneError


def request(number: int) -> LocalRequest:
    return LocalRequest((), {}, seed=number)


Answer = Callable[[int, Completion], None]


class Plain:
    """Prepares nothing."""

    def prepare(self, requests: Sequence[LocalRequest]) -> Sequence[LocalRequest]:
        return requests


class Model(Plain):
    """Says each request's seed. Its first call waits until others stand in line; each request takes a second."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go_on = threading.Event()
        self.started = threading.Event()
        self.clock = 0.0

    def complete(self, requests: Sequence[LocalRequest], answer: Answer) -> None:
        self.batches.append([one.seed for one in requests])
        self.started.set()
        self.go_on.wait(30)
        if any(one.seed < 0 for one in requests):
            raise BackboneError(f"{[one.seed for one in requests]} cannot be answered")
        self.clock += len(requests)
        for number, one in enumerate(requests):
            answer(number, Completion(str(one.seed)))


def ask_together(model: Model, jobs: Sequence[Sequence[int]]) -> list[object]:
    """The first job is being answered when the others arrive; what each thread got, or its error."""
    queue = CombiningQueue(model)

    def ask(seeds: Sequence[int]) -> object:
        try:
            completions, seconds = queue.complete([request(seed) for seed in seeds])
        except (BackboneError, KeyboardInterrupt) as error:
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


def test_what_waits_is_answered_in_one_batch_and_waiting_is_not_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    monkeypatch.setattr(combining_queue, "time", SimpleNamespace(monotonic=lambda: model.clock))
    found = ask_together(model, [[1], [2, 3], [4], [5, 6, 7]])
    assert found == [(["1"], 1), (["2", "3"], 2), (["4"], 1), (["5", "6", "7"], 3)]
    assert model.batches[0] == [1]
    assert sorted(model.batches[1]) == [2, 3, 4, 5, 6, 7]
    assert len(model.batches) == 2


def test_an_error_reaches_its_own_thread_alone() -> None:
    model = Model()
    found = ask_together(model, [[1], [2], [-3], [4]])
    assert found[2] == "[-3] cannot be answered"
    assert [texts for texts, _ in (found[0], found[1], found[3])] == [["1"], ["2"], ["4"]]  # type: ignore[misc]


def test_an_interrupted_thread_leaves_the_others_their_turn() -> None:
    class Interrupted(Model):
        def complete(self, requests: Sequence[LocalRequest], answer: Answer) -> None:
            if len(self.batches) == 1:
                self.batches.append([])
                raise KeyboardInterrupt("interrupted")
            super().complete(requests, answer)

    answers = ask_together(Interrupted(), [[0], [1], [2], [3]])
    assert answers.count("interrupted") == 1
    assert sum(isinstance(answer, tuple) for answer in answers) == 3


def test_a_thread_whose_reply_is_complete_leaves_and_asks_again_before_the_batch_is_over() -> None:
    class OneByOne(Plain):
        """Answers the second batch one by one, each after the thread before it has asked again."""

        queue: CombiningQueue[LocalRequest]
        batches = 0

        def complete(self, requests: Sequence[LocalRequest], answer: Answer) -> None:
            self.batches += 1
            for number, one in enumerate(requests):
                answer(number, Completion(str(one.seed)))
                deadline = time.monotonic() + 20
                while self.batches == 2 and number and len(self.queue._waiting) < number:
                    assert time.monotonic() < deadline
                    time.sleep(0.001)
            if self.batches == 2:
                raise BackboneError("Too late to matter.")
            while self.batches == 1 and len(self.queue._waiting) < 3:
                time.sleep(0.001)

    model = OneByOne()
    model.queue = CombiningQueue(model)

    def ask(first: int) -> list[str]:
        return [model.queue.complete([request(first + number)])[0][0].text for number in range(3)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(0, 400, 100)))
    assert found == [[str(first + number) for number in range(3)] for first in range(0, 400, 100)]
