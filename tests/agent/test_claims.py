"""The closed list of claims: by rule where the options parse, by one call of text alone where they do not."""

import pytest
from pydantic import ValidationError

from tests.agent.conftest import QUESTION, Observing, Witness
from trace_ves.agent.anchors import Inquiry
from trace_ves.agent.claims import WHOLE_ANSWER, ClaimsReply, counting_claims, make_claims, ordering_claims
from trace_ves.backbone.protocol import ModelFault
from trace_ves.core import Question
from trace_ves.records.search import Claim, ClaimKind


def question(text: str, *options: str) -> Question:
    return Question("q", "v.mp4", text, options)


@pytest.mark.parametrize(
    "options",
    [
        ("dog → cat → bird", "cat → dog → bird"),
        ("dog -> cat -> bird", "bird -> cat -> dog"),
        ("dog, cat, bird", "cat, bird, dog"),
        ("dog, then cat, then bird.", "cat, then dog, then bird."),
        ("dog; cat; bird", "bird; dog; cat"),
        ("Dog > Cat > Bird", "Cat > Dog > Bird"),
    ],
)
def test_permutations_give_one_claim_of_time_for_each_event(options: tuple[str, ...]) -> None:
    claims = ordering_claims(question("In which order?", *options))
    assert [claim.kind for claim in claims] == [ClaimKind.TIME] * 3
    assert [claim.text.rsplit(" ", 1)[1].lower() for claim in claims] == ["bird", "cat", "dog"]


def test_two_events_are_an_order_too() -> None:
    claims = ordering_claims(question("In which order?", "dog, cat", "cat, dog"))
    assert [claim.id for claim in claims] == ["event-1", "event-2"]
    assert ordering_claims(question("In which order?", "dog, cat")) == claims  # one option names them as well


@pytest.mark.parametrize(
    "text",
    [
        "Order these: (A) a hunter runs; (B) two frogs dance; (C) a window opens?",
        "Order these events.\nA: a hunter runs\nB: two frogs dance\nC: a window opens",
        "Order these: A. a hunter runs, B. two frogs dance, C. a window opens?",
    ],
)
def test_labels_are_read_from_the_legend_in_the_question(text: str) -> None:
    claims = ordering_claims(question(text, "A → C → B", "A → B → C"))
    assert [claim.text for claim in claims] == [
        "when this happens: A (a hunter runs)",
        "when this happens: B (two frogs dance)",
        "when this happens: C (a window opens)",
    ]


@pytest.mark.parametrize("options", [("red", "blue"), ("dog, cat", "dog, bird"), ("dog, dog", "dog, dog"), ()])
def test_other_options_are_no_ordering(options: tuple[str, ...]) -> None:
    assert ordering_claims(question("What colour?", *options)) == ()


def test_numbers_give_a_count_and_whether_it_is_complete() -> None:
    claims = counting_claims(question("How many times does the dog bark?", "3", "four times", "Twice", "10"))
    assert [(claim.id, claim.kind) for claim in claims] == [
        ("count", ClaimKind.COUNT),
        ("complete", ClaimKind.EXPLORED),
    ]


def test_numbers_that_count_nothing_are_no_counting() -> None:
    assert counting_claims(question("What is written on the shirt?", "3", "4")) == ()
    assert counting_claims(question("How many dogs bark?", "3", "several")) == ()


def test_questions_that_parse_cost_no_call(observing: Observing) -> None:
    observer = observing(Witness())
    assert len(make_claims(QUESTION, observer)) == 3
    assert not observer.log.calls


def test_other_questions_cost_one_call_of_text_alone(observing: Observing) -> None:
    coat, rain = {"claim": "the colour of the coat", "kind": "fact"}, {"claim": "when it rains", "kind": "time"}
    said = {"claims": [coat, rain, coat]}  # what is said twice is one claim
    observer = observing(Witness(overrides={"claims": lambda _: said}))
    claims = make_claims(question("What colour is the coat in the rain?", "red", "blue"), observer)
    assert claims == (Claim("c1", "the colour of the coat"), Claim("c2", "when it rains", ClaimKind.TIME))
    assert [(call.stage, call.timestamps) for call in observer.log.calls] == [("claims", ())]


def test_a_claim_has_words_and_there_is_at_least_one() -> None:
    for said in ({"claims": []}, {"claims": [{"claim": ""}]}, {}):
        with pytest.raises(ValidationError):
            ClaimsReply.model_validate(said)
    said = {"claims": [{"claim": "x", "kind": "fact", "values": None}]}
    assert [each.claim for each in ClaimsReply.model_validate(said).claims] == ["x"]


def test_a_prompt_shows_the_values_of_a_claim_that_has_any() -> None:
    claims = (Claim("c1", "the colour", values=("red", "blue")), Claim("c2", "the place"))
    shown = Inquiry(QUESTION, claims, None).claim_variables()  # type: ignore[arg-type]
    assert shown == [
        {"id": "c1", "claim": "the colour", "kind": "fact", "values": ["red", "blue", "other"]},
        {"id": "c2", "claim": "the place", "kind": "fact"},
    ]


def test_a_model_that_cannot_list_claims_leaves_one(observing: Observing) -> None:
    observer = observing(Witness(overrides={"claims": lambda _: ModelFault("nonsense")}))
    assert make_claims(question("Why?", "yes", "no"), observer) == WHOLE_ANSWER
