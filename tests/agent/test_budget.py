"""Whatever a model says, the supplied frames never pass the budget, the search always ends, and it goes as it went.

After a change of the search that is meant: `python -m tests.agent.test_budget` writes tests/agent/searches.txt again.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.agent.conftest import QUESTION
from tests.fake_models import StageModel
from trace_ves.agent import TRACE, VARIANTS
from trace_ves.agent.anchors import VisualAnchor
from trace_ves.agent.budget import choose_anchor_frames, count_looks, estimate_action_costs, select_affordable
from trace_ves.agent.settings import TraceSettings
from trace_ves.backbone.protocol import ModelFault, Request, ScriptedBackbone
from trace_ves.core import Clip, Frame, Interval, ObservationStrategy, Termination
from trace_ves.core.display import STAGES
from trace_ves.observer import Observer
from trace_ves.records.search import Candidate


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


@cache
def schema_of(reply: type[BaseModel]) -> dict[str, Any]:
    return reply.model_json_schema()


class Babble:
    """Says anything that a reply's schema allows, or nothing that can be read; how much is seen is as in life."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def __call__(self, request: Request[Any]) -> Any:
        if self.random.random() < 0.1:
            return ModelFault("babble")
        schema = schema_of(request.reply)
        said = self.anything(schema, schema.get("$defs", {}))
        for candidate in said.get("candidates", ()):
            candidate["end"] = candidate["start"] + self.random.uniform(-5, 60)
        if request.stage == "evidence-assembly":
            said["unmet_needs"] = [claim for claim in sorted(set(said["unmet_needs"])) if self.random.random() < 0.3]
            said["status"] = self.random.choice(["answerable", "answerable", "insufficient", "conflicted"])
            said["answer"] = self.random.choice(["A", "A", "B", None])
        return said

    def anything(self, schema: Any, definitions: Any) -> Any:
        if "$ref" in schema:
            return self.anything(definitions[schema["$ref"].rpartition("/")[2]], definitions)
        if "anyOf" in schema:
            return self.anything(self.random.choice(schema["anyOf"]), definitions)
        if choices := schema.get("enum") or ("const" in schema and [schema["const"]]):
            return self.random.choice(choices)
        parts = schema.get("prefixItems") or [schema.get("items")] * self.random.randrange(schema.get("minItems", 0), 6)
        return {
            "object": lambda: {k: self.anything(v, definitions) for k, v in schema["properties"].items()},
            "array": lambda: [self.anything(part, definitions) for part in parts],
            "string": lambda: self.random.choice(["event-1", "look-1", "look-2", "a1", "a2", "a3"]),
            "number": lambda: self.random.uniform(-20, 700),
            "integer": lambda: self.random.randrange(-1, 8),
            "boolean": lambda: self.random.random() < 0.5,
            "null": lambda: None,
        }[schema["type"]]()


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
    faulty = any(call.fault for call in observer.log.calls if call.stage == "forced-answer")
    assert answer.option is not None or faulty or observer.remaining == 0  # a forced answer is an answer
    read = {
        time
        for call in observer.log.calls
        if call.stage in ("evidence-assembly", "final-answer-replay", "forced-answer")
        for time in call.timestamps
    }
    anchors = [anchor for record in answer.record["rounds"] for anchor in record["anchors"]]
    assert all(set(anchor["clip"]["timestamps"]) <= read for anchor in anchors) or faulty or stable


class Witness(Babble):
    """The same, but what it sees lies in what it is shown."""

    def __call__(self, request: Request[Any]) -> Any:
        said = super().__call__(request)
        for span in said.get("spans", ()) if isinstance(said, dict) else ():
            span["start"] = self.random.uniform(request.clips[0].span.start, request.clips[0].span.end)
            span["end"] = span["start"] + self.random.uniform(-1, 15)
        return said


SEARCHES = Path(__file__).with_name("searches.txt")


def searches() -> Iterator[str]:
    """Every call of forty searches: the stage, which frames, and a digest of what the prompt says; and how they end."""
    for seed in range(40):
        name, model = sorted(VARIANTS)[seed % len(VARIANTS)], StageModel(dict.fromkeys(STAGES, Witness(seed)))
        question = replace(QUESTION, family=("temporal-ordering", "event-counting")[seed % 2])
        answer = VARIANTS[name](question, Observer(ClockVideo(600), ScriptedBackbone(model), budget=60 + 7 * seed))
        yield f"{seed} {name}: {answer.option} {answer.termination} {digest(answer.record)}"
        for request in model.requests:
            seconds = [frame.seconds for clip in request.clips for frame in clip.frames]
            shown = f"{len(seconds)} from {seconds[0]} to {seconds[-1]}" if seconds else "none"
            yield f"  {request.stage} {shown} {digest([seconds, request.variables])}"


def digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def test_searches_go_as_they_went() -> None:
    assert list(searches()) == SEARCHES.read_text(encoding="utf-8").splitlines()


LOOK = ObservationStrategy(fps=0.5)
SMALL = TraceSettings(candidate_frames=8, least_anchor_frames=3, most_anchor_frames=4)


def look(start: float, frames: int = 8) -> Candidate:
    return Candidate(Interval(start, start + 16), LOOK, frames)


def anchor(name: str, frames: int) -> VisualAnchor:
    span = Interval(0, 16)
    return VisualAnchor(
        name, Candidate(span, LOOK), Clip(span, LOOK, tuple(Frame(n, n, Blank()) for n in range(frames)))
    )


TWO = (anchor("a1", 4), anchor("a2", 3))


def test_looks_leave_a_trajectory_or_else_its_largest_bundle_or_else_one_call_over_everything() -> None:
    new = (look(20), look(40), look(60))
    assert select_affordable(new, TWO, 24 + 30, 30, SMALL) == new
    assert select_affordable(new, TWO, 24 + 29, 30, SMALL) == new[:2]
    assert select_affordable(new, TWO, 8 + 30, 30, SMALL) == new[:1]
    # No whole trajectory any more: 7 frames of the anchors and 3 of a new one can still be read and replayed.
    assert select_affordable(new, TWO, 24 + 20, 60, SMALL) == new
    assert select_affordable(new, TWO, 24 + 19, 60, SMALL) == new[:2]
    assert count_looks(TWO, 8 + 20, 60, SMALL) == 1
    # No stop either: 7 frames and 3 for each look can still be read once.
    assert select_affordable(new, TWO, 8 + 19, 60, SMALL) == new[:1]
    assert (
        select_affordable(new, TWO, 16 + 7 + 6, 60, SMALL) == new[:1]
    )  # a stop with one look, before two looks without
    assert select_affordable(new[:1], (), 8 + 16, 60, SMALL) == new[:1]  # half the storyboard where there is no anchor
    assert select_affordable((), TWO, 400, 30, SMALL) == ()
    large = (look(20, 50), look(60, 50))  # more than the 40 frames of a round, which one look may take
    assert select_affordable(large, TWO, 400, 30, SMALL) == large[:1]


def test_the_last_look_is_as_large_as_what_is_left_beside_reading_everything() -> None:
    (last,) = select_affordable([look(20)], TWO, 7 + 3 + 5, 60, SMALL)
    assert (last.frames, last.span) == (5, Interval(23, 33))
    (last,) = select_affordable([Candidate(Interval(20, 60), LOOK, 8)], TWO, 7 + 3 + 3, 60, SMALL)
    assert (last.frames, last.span) == (3, Interval(37, 43))  # as wide as three frames can see
    assert select_affordable([look(20)], TWO, 7 + 3 + 2, 60, SMALL) == ()
    assert estimate_action_costs(TWO, SMALL) == {"DROP": 7, "REFINE": 3 + 3 + 7, "EXPAND": 3 + 3 + 7}


@pytest.mark.parametrize(
    ("kept", "found", "remaining", "frames"),
    [
        (0, 2, 20, 4),  # bundles of 4 and 8, and a replay of 8
        (0, 2, 19, 3),
        (3, 1, 14, 4),  # a bundle of 7 and its replay
        (3, 1, 13, 3),
        (3, 2, 8, 2),  # not even the least can be read together
        (3, 2, 4, 1),
        (3, 0, 5, 4),  # nothing was found: only the replay
        (3, 0, 2, 1),
    ],
)
def test_an_anchor_has_the_most_frames_with_which_everything_can_be_read(
    kept: int, found: int, remaining: int, frames: int
) -> None:
    assert choose_anchor_frames(kept, found, remaining, TraceSettings()) == frames


if __name__ == "__main__":
    SEARCHES.write_text("\n".join([*searches(), ""]), encoding="utf-8")
