"""Whatever a model says, the supplied frames never pass the budget and the search always ends."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agent.conftest import QUESTION
from trace_ves.agent import TRACE, VARIANTS
from trace_ves.agent.budget import affordable, round_frames
from trace_ves.agent.records import VisualAnchor
from trace_ves.agent.settings import TraceSettings
from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.backbone.scripted import ScriptedBackbone
from trace_ves.core import Clip, Frame, Interval, ObservationStrategy, Termination
from trace_ves.observer import Observer
from trace_ves.records.trace import Candidate

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Blank:
    """A picture of nothing: only its size is ever asked for."""

    width: int = 16
    height: int = 9

    def jpeg(self, quality: int = 90) -> bytes:
        raise NotImplementedError

    def rgb(self) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class ClockVideo:
    """A video whose frames are their timestamps."""

    duration: float

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        return tuple(Frame(int(s * 10), int(s * 10) / 10, Blank()) for s in seconds)


@dataclass
class Babble:
    """Says something valid, and otherwise anything."""

    seed: int
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def moment(self) -> float:
        return self.random.uniform(-20, 700)

    def __call__(self, request: Request[Any]) -> Any:
        if self.random.random() < 0.1:
            return ModelFault("babble")
        return request.reply.model_validate(getattr(self, request.stage.replace("-", "_"))(request))

    def temporal_proposal(self, request: Request[Any]) -> Any:
        looks = ["general", "fast-motion", "small-object", "text", "state-change"]
        return {
            "candidates": [
                {
                    "start": (a := self.moment()),
                    "end": a + self.random.uniform(-5, 60),
                    "look_for": self.random.choice(looks),
                }
                for _ in range(self.random.randrange(6))
            ]
        }

    def anchor_extraction(self, request: Request[Any]) -> Any:
        return {"relevant": self.random.random() < 0.7, "start": self.moment(), "end": self.moment()}

    def anchor_prioritization(self, request: Request[Any]) -> Any:
        return {"order": [self.random.randrange(-1, 8) for _ in range(6)]}

    def evidence_assembly(self, request: Request[Any]) -> Any:
        claims = [claim["id"] for claim in request.variables["claims"]]
        return {
            "facts_supported": [
                {"claim": claim, "start": (a := abs(self.moment())), "end": a + 5}
                for claim in claims
                if self.random.random() < 0.5
            ],
            "unmet_needs": [claim for claim in claims if self.random.random() < 0.2],
            "status": self.random.choice(["answerable", "answerable", "insufficient", "conflicted"]),
            "answer": self.random.choice(["A", "A", "B", None]),
        }

    def trajectory_reconciler(self, request: Request[Any]) -> Any:
        return {
            "action": self.random.choice(["DROP", "REFINE", "EXPAND"]),
            "target_anchors": request.variables["conflict_set"] + [f"a{self.random.randrange(9)}"],
            "target_intervals": [[self.moment(), self.moment()] for _ in range(3)],
            "observation_strategy": self.random.choice(
                ["raise-frame-rate", "raise-resolution", "narrow-span", "shift-centre", None]
            ),
        }

    def final_answer_replay(self, request: Request[Any]) -> Any:
        return {"answer": self.random.choice(["A", "B", None])}


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    budget=st.integers(TRACE.settings.least_budget, 400),
    duration=st.floats(1, 3000),
    variant=st.sampled_from(sorted(VARIANTS)),
)
def test_no_search_passes_its_budget_and_every_search_ends(
    seed: int, budget: int, duration: float, variant: str
) -> None:
    observer = Observer(ClockVideo(duration), ScriptedBackbone(Babble(seed)), budget=budget)
    answer = VARIANTS[variant](QUESTION, observer)
    assert observer.log.frames_supplied <= budget
    assert len(answer.record["rounds"]) <= TRACE.settings.max_rounds
    stable = answer.termination is Termination.STABLE_PREFIX_FOUND
    assert stable == (answer.record["stable_prefix"] is not None)
    # a stop is earned: some replay, or the record where there is none, agreed
    assert not stable or (answer.option is not None and answer.record["rounds"][-1]["replay"]["agrees"])
    replays = [call for call in observer.log.calls if call.stage == "final-answer-replay"]
    assert answer.option is None or replays or variant == "trace-without-replay"


LOOK = ObservationStrategy(fps=0.5)
ROOMY = TraceSettings(candidate_frames=8, most_anchor_frames=5)


def anchor(name: str, frames: int) -> VisualAnchor:
    span = Interval(0, 16)
    return VisualAnchor(
        name, Candidate(span, LOOK), Clip(span, LOOK, tuple(Frame(n, n, Blank()) for n in range(frames)))
    )


def test_a_round_costs_looking_reading_the_new_bundles_and_replay() -> None:
    new = Candidate(Interval(20, 36), LOOK)
    assert round_frames([new], (), ROOMY) == 8 + 5 + 5
    assert round_frames([new, new], (), ROOMY) == 16 + (5 + 10) + 10
    assert round_frames([new], (anchor("a1", 4), anchor("a2", 3)), ROOMY) == 8 + 12 + 12


def test_a_closer_look_may_take_twice_the_frames_and_renews_the_bundles_behind_it() -> None:
    again = Candidate(Interval(0, 16), ObservationStrategy(fps=2), replaces="a1")
    assert round_frames([again], (anchor("a1", 4), anchor("a2", 3)), ROOMY) == 16 + (3 + 8) + 8


def test_only_as_many_candidates_are_taken_as_the_round_can_finish() -> None:
    new = tuple(Candidate(Interval(20 * n, 20 * n + 16), LOOK) for n in range(3))
    needed = round_frames(new[:2], (), ROOMY)
    assert affordable(new, (), needed, ROOMY) == new[:2]
    assert affordable(new, (), needed - 1, ROOMY) == new[:1]
    assert affordable(new, (), 17, ROOMY) == ()
