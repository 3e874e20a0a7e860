"""The ablations of TRACE: what each leaves out, and nothing else."""

import json
from typing import Any

from tests.agent.conftest import Searching, actions, stages
from trace_ves.agent import VARIANTS
from trace_ves.core import Termination


def test_chronological_layout_shows_clips_in_order_of_time(searching: Searching) -> None:
    backwards = {"anchor-prioritization": lambda r: {"order": list(range(len(r.clips), 0, -1))}}
    for name, expected in (("trace", True), ("trace-chronological", False)):
        _, witness, _ = searching(backwards, method=VARIANTS[name])
        starts = [clip.span.start for clip in witness.of("evidence-assembly")[-1].clips]
        assert (starts == sorted(starts, reverse=True)) is expected


def test_resupplied_storyboard_is_paid_again(searching: Searching) -> None:
    spans = [(65, 80), (112, 128)], [(586, 601)]
    _, _, observer = searching(None, *spans, method=VARIANTS["trace-resupply-storyboard"])
    assert [n for stage, n in stages(observer) if stage == "temporal-proposal"][:2] == [32, 32]


def test_without_replay_the_record_is_trusted(searching: Searching) -> None:
    answer, witness, _ = searching({"final-answer-replay": {"answer": "D"}}, method=VARIANTS["trace-without-replay"])
    assert (answer.option, answer.termination) == ("A", Termination.STABLE_PREFIX_FOUND)
    assert not witness.of("final-answer-replay")


def test_without_trajectory_prefixes_are_read_but_the_reconciler_knows_the_last_alone(searching: Searching) -> None:
    """The second prefix flips the answer: a conflict for TRACE, which nobody knows of without the trajectory."""

    def assembly(request: Any) -> Any:
        return {"status": "answerable", "answer": "B" if len(request.clips) == 2 else "A"}

    told = {}
    for name in ("trace", "trace-without-trajectory"):
        answer, witness, _ = searching({"evidence-assembly": assembly}, method=VARIANTS[name])
        assert [len(request.clips) for request in witness.of("evidence-assembly")][:3] == [1, 2, 3]
        told[name] = answer.record["rounds"][0]["flags"]
    assert told["trace"]["conflicts"] == ["a2", "a3"]
    assert told["trace-without-trajectory"] == {"stable_prefix": 0, "conflicts": [], "unmet_needs": []}


def test_without_expand_nothing_new_is_ever_searched_and_expand_is_never_offered(searching: Searching) -> None:
    refine = {"action": "REFINE", "target_anchors": ["a1"], "observation_strategy": "raise-frame-rate"}
    spans, method = ([(65, 80), (112, 128)], [(586, 601)]), VARIANTS["trace-without-expand"]
    answer, witness, _ = searching({"trajectory-reconciler": refine}, *spans, method=method, budget=400)
    assert answer.termination is Termination.NO_STABLE_PREFIX
    assert "EXPAND" not in actions(answer)
    assert len(witness.of("temporal-proposal")) == 1
    control = witness.of("trajectory-reconciler")[0]
    assert "EXPAND" not in control.text
    assert "EXPAND" not in json.dumps(control.reply.model_json_schema())
    assert "EXPAND" not in control.variables["costs"]


def test_fixed_rounds_never_stop_by_rule(searching: Searching) -> None:
    answer, _, _ = searching(method=VARIANTS["trace-fixed-rounds"])
    assert (answer.option, answer.termination) == ("A", Termination.NO_STABLE_PREFIX)
    assert len(answer.record["rounds"]) == 2
