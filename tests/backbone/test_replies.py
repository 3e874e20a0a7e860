"""A model's text becomes a valid reply, a repair, or a fault."""

import json
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model

from trace_ves.backbone import ModelFault
from trace_ves.backbone.provider import Completion, FinishReason, RepairTurn
from trace_ves.backbone.replies import (
    CUT_OFF,
    LAST_WORDS,
    SEVERAL,
    USED_UP,
    AnswerReply,
    InvalidReplyError,
    answer_reply,
    complete_with_repair,
    make_strict_schema,
    parse_reply,
    question_variables,
    restrict_answer,
    same_answer,
    up_to,
    validate_completion,
)
from trace_ves.core import Question
from trace_ves.records import Usage
from trace_ves.records.transcript import ModelText

CHOICE = Question("q", "v.mp4", "Which?", ("red", "green", "blue"))
OPEN = Question("q", "v.mp4", "What colour?")


@pytest.mark.parametrize("said", ["B", "b", " (b) ", "B.", "**B**", "B. a green one", "(B) green", "Option B: it is"])
def test_a_letter_is_read_in_the_ways_models_write_it(said: str) -> None:
    assert answer_reply(CHOICE).model_validate({"answer": said}).answer == "B"


@pytest.mark.parametrize("said", ["D", "", "AB", "green", "B. red", "A deer", 1, ["B"]])
def test_what_is_no_letter_of_the_question_does_not_validate(said: object) -> None:
    with pytest.raises(ValidationError):
        answer_reply(CHOICE).model_validate({"answer": said})


def test_null_is_an_answer_unless_one_is_forced_and_a_missing_key_is_not() -> None:
    assert answer_reply(CHOICE).model_validate({"answer": None}).answer is None
    for reply, said in ((answer_reply(CHOICE), {}), (answer_reply(CHOICE, forced=True), {"answer": None})):
        with pytest.raises(ValidationError):
            reply.model_validate(said)
    for said, words in ((" dark red ", "dark red"), ("  ", None)):
        assert answer_reply(OPEN).model_validate({"answer": said}).answer == words


SAME = [("A", "A"), ("A", "a"), ("The red car.", "red  car"), ("to-do", "to do"), ("don't", "dont"), ("ﬁve", "five")]
OTHER = [("A", "B"), ("A", "the"), ("-5", "5"), ("3.5", "35"), ("?", "!"), (None, None), (None, "A")]


@pytest.mark.parametrize(("one", "other"), [*SAME, *OTHER])
def test_same_answer(one: str | None, other: str | None) -> None:
    assert same_answer(one, other) is same_answer(other, one) is ((one, other) in SAME)


class Side(StrEnum):
    LEFT = "left"
    RIGHT = "right"


class Spot(BaseModel):
    side: Side
    seconds: float = Field(0.0, ge=0)


class Reply(BaseModel):
    letter: Literal["A", "B"] | None
    spots: list[Spot] = Field(default_factory=list, max_length=2)
    note: Any = None


GOOD = '{"letter": "B", "spots": [{"side": "left", "seconds": 1.5}]}'
READ = Reply(letter="B", spots=[Spot(side=Side.LEFT, seconds=1.5)])


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  {GOOD}\n\n",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}```",
        f"Sure! Here is what I saw {{roughly}}:\n\n{GOOD}\n\nLet me know.",
        f'<think>{{"letter": "A"}} would be wrong {{</think>{GOOD}',
        f"\ufeff{GOOD}",
        GOOD + "\n" * 300_000,
        f"[{GOOD}]",
        f'{GOOD} {{"other": 1}}',
    ],
)
def test_a_reply_is_found_whatever_stands_around_it(text: str) -> None:
    assert parse_reply(text, Reply) == READ


class Loose(BaseModel):
    """A reply whose fields all have defaults, so that any object would validate."""

    spots: list[Spot] = Field(default_factory=list)
    note: str = ""


