"""What is asked: orders, counts, choices, what is beyond; and the words, which are the twin's vocabulary."""

from pathlib import Path

import pytest

from trace_ves.core import EVENT_COUNTING
from trace_ves.twin.glance.parsed_question import Kind, ParsedQuestion, Pick, lexicon, understand
from trace_ves.twin.synthetic.layout import draw_layout
from trace_ves.twin.synthetic.questions import word_question
from trace_ves.twin.synthetic.vocabulary import Sprite, vocabulary, with_article
from trace_ves.twin.synthetic.world import Hints, make_world


def understood(question: str, *options: str) -> ParsedQuestion:
    return understand(question, dict(zip("ABCDEFGH", options, strict=False)))


def test_an_order() -> None:
    asked = understood("In what order?", "the taxi → the fox → the bee", "the bee, then the taxi, then the fox")
    assert asked.kind is Kind.ORDER
    assert asked.wanted == ("bee", "fox", "taxi")
    assert asked.orders == {"A": ("taxi", "fox", "bee"), "B": ("bee", "taxi", "fox")}


def test_an_order_by_labels() -> None:
    asked = understood("Order these: (1) a taxi goes by; (2) a fox appears; (3) a bee.", "1, 2, 3", "3 → 2 → 1")
    assert asked.orders == {"A": ("taxi", "fox", "bee"), "B": ("bee", "fox", "taxi")}


def test_a_count() -> None:
    options = ("2", "three", "4 times", "Exactly 5", "twice", " Seven times. ")
    asked = understood("How many times does a red teapot appear?", *options)
    assert (asked.kind, asked.wanted) == (Kind.COUNT, ("red teapot",))
    assert asked.numbers == {"A": 2, "B": 3, "C": 4, "D": 5, "E": 2, "F": 7}


def test_a_choice_of_things_and_of_scenes() -> None:
    things = understood("Which of these is seen first?", "a taxi", "a fox")
    assert (things.kind, things.pick, things.choices) == (Kind.CHOICE, Pick.FIRST, {"A": "taxi", "B": "fox"})
    scenes = understood("Where does the fox appear?", "In the forest", "In a kitchen")
    assert (scenes.choices, scenes.among) == ({"A": "forest", "B": "kitchen"}, ("fox",))


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("Why does the minister resign?", ("money", "a scandal")),
        ("How many goals are scored?", ("1", "2")),
        ("Which of these is not seen?", ("a taxi", "a fox")),
        ("How many times does a fox appear?", ("a few", "many")),
        ("How many times does a fox appear?", ("1", "")),
        ("Which words are on the sign?", ("a taxi", "a fox")),
        ("What happens?", ()),
    ],
)
def test_what_is_beyond_the_words_is_unknown(question: str, options: tuple[str, ...]) -> None:
    assert understood(question, *options).kind is Kind.UNKNOWN


def test_every_question_of_the_twin_is_understood() -> None:
    """Whatever the seed words, kind, things, acts and options are those it was made of."""
    for video, layout in enumerate(draw_layout(120, [31])):
        world = make_world(layout, ["q1", "q2"], [31, video], Hints())
        for number, question in enumerate(layout.questions):
            wording = word_question(question, world.asked[number], [31, video, number])
            asked = understood(wording.text, *wording.options)
            names = tuple(event.sprite for event in world.asked[number])
            assert asked.acts == {event.sprite: event.act for event in world.asked[number]}, wording
            if question.family == EVENT_COUNTING:
                assert (asked.kind, asked.wanted) == (Kind.COUNT, names[:1]), wording
                assert asked.numbers[wording.answer] == len(question.intervals)
            else:
                assert asked.kind is Kind.ORDER, wording
                assert asked.orders[wording.answer] == names


ROOT = Path(__file__).parents[3]


def test_the_lexicon_is_what_the_tool_writes_from_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    import make_lexicon

    shipped = (ROOT / "src/trace_ves/twin/glance/lexicon.toml").read_text(encoding="utf-8")
    assert make_lexicon.lexicon_text() == shipped, "run tools/make_lexicon.py"


@pytest.mark.parametrize("event", vocabulary().events.values(), ids=lambda event: event.name)
def test_every_noun_with_every_action_means_its_event_and_nothing_else(event: Sprite) -> None:
    for noun in event.nouns:
        for plain, third in (pair for words in vocabulary().acts.values() for pair in words.actions):
            assert lexicon().find(f"How often does {with_article(noun)} {plain} in the video?") == (event.name,)
            assert lexicon().find(f"{with_article(noun)} {third}") == (event.name,)


def test_names_come_in_the_order_of_the_text_and_once() -> None:
    text = "A mouse, then two fire trucks, a black and white cow in the kitchen, and the mouse again"
    assert lexicon().find(text) == ("mouse", "fire engine", "cow", "kitchen")
    assert lexicon().find_things(text) == ("mouse", "fire engine", "cow")
    assert lexicon().find_scenes(text) == ("kitchen",)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("they wait at the bus stop", ()),
        ("a BUS halts", ("bus",)),
        ("the robot\N{RIGHT SINGLE QUOTATION MARK}s head", ("robot",)),
        ("buses", ("bus",)),
        ("a catalogue of mousetraps", ()),
        ("why does the minister resign?", ()),
        ("", ()),
    ],
)
def test_only_whole_phrases_count_and_the_longest_wins(text: str, names: tuple[str, ...]) -> None:
    assert lexicon().find(text) == names
