"""How many requests start, and when: with a clock of our own, so that nothing is waited for."""

from types import SimpleNamespace

import pytest
from tests.fakes import GOOD, ScriptedProvider, make_request, quick_backbone

from trace_ves.backbone import attempts
from trace_ves.backbone.attempts import Slots
from trace_ves.backbone.provider import Completion, ServiceError
from trace_ves.core import BackboneError


class Clock:
    """Time passes only in waits."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float | None] = []

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float | None = None) -> bool:
        self.waits.append(seconds)
        assert seconds is not None, "this wait would never end"
        self.now += seconds
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(attempts, "time", SimpleNamespace(monotonic=made.monotonic))
    return made


@pytest.fixture
def slots(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Slots:
    made = Slots(1)
    monkeypatch.setattr(made._changed, "wait", clock.wait)
    return made


def starts(slots: Slots, clock: Clock, count: int) -> list[float]:
    """When so many requests start that each take no time, in seconds after 1000."""
    found = []
    for _ in range(count):
        with slots.taken():
            found.append(round(clock.now - 1000.0, 6))
    return found


def test_without_a_rate_limit_nobody_waits_and_each_slot_is_given_back(slots: Slots, clock: Clock) -> None:
    assert starts(slots, clock, 3) == [0, 0, 0]
    with slots.taken():
        with slots.lent(), slots.taken():
            pass
        with pytest.raises(AssertionError, match="this wait would never end"):
            slots._take()
    assert clock.waits == [None]


def test_after_a_rate_limit_requests_start_at_the_rate_that_was_accepted_and_then_faster(
    slots: Slots, clock: Clock
) -> None:
    starts(slots, clock, 4)
    clock.now += 10
    with slots.taken():
        slots.slow_down(clock.now, 20.0)  # in 30 s, 5 requests of which 4 were accepted: one in 7.5 s
    assert starts(slots, clock, 3) == [30, 37.5, 45]
    slots.speed_up()
    assert starts(slots, clock, 3) == [52.5, 59.625, 66.75]  # 7.125 s


def test_requests_sent_before_the_pause_only_correct_its_rate(slots: Slots, clock: Clock) -> None:
    starts(slots, clock, 4)
    slots.slow_down(clock.now, 12.0)  # 3 of 4 accepted
    slots.slow_down(clock.now + 11.9, 99.0)  # 2 of 4
    assert starts(slots, clock, 2) == [12, 18]
    for _ in range(3):
        slots.slow_down(1000.0, 99.0)  # none: one in 12 s, not less
    assert starts(slots, clock, 2) == [24, 36]
    slots.slow_down(1012.0, 5.0)  # sent after the pause: one of its own, after 4 starts in 29 s
    assert starts(slots, clock, 2) == [41, 50.666667]


def test_only_the_starts_of_the_last_minute_count(slots: Slots, clock: Clock) -> None:
    for seconds in (0.0, 1.0, 60.0):
        clock.now = 1000.0 + seconds
        starts(slots, clock, 1)
    assert list(slots._starts) == [1000.0, 1001.0, 1060.0]
    clock.now = 1060.5
    starts(slots, clock, 1)
    assert list(slots._starts) == [1001.0, 1060.0, 1060.5]


def test_a_pause_without_any_start_is_as_long_as_asked(slots: Slots, clock: Clock) -> None:
    slots.slow_down(clock.now, 3.0)
    assert starts(slots, clock, 2) == [3, 6]


@pytest.mark.parametrize(
    ("outcomes", "calls", "sentence"),
    [
        ([ServiceError(None, "gone", unreachable=True)], 4, "scripted:m: no connection after 4 attempts (gone); is "),
        (
            [ServiceError(503, "busy", retry_after_seconds=99.0)],
            1,
            "scripted:m: no answer within 20 s after 1 attempt;",
        ),
        (
            [ServiceError(503, "busy"), ServiceError(503, "busy.", retry_after_seconds=99.0)],
            2,
            "scripted:m: no answer within 20 s after 2 attempts; the last ended with HTTP 503: busy.",
        ),
        ([ServiceError(400, "no")], 1, "scripted:m: the service refused the request (HTTP 400): no."),
    ],
)
def test_what_is_said_when_a_request_is_given_up(outcomes: list[ServiceError], calls: int, sentence: str) -> None:
    provider = ScriptedProvider(*outcomes)
    with pytest.raises(BackboneError) as caught:
        quick_backbone(provider).generate([make_request()])
    assert str(caught.value).startswith(sentence)
    assert provider.calls == calls


@pytest.mark.parametrize("first", [Completion(GOOD), ServiceError(503, "busy")])
def test_one_that_answered_once_is_waited_for(first: Completion | ServiceError) -> None:
    gone = ServiceError(None, "gone", unreachable=True)
    provider = ScriptedProvider(first, *[gone] * 6, Completion(GOOD))  # never reached, it would get four
    backbone = quick_backbone(provider)
    replies = [backbone.generate([make_request()])[0].reply.colour for _ in range(2)]
    assert (replies, provider.calls) == (["red", "red"], 8 if isinstance(first, Completion) else 9)