LOOSE = '{"spots": [{"side": "left"}, {"side": "right"}], "note": "two"}'


@pytest.mark.parametrize("end", range(1, len(LOOSE)))
def test_a_reply_that_breaks_off_is_no_reply_wherever_it_does(end: int) -> None:
    for before in ("", "Sure:\n```json\n", '{"spots": [{"side": "left"}]} '):
        with pytest.raises(InvalidReplyError):
            parse_reply(before + LOOSE[:end], Loose)


class Natural(BaseModel):
    action: Literal["DROP", "EXPAND"] = "DROP"
    seconds: float | None = None
    count: int = 0
    words: str | None = None
    span: tuple[float, float] | None = None
    spans: list[Annotated[list[float], Field(min_length=2, max_length=2)]] = Field(default_factory=list)
    lists: list[int] = Field(default_factory=list)
    spot: Spot | None = None
    note: Any = None


class OneList(BaseModel):
    spots: list[Spot]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"action": "expand"}', Natural(action="EXPAND")),
        ('{"seconds": "113.5 s"}', Natural(seconds=113.5)),
        ('{"seconds": "2:35"}', Natural(seconds=155)),
        ('{"seconds": "1:02:03.5"}', Natural(seconds=3723.5)),
        ('{"count": "3", "words": 3}', Natural(count=3, words="3")),
        ('{"words": 3.0}', Natural(words="3")),
        ('{"span": {"start": "1:00", "end": 61}}', Natural(span=(60, 61))),
        ('{"spans": [{"start": 1, "end": 2}]}', Natural(spans=[[1, 2]])),
        ('{"words": "a, }", "count": 2,}', Natural(words="a, }", count=2)),
        ('{"spans": [[1, 2,],],}', Natural(spans=[[1, 2]])),
        ('```json\n[{"side": "Left"}]\n```', OneList(spots=[Spot(side=Side.LEFT)])),
        ('{"lists": ["1", "2 s", "3 seconds."]}', Natural(lists=[1, 2, 3])),
        ('{"spot": {"side": " \'RIGHT\'. ", "seconds": "0:07"}}', Natural(spot=Spot(side=Side.RIGHT, seconds=7))),
        ('{"note": ["1", {"a": "2"}]}', Natural(note=["1", {"a": "2"}])),  # of which the schema says nothing
        ('{"note": {"start": 1, "end": 2}}', Natural(note={"start": 1, "end": 2})),
        ('{"seconds": null}', Natural()),
    ],
)
def test_natural_forms_of_a_reply_are_understood(text: str, expected: BaseModel) -> None:
    assert parse_reply(text, type(expected)) == expected


class Many(BaseModel):
    first: int
    spots: list[int] = Field(default_factory=list)


