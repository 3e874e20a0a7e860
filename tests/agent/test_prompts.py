"""What a model is asked: what was seen before the verdict, no example to copy, nothing refused for its length."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import trace_ves
from trace_ves.agent.anchor_extraction import ExtractionReply
from trace_ves.agent.anchor_prioritization import PriorityReply
from trace_ves.agent.anchors import Inquiry
from trace_ves.agent.claims import ClaimsReply
from trace_ves.agent.evidence_assembly import AssemblyReply, make_assembly_reply
from trace_ves.agent.temporal_proposal import ProposalReply
from trace_ves.agent.trajectory_reconciler import PROMPT, ControlReply, restrict_prompt
from trace_ves.backbone.replies import answer_reply, restrict_answer
from trace_ves.baselines.avp import AvpReflection
from trace_ves.baselines.vca import VcaExploration
from trace_ves.core import Question
from trace_ves.records.search import Claim

PROMPTS = {path.stem: path.read_text() for path in Path(trace_ves.__path__[0]).glob("*/prompts/*.md")}
QUESTION = Question("q", "v.mp4", "Which?", ("one", "two"))
ASSEMBLY = make_assembly_reply(Inquiry(QUESTION, (Claim("c1", "what"),), None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reply", "first", "verdict"),
    [
        (ExtractionReply, "seen", "relevant"),
        (PriorityReply, "seen", "order"),
        (ProposalReply, "notes", "candidates"),
        *((ASSEMBLY, first, "answer") for first in ("seen", "facts_supported", "unmet_needs", "status")),
        (restrict_answer(AvpReflection, QUESTION), "justification", "sufficient"),
        (restrict_answer(AvpReflection, QUESTION), "sufficient", "answer"),
        (restrict_answer(VcaExploration, QUESTION), "seen", "action"),
    ],
)
def test_a_model_writes_what_it_saw_before_its_verdict(reply: type[BaseModel], first: str, verdict: str) -> None:
    fields = list(reply.model_json_schema()["properties"])
    assert fields.index(first) < fields.index(verdict)


@pytest.mark.parametrize("stage", sorted(PROMPTS.keys() - {"same-answer"}))
def test_no_example_is_an_answer_that_could_be_copied(stage: str) -> None:
    examples = re.findall(r"\{\"[^\n]*\}", PROMPTS[stage])
    assert not [text for text in examples if re.search(r'"(?:insufficient|answerable|EXPAND)"|: null\b', text)]


@pytest.mark.parametrize("stage", ["forced-answer", "direct-answer", "avp-answer", "vca-answer"])
def test_a_forced_choice_says_so_in_words_and_in_its_schema(stage: str) -> None:
    assert "always answer" in PROMPTS[stage] or "never null" in PROMPTS[stage]
    forced = answer_reply(QUESTION, forced=True)
    assert "null" not in str(forced.model_json_schema())
    with pytest.raises(ValidationError):
        forced.model_validate({"answer": None})
    assert forced.model_validate({"answer": "(b)"}).answer == "B"
    assert answer_reply(QUESTION).model_validate({"answer": None}).answer is None
    words = answer_reply(Question("q", "v.mp4", "Why?"), forced=True)
    with pytest.raises(ValidationError):
        words.model_validate({"answer": "  "})


NOTE = {"start": 0, "end": 1, "promising": True}
FACT = {"claim": "c", "spans": []}
VERDICT = {"unmet_needs": [], "status": "conflicted", "answer": None}
CONTROL = {"action": "DROP", "target_intervals": [], "observation_strategy": None}


@pytest.mark.parametrize(
    ("reply", "said", "kept"),
    [
        (
            ProposalReply,
            {"notes": [NOTE | {"note": "x" * 900}] * 90, "candidates": None},
            {"notes": [NOTE | {"note": "x" * 300}] * 64, "candidates": [], "one_frame": True},
        ),
        (
            ClaimsReply,
            {"claims": [{"claim": "x" * 900, "kind": "fact", "values": ["y" * 900] * 99}] * 40},
            {"claims": [{"claim": "x" * 200, "kind": "fact", "values": ["y" * 60] * 12}] * 6},
        ),
        (
            AssemblyReply,
            {"seen": "y" * 9000, "facts_supported": [FACT | {"value": "x" * 900}] * 3} | VERDICT,
            {"seen": "y" * 2000, "facts_supported": [FACT | {"value": "x" * 200}] * 3} | VERDICT,
        ),
        (ControlReply, CONTROL | {"target_anchors": ["a"] * 900}, CONTROL | {"target_anchors": ["a"] * 64}),
    ],
)
def test_what_is_too_long_is_cut_and_not_refused(reply: type[BaseModel], said: Any, kept: Any) -> None:
    assert reply.model_validate(said).model_dump() == kept


def test_an_action_that_is_not_offered_has_no_rule_in_the_prompt() -> None:
    every = restrict_prompt(PROMPT, ("DROP", "REFINE", "EXPAND"))
    assert every.text == PROMPT.text
    for name in ("DROP", "REFINE", "EXPAND"):
        rest = restrict_prompt(PROMPT, {"DROP", "REFINE", "EXPAND"} - {name}).text
        assert f"- {name}:" in PROMPT.text
        assert name not in rest
        assert rest.count("\n- ") == 2
