"""The closed list of claims: by rule where the options parse, by one call of text alone where they do not."""

import pytest
from pydantic import ValidationError

from tests.agent.conftest import QUESTION
from tests.agent.test_edges import asked_with
from trace_ves.agent.anchors import Inquiry
from trace_ves.agent.claims import (
    COMPLETE,
    WHOLE_ANSWER,
    ClaimsReply,
    make_claims,
    make_counting_claims,
    make_ordering_claims,
)
from trace_ves.backbone.protocol import ModelFault
from trace_ves.core import Question
from trace_ves.core.question import parse_count
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
    claims = make_ordering_claims(question("In which order?", *options))
    assert [claim.kind for claim in claims] == [ClaimKind.TIME] * 3
    assert [claim.text.rsplit(" ", 1)[1].lower() for claim in claims] == ["bird", "cat", "dog"]


@pytest.mark.parametrize(
    "text",
    [
        "Order these: (A) a hunter runs; (B) two frogs dance; (C) a window opens?",
        "Order these events.\nA: a hunter runs\nB: two frogs dance\nC: a window opens",
        "Order these: A. a hunter runs, B. two frogs dance, C. a window opens?",
    ],
)
def test_labels_are_read_from_the_legend_in_the_question(text: str) -> None:
    claims = make_ordering_claims(question(text, "A → C → B", "A → B → C"))
    assert [claim.text for claim in claims] == [
        "when this happens: A (a hunter runs)",
        "when this happens: B (two frogs dance)",
        "when this happens: C (a window opens)",
    ]


def test_two_events_are_an_order_too_and_other_options_are_none() -> None:
    claims = make_ordering_claims(question("In which order?", "dog, cat", "cat, dog"))
    assert [claim.id for claim in claims] == ["event-1", "event-2"]
    assert make_ordering_claims(question("In which order?", "dog, cat")) == claims  # one option names them as well
    for options in (("red", "blue"), ("dog, cat", "dog, bird"), ("dog, dog", "dog, dog"), ()):
        assert make_ordering_claims(question("What colour?", *options)) == ()


def test_numbers_give_a_count_and_whether_it_is_complete() -> None:
    text = "How many times does the dog bark?"
    claims = make_counting_claims(question(text, "3", "four times", "Twice", "10"))
    assert claims == (Claim("count", text, ClaimKind.COUNT), COMPLETE)
    assert COMPLETE.kind is ClaimKind.EXPLORED
    assert make_counting_claims(question("What is written on the shirt?", "3", "4")) == ()
    assert make_counting_claims(question("How many dogs bark?", "3", "several")) == ()


def test_numbers_in_words() -> None:
    words = ("never", "Once.", "twice", "zero", "one", "Twenty times")
    assert [parse_count(each) for each in words] == [0, 1, 2, 0, 1, 20]
    assert [parse_count(each) for each in ("exactly 3", "at least 12 times", "1234")] == [3, 12, 1234]
    assert {parse_count(each) for each in ("12345", "a few", "twenty-one")} == {None}


def test_questions_that_parse_cost_no_call_and_others_one_of_text_alone() -> None:
    coat = {"claim": "the colour", "values": [" red", "red ", "", "blue"]}
    place = {"claim": "the place", "values": ["here"]}  # only a choice closes a claim
    rain = {"claim": "when it rains", "kind": "time"}
    count = {"claim": "how many", "kind": "count", "values": ["1", "2"]}
    asked, requests = asked_with({"claims": [coat, place, rain, count, *({"claim": f"more {n}"} for n in range(5))]})
    assert make_claims(question("Why?", "yes", "no"), asked.observer) == (
        Claim("c1", "the colour", values=("red", "blue")),
        Claim("c2", "the place"),
        Claim("c3", "when it rains", ClaimKind.TIME),
        Claim("c4", "how many", ClaimKind.COUNT),
        *(Claim(f"c{n + 5}", f"more {n}") for n in range(2)),  # at most six
        COMPLETE,  # as for every count
    )
    assert [(call.stage, call.timestamps) for call in asked.observer.log.calls] == [("claims", ())]
    assert requests[0].variables["limit"] == 6
    assert len(make_claims(QUESTION, asked.observer)) == 3
    assert len(requests) == 1
    twice, _ = asked_with({"claims": [rain, place, rain]})
    assert [claim.text for claim in make_claims(question("Why?"), twice.observer)] == ["when it rains", "the place"]
    failing, _ = asked_with(ModelFault("nonsense"))
    assert make_claims(question("Why?", "yes", "no"), failing.observer) == WHOLE_ANSWER


def test_a_claim_has_words_and_there_is_at_least_one() -> None:
    said = {"claims": [{"claim": "x", "kind": "fact", "values": None}]}
    for other in ({"claims": []}, {"claims": [said["claims"][0] | {"claim": ""}]}, {}):
        with pytest.raises(ValidationError):
            ClaimsReply.model_validate(other)
    assert [each.claim for each in ClaimsReply.model_validate(said).claims] == ["x"]


def test_a_prompt_shows_the_values_of_a_claim_that_has_any() -> None:
    claims = (Claim("c1", "the colour", values=("red", "blue")), Claim("c2", "the place"))
    shown = Inquiry(QUESTION, claims, None).claim_variables()  # type: ignore[arg-type]
    assert shown == [
        {"id": "c1", "claim": "the colour", "kind": "fact", "values": ["red", "blue", "other"]},
        {"id": "c2", "claim": "the place", "kind": "fact"},
    ]