NO_JSON = "the reply has no JSON object in it"
NOT_JSON = "the reply is not valid JSON: Expecting "
NONE_OF = "the reply has none of the fields spots, note"
NO_INTEGER = "Input should be a valid integer, unable to parse string as an integer"
TEN_FIELDS = "; ".join(f"spots.{number}: {NO_INTEGER}" for number in range(10))  # at most
WIDE = create_model("Wide", **{f"f{n}_{'x' * 150}": (int, ...) for n in range(10)})  # type: ignore[call-overload]
UNUSABLE: list[tuple[type[BaseModel], str, str]] = [
    *((Reply, text, NO_JSON) for text in ("I see a red ball.", "[1, 2]", '"A"')),
    (Reply, '{"letter": "C"}', "letter: Input should be 'A' or 'B'"),
    (Reply, '{"spots": []}', "letter: Field required"),
    (Reply, '{"letter": "A", "spots": [{"side": "up"}]}', "spots.0.side: Input should be 'left' or 'right'"),
    (Reply, '{"letter": "A", "letter": "B"}', "the reply has the key 'letter' twice in one object"),
    (Reply, '{"letter": "A", "note": {"x": 1, "x": 1}}', "the reply has the key 'x' twice in one object"),
    (Reply, '{"letter": "A", "note": NaN}', "the reply has NaN, which is not a JSON number"),
    (Reply, '{"letter": "A", "note": -Infinity}', "the reply has -Infinity, which is not a JSON number"),
    (Reply, '{"letter": "A", "note": 1e999}', "the reply has the number 1e999, which is too large"),
    (Reply, '{"letter": "A", "note": ' + "9" * 5000 + "}", "the reply has a number that is too long"),
    (Reply, '{"letter": "A", "note": "\\ud800"}', "reply: Invalid JSON"),
    (Reply, '{"a":' * 30_000 + "1" + "}" * 30_000, "the reply is nested too deeply"),
    (Reply, '{"letter": "A", "note": ' + "[" * 90_000 + "]" * 90_000 + "}", "the reply is nested too deeply"),
    (Reply, '{"a":' * 30_000, ""),
    (Reply, "{" * 100_000, "the reply is not valid JSON"),
    (Reply, GOOD + "x" * (200_001 - len(GOOD)), "the reply has 200001 characters, more than 200000"),
    (Reply, '{"letter" 1}', f"{NOT_JSON}':' delimiter at character 10"),
    (Reply, '{"letter": "A" {"x": "}', f"{NOT_JSON}',' delimiter at character 15; it breaks off"),
    (Reply, '{"letter": "A" {"x": "}"}', f"{NOT_JSON}',' delimiter at character 15; it breaks off"),
    (Reply, '{"letter": "A" {"x": "}"}}', f"{NOT_JSON}',' delimiter at character 15"),
    (Loose, "{}", NONE_OF),
    (Loose, '{"other": 1}', NONE_OF),
    (Loose, "[{}, {}]", NO_JSON),
    (Loose, '{"spots": [{"side" 1}], "x": {"note": "a"}}', f"{NOT_JSON}':' delimiter at character 19"),
    (Natural, '{"lists": {"start": 1, "end": 2}}', "lists: Input should be a valid "),
    (Natural, '{"lists": "1"}', "lists: Input should be a valid "),
    (Natural, '{"spot": [1]}', "spot: Input should be "),
    (Natural, '{"spot": "left"}', "spot: Input should be "),
    (Many, json.dumps({"first": 1, "spots": ["x"] * 11}), TEN_FIELDS),
]


@pytest.mark.parametrize(("reply", "text", "complaint"), UNUSABLE)
def test_what_cannot_be_used_is_said_in_a_few_words(reply: type[BaseModel], text: str, complaint: str) -> None:
    with pytest.raises(InvalidReplyError) as caught:
        parse_reply(text, reply)
    said, is_open = str(caught.value), complaint.endswith(("JSON", "be ", "valid ")) or not complaint
    assert said.startswith(complaint) if is_open else said == complaint
    assert caught.value.breaks_off == said.endswith("; it breaks off")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, st.text(alphabet=st.characters(exclude_characters="{}")))
def test_any_json_is_a_reply_or_unusable_and_prose_around_a_reply_changes_nothing(value: Any, prose: str) -> None:
    complaint = ""
    try:
        parse_reply(json.dumps({"letter": "A", "note": value}), Reply)
    except InvalidReplyError as problem:
        complaint = str(problem)
    assert not complaint or any(word in complaint for word in ("NaN", "Infinity", "Invalid JSON"))
    assert parse_reply(prose + GOOD + prose, Reply) == READ


def asking(*completions: Completion) -> tuple[Any, list[tuple[RepairTurn, ...]]]:
    """A model that says these things in turn, and what it was shown."""
    shown: list[tuple[RepairTurn, ...]] = []

    def complete(repairs: tuple[RepairTurn, ...]) -> Completion:
        shown.append(repairs)
        return completions[len(shown) - 1]

    return complete, shown


