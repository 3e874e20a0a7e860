"""A real video of 650 seconds, and a witness: a model that knows when the events are and says what its frames show."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fake_models import StageModel, full
from tests.films import write_film
from trace_ves.agent import TRACE
from trace_ves.backbone.protocol import Request, ScriptedBackbone
from trace_ves.core import Answer, Interval, Question
from trace_ves.observer import Observer

Observing = Callable[..., Observer]


def within(start: float, end: float) -> dict[str, Any]:
    """An extraction that found one event."""
    return {"relevant": "yes", "spans": [{"start": start, "end": end, "claims": []}]}


FPS = 4
DURATION = 650
EVENTS = {
    "a frightened hunter": Interval(70, 76),
    "two frogs": Interval(592, 598),
    "a woman opens the attic window": Interval(118, 125),
}
HUNTER, FROGS, WOMAN = EVENTS
QUESTION = Question(
    "paper",
    "v.mp4",
    "In which order do these scenes appear?",
    (
        f"{HUNTER} -> {WOMAN} -> {FROGS}",
        f"{HUNTER} -> {FROGS} -> {WOMAN}",
        f"{WOMAN} -> {HUNTER} -> {FROGS}",
        f"{FROGS} -> {WOMAN} -> {HUNTER}",
    ),
    "temporal-ordering",
)
"""The paper's example: A at 70-76 s, C at 118-125 s, B at 592-598 s; the right order is the first option."""


def actions(answer: Answer) -> list[str]:
    """What the reconciler chose to do, in the order of the rounds."""
    return [d["action"]["action"] for r in answer.record["rounds"] for d in r["decisions"] if d["action"]]


def stages(observer: Observer) -> list[tuple[str, int]]:
    """The stage of each call, and how many frames it was given."""
    return [(call.stage, len(call.timestamps)) for call in observer.log.calls]


@pytest.fixture(scope="session")
def video_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """650 seconds of grey, four frames a second."""
    shades = (number % 251 for number in range(FPS * DURATION))
    return write_film(tmp_path_factory.mktemp("videos") / "long.mp4", shades, fps=FPS, size=(32, 32))


class Witness(StageModel):
    """Answers every stage from the frames of that call alone; any stage can be given other words to say."""

    def __init__(
        self,
        overrides: Mapping[str, Any] | None = None,
        candidates: Sequence[Sequence[tuple[float, float]]] = (((65, 80), (112, 128), (586, 601)),),
    ) -> None:
        super().__init__(overrides)
        self.candidates = list(candidates)
        """What each proposal or EXPAND names, one list after another; then nothing."""

    def __call__(self, request: Request[Any]) -> Any:
        return full(request, super().__call__(request))

    def seen(self, request: Request[Any]) -> dict[str, Interval]:
        moments = [frame.seconds for clip in request.clips for frame in clip.frames]
        return {event: span for event, span in EVENTS.items() if sum(moment in span for moment in moments) >= 2}

    def claims(self, request: Request[Any]) -> Any:
        return {"claims": [{"claim": "what is seen"}]}

    def temporal_proposal(self, request: Request[Any]) -> Any:
        named = self.candidates.pop(0) if self.candidates else []
        notes = [{"start": 0, "end": 325, "note": "day"}] if request.clips else []
        ids = [claim["id"] for claim in request.variables["claims"]]
        candidates = [{"start": a, "end": b, "moment": (a + b) / 2, "claims": ids} for a, b in named]
        return {"notes": notes, "candidates": candidates}

    def anchor_extraction(self, request: Request[Any]) -> Any:
        seen = self.seen(request)
        if not seen:
            return {"relevant": "no"}
        return within(min(s.start for s in seen.values()), max(s.end for s in seen.values()))

    def anchor_prioritization(self, request: Request[Any]) -> Any:
        return {"order": list(range(1, len(request.clips) + 1))}

    def evidence_assembly(self, request: Request[Any]) -> Any:
        seen = self.seen(request)
        ids = {event: c["id"] for c in request.variables["claims"] for event in EVENTS if event in c["claim"]}
        done = len(seen) == len(EVENTS)
        return {
            "facts_supported": [
                {"claim": ids[event], "spans": [{"start": s.start, "end": s.end}]} for event, s in seen.items()
            ],
            "unmet_needs": [name for event, name in ids.items() if event not in seen],
            "status": "answerable" if done else "insufficient",
            "answer": "A" if done else None,
        }

    def trajectory_reconciler(self, request: Request[Any]) -> Any:
        if request.variables["actions"] == "DROP":
            return {"action": "DROP", "target_anchors": request.variables["conflict_set"]}
        if "EXPAND" not in request.variables["actions"]:
            names = [anchor["anchor"] for anchor in request.variables["anchors"]]
            return {"action": "REFINE", "target_anchors": names, "observation_strategy": "raise-frame-rate"}
        pieces = [[p["start"], p["end"]] for p in request.variables["unexplored_segments"]]
        return {"action": "EXPAND", "target_intervals": list(self.candidates.pop(0)) if self.candidates else pieces}

    def final_answer_replay(self, request: Request[Any]) -> Any:
        return {"answer": "A" if len(self.seen(request)) == len(EVENTS) else None}

    def forced_answer(self, request: Request[Any]) -> Any:
        return {"answer": "A" if len(self.seen(request)) == len(EVENTS) else "C"}


@pytest.fixture
def observing(video_path: Path) -> Callable[..., Observer]:
    """An observer of the long video whose model is the given witness."""
    from trace_ves import video

    def make(witness: Callable[[Request[Any]], Any], budget: int = 200) -> Observer:
        return Observer(video.open(video_path), ScriptedBackbone(witness), budget=budget)

    return make


Searching = Callable[..., tuple[Any, Witness, Observer]]


@pytest.fixture
def searching(observing: Observing) -> Searching:
    """Ask the question of the paper: the answer, the witness, and the observer."""

    def ask(
        said: Any = None, *candidates: Any, method: Any = TRACE, budget: int = 200
    ) -> tuple[Answer, Witness, Observer]:
        witness = Witness(said, candidates) if candidates else Witness(said)
        observer = observing(witness, budget)
        return method(QUESTION, observer), witness, observer

    return ask
