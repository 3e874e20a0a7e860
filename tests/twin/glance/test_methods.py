"""The real methods over glance: each finds its answer in frames alone, and pays as it is defined to."""

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.twin.glance.conftest import ArrayPicture, CodeVideo, Entrance, read_code

from trace_ves.core import Answer, Question, Termination
from trace_ves.observer import Observer
from trace_ves.runs.methods import default_budget, open_method
from trace_ves.twin.glance.glance import Glance
from trace_ves.twin.glance.sightings import View

ORDER = Question(
    "order",
    "v.mp4",
    "In what order do these things happen: a taxi goes by, a fox appears and a bee flutters past?",
    ("taxi → bee → fox", "bee → taxi → fox", "taxi → fox → bee", "fox → taxi → bee"),
    "temporal-ordering",
)
COUNT = Question("count", "v.mp4", "How many times does a taxi go by?", ("2", "3", "4", "5"), "event-counting")
VIDEO = CodeVideo(
    430.0,
    (
        *(Entrance("taxi", start, start + 18, size=size) for start, size in ((20, 0.1), (90, 0.2), (160, 0.3))),
        Entrance("fox", 250, 258),
        Entrance("bee", 345, 352),
        Entrance("bus", 130, 138),
    ),
    ((0.0, "street"), (210.0, "forest"), (320.0, "park"), (390.0, "office")),
)
ONE_EACH = CodeVideo(
    430.0, (Entrance("taxi", 96, 103), Entrance("fox", 250, 258), Entrance("bee", 345, 352)), VIDEO.scenes
)


def answered(method: str, question: Question, video: CodeVideo) -> tuple[Answer, Observer]:
    observer = Observer(video, Glance(read_code), budget=default_budget(open_method(method)))
    answer = open_method(method)(question, observer)
    assert [call.fault for call in observer.log.calls if call.fault] == []
    return answer, observer


@pytest.mark.parametrize(
    "method", ["uniform-128", "vca-unlimited", "avp", "trace", "trace-without-replay", "trace-chronological"]
)
def test_orders_and_counts_are_found(method: str) -> None:
    assert answered(method, ORDER, ONE_EACH)[0].option == "C"
    counts = method in {"uniform-128", "avp", "trace"}
    assert not counts or answered(method, COUNT, VIDEO)[0].option == "B"


def test_trace_earns_its_stop_on_an_order_and_claims_none_on_a_count() -> None:
    order, observer = answered("trace", ORDER, ONE_EACH)
    assert order.termination is Termination.STABLE_PREFIX_FOUND
    assert observer.log.frames_supplied <= 128
    shown = [frame.seconds for clip in order.bundle for frame in clip.frames]
    assert all(sum(e.start <= t <= e.end for t in shown) >= 2 for e in ONE_EACH.entrances)
    count, _ = answered("trace", COUNT, VIDEO)
    assert count.termination is Termination.NO_STABLE_PREFIX  # a fourth taxi could be where nobody looked


@pytest.mark.parametrize("method", ["trace", "uniform-16", "avp", "vca"])
def test_nothing_is_kept_between_questions(method: str) -> None:
    """The same backbone, asked about something else in between, says the same."""
    backbone = Glance(read_code)
    answers = []
    for question, video in ((ORDER, ONE_EACH), (COUNT, VIDEO), (ORDER, ONE_EACH)):
        observer = Observer(video, backbone, budget=default_budget(open_method(method)))
        answers.append((open_method(method)(question, observer), observer.log.timestamps))
    assert answers[0] == answers[2]


def test_the_eyes_get_pixels_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look is a call with one array, equal to some frame's pixels."""
    monkeypatch.delattr(ArrayPicture, "jpeg")  # glance never compresses
    looks: list[NDArray[np.uint8]] = []

    def watching(pixels: NDArray[np.uint8]) -> View:
        looks.append(pixels)
        return read_code(pixels)

    observer = Observer(ONE_EACH, Glance(watching), budget=128)
    open_method("trace")(ORDER, observer)
    known = {ONE_EACH.frame(seconds).rgb().tobytes() for seconds in observer.log.timestamps}
    assert {pixels.tobytes() for pixels in looks} == known