def test_a_repair_of_a_completion_that_a_batch_brought_adds_its_tokens_and_seconds() -> None:
    first, second = Completion("no", Usage(7, 0, 1)), Completion(GOOD, Usage(9, 5, 2))
    generation = validate_completion(Reply, (first, 2.0), lambda repairs: (second, 0.5 * len(repairs)))
    assert (generation.reply, generation.usage, generation.seconds) == (READ, Usage(16, 5, 3), 2.5)
    assert [each.text for each in generation.texts] == ["no", GOOD]


def test_a_closed_schema_requires_everything_allows_nothing_else_and_keeps_only_shape() -> None:
    class Plain(BaseModel):
        letter: Literal["A", "B"] | None = None
        spots: list[Spot] = Field(default_factory=list, max_length=2)
        best: Spot = Field(description="The best one.")

    assert make_strict_schema(Plain.model_json_schema()) == {
        "title": "Plain",
        "type": "object",
        "$defs": {
            "Side": {"title": "Side", "type": "string", "enum": ["left", "right"]},
            "Spot": {
                "title": "Spot",
                "type": "object",
                "properties": {"side": {"$ref": "#/$defs/Side"}, "seconds": {"title": "Seconds", "type": "number"}},
                "required": ["side", "seconds"],
                "additionalProperties": False,
            },
        },
        "properties": {
            "letter": {"title": "Letter", "anyOf": [{"type": "string", "enum": ["A", "B"]}, {"type": "null"}]},
            "spots": {"title": "Spots", "type": "array", "items": {"$ref": "#/$defs/Spot"}},
            "best": {"$ref": "#/$defs/Spot"},
        },
        "required": ["letter", "spots", "best"],
        "additionalProperties": False,
    }
    kept = make_strict_schema(Plain.model_json_schema(), keep=("maxItems", "minimum"))
    assert kept is not None
    assert kept["properties"]["spots"]["maxItems"] == 2
    assert kept["$defs"]["Spot"]["properties"]["seconds"]["minimum"] == 0


def test_what_the_schema_of_an_answer_says() -> None:
    class Noted(AnswerReply):
        """With a note."""

        note: str = ""

    undecided = ", or null where the evidence does not decide."
    for reply, words in (
        (AnswerReply, f"The answer{undecided}"),
        (answer_reply(CHOICE), f"The letter of the right option{undecided}"),
        (answer_reply(CHOICE, forced=True), "The letter of the right option."),
        (restrict_answer(AnswerReply, OPEN), f"The answer in a few words{undecided}"),
    ):
        assert reply.model_json_schema()["properties"]["answer"]["description"] == words
    noted = restrict_answer(Noted, CHOICE)
    assert (noted.__name__, noted.__doc__, list(noted.model_fields)) == ("Noted", "With a note.", ["answer", "note"])
    assert issubclass(noted, Noted)
    letters = {"enum": ["A", "B", "C"], "type": "string"}  # so that a provider can hold the model to them
    assert noted.model_json_schema()["properties"]["answer"]["anyOf"] == [letters, {"type": "null"}]
    assert question_variables(CHOICE) == {"question": "Which?", "options": {"A": "red", "B": "green", "C": "blue"}}


@pytest.mark.parametrize(("said", "kept"), [("abc", "ab"), ("ab", "ab"), (["a", "b", "c"], ["a", "b"]), (7, 7)])
def test_what_is_too_long_is_cut(said: object, kept: object) -> None:
    assert TypeAdapter(Annotated[Any, up_to(2)]).validate_python(said) == kept


def test_a_reply_as_long_as_the_limit_is_read_and_of_many_objects_the_first_32_are() -> None:
    long = '{"letter": "A", "note": "%s"}'
    exact = long % ("x" * (200_000 - len(long) + 2))
    assert len(exact) == 200_000
    assert parse_reply(exact, Reply).letter == "A"
    for before, letter in ((31, "B"), (32, "A")):
        assert parse_reply('{"letter": "A"} ' * before + '{"letter": "B"}', Reply).letter == letter


