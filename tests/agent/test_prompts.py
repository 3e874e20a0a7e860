"""What a model is asked: what was seen before the verdict, no example to copy, nothing refused for its length."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

import trace_ves
from trace_ves.agent.anchor_extraction import ExtractionReply
from trace_ves.agent.anchor_prioritization import PriorityReply
from trace_ves.agent.claims import ClaimsReply
from trace_ves.agent.evidence_assembly import AssemblyReply
from trace_ves.agent.temporal_proposal import ProposalReply
from trace_ves.agent.trajectory_reconciler import PROMPT, ControlReply, offering
from trace_ves.backbone.replies import answer_reply, restrict_answer
from trace_ves.baselines.avp import AvpReflection
from trace_ves.baselines.vca import VcaExploration
from trace_ves.core import Question

PROMPTS = {path.stem: path.read_text() for path in Path(trace_ves.__path__[0]).glob("*/prompts/*.md")}
QUESTION = Question("q", "v.mp4", "Which?", ("one", "two"))


@pytest.mark.parametrize(
    ("reply", "first", "verdict"),
    [
        (ExtractionReply, "seen", "relevant"),
        (PriorityReply, "seen", "order"),
        (ProposalReply, "notes", "candidates"),
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


@pytest.mark.parametrize(
    ("reply", "said", "lengths"),
    [
        (
            ProposalReply,
            {"notes": [{"start": 0, "end": 1, "note": "x" * 900, "promising": True}] * 90, "candidates": None},
            (64, 300),
        ),
        (ClaimsReply, {"claims": [{"claim": "x" * 900, "kind": "fact", "values": ["y" * 900] * 99}] * 40}, (6, 200)),
    ],
)
def test_what_is_too_long_is_cut_and_not_refused(
    reply: type[BaseModel], said: dict[str, object], lengths: tuple[int, int]
) -> None:
    entries = next(iter(reply.model_validate(said).model_dump().values()))
    words = next(value for value in entries[0].values() if isinstance(value, str))
    assert (len(entries), len(words)) == lengths


def test_long_facts_and_targets_are_cut_too() -> None:
    facts = [{"claim": "c", "value": "x" * 900}] * 3
    said = AssemblyReply.model_validate(
        {"seen": "y" * 9000, "facts_supported": facts, "unmet_needs": [], "status": "conflicted", "answer": None}
    )
    assert (len(said.seen), len(said.facts_supported[0].value)) == (2000, 200)
    control = {"action": "DROP", "target_anchors": ["a"] * 900, "target_intervals": None, "observation_strategy": None}
    assert len(ControlReply.model_validate(control).target_anchors) == 64


def test_an_action_that_is_not_offered_has_no_rule_in_the_prompt() -> None:
    every = offering(PROMPT, ("DROP", "REFINE", "EXPAND"))
    assert every.text == PROMPT.text
    for name in ("DROP", "REFINE", "EXPAND"):
        rest = offering(PROMPT, {"DROP", "REFINE", "EXPAND"} - {name}).text
        assert f"- {name}:" in PROMPT.text
        assert name not in rest
        assert rest.count("\n- ") == 2