@pytest.mark.parametrize("length", [1999, 2000, 2001])
def test_a_reply_that_is_bad_twice_is_a_fault_and_its_raw_text_and_what_the_model_is_shown_are_cut(length: int) -> None:
    fault, _ = complete_with_repair(Reply, asking(Completion("no"), Completion("x" * length))[0])
    reason = f"The reply is not a valid Reply, even after one repair: {NO_JSON}."
    assert fault == ModelFault(reason, "x" * min(length, 2000) + "…" * (length > 2000))
    empty, _ = complete_with_repair(Reply, asking(Completion(" "), Completion(""))[0])
    assert empty == ModelFault("The reply is not a valid Reply, even after one repair: it is empty.")
    refused, _ = complete_with_repair(Reply, asking(Completion("no"), Completion("", finish=FinishReason.REFUSED))[0])
    assert refused == ModelFault("The model refused to answer.")
    with pytest.raises(InvalidReplyError) as caught:
        parse_reply('{"other": 1}', WIDE)
    assert (len(str(caught.value)), str(caught.value)[-1]) == (1501, "…")
    complete, shown = asking(Completion("x" * 10 * length), Completion(GOOD))
    complete_with_repair(Reply, complete)
    assert shown[1][0].reply == "x" * min(10 * length, 20_000) + "…" * (length > 2000)


@pytest.mark.parametrize(
    ("text", "finish", "problem"),
    [
        (GOOD, FinishReason.STOP, None),
        (GOOD, FinishReason.LENGTH, LAST_WORDS),
        (f"```\n{GOOD}\n``` \n", FinishReason.LENGTH, LAST_WORDS),
        (f"{GOOD} {GOOD}", FinishReason.STOP, None),
        (f'{{"letter": "A"}} {GOOD}', FinishReason.LENGTH, SEVERAL),
        (GOOD[:-1], FinishReason.LENGTH, CUT_OFF),
        ('{"letter": "C"}', FinishReason.LENGTH, CUT_OFF),
        (" ", FinishReason.LENGTH, USED_UP),
        ("", FinishReason.BLOCKED, "A filter of the provider blocked the answer."),
        (GOOD, FinishReason.REFUSED, "The model refused to answer."),
    ],
)
def test_what_is_noted_about_a_text(text: str, finish: FinishReason, problem: str | None) -> None:
    said: list[ModelText] = []
    found, _ = complete_with_repair(Reply, asking(Completion(text, finish=finish))[0], texts=said)
    assert said == [ModelText(text, problem)]
    is_fault = problem not in {None, LAST_WORDS, SEVERAL}
    assert found == (ModelFault(str(problem), text) if is_fault else READ)


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        ({"oneOf": [{"type": "null"}, {"const": 1}]}, {"anyOf": [{"type": "null"}, {"const": 1}]}),
        ({"$ref": "#/$defs/X", "description": "x"}, {"$ref": "#/$defs/X"}),
        ({"type": "object", "properties": {}, "additionalProperties": True}, None),
        ({"type": "object"}, None),
        ({"type": "array", "prefixItems": [{"type": "null"}] * 2}, {"type": "array", "items": {"type": "null"}}),
        ({"type": "array", "prefixItems": [{"type": "null"}, {"const": 1}]}, None),
        ({"type": "array"}, None),
        ({"type": "array", "items": {"type": "object"}}, None),
        ({"type": "array", "items": {}}, None),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, None),
        ({"type": "object", "properties": {"field": {"title": "X"}}}, None),
        ({"title": "X"}, None),
        ({"enum": [1], "default": 1}, {"enum": [1]}),
    ],
)
def test_the_closed_form_of_each_kind_of_schema(schema: dict[str, Any], closed: dict[str, Any] | None) -> None:
    assert make_strict_schema(schema) == closed
