"""The words: the twin's vocabulary, the whole of it, and what lies beyond."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trace_ves.twin.glance.parsed_question import Thing, lexicon, make_lexicon
from trace_ves.twin.synthetic.vocabulary import vocabulary, with_article

ROOT = Path(__file__).parents[3]


def test_the_lexicon_is_what_the_tool_writes_from_the_vocabulary() -> None:
    script = "import make_lexicon, sys; sys.stdout.write(make_lexicon.lexicon_text())"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "tools", capture_output=True, text=True, encoding="utf-8", check=True
    )
    shipped = (ROOT / "src/trace_ves/twin/glance/lexicon.toml").read_text(encoding="utf-8")
    assert done.stdout == shipped, "run tools/make_lexicon.py"


@pytest.mark.parametrize("event", vocabulary().events.values(), ids=lambda event: event.name)
def test_every_noun_with_every_action_means_its_event_and_nothing_else(event: object) -> None:
    known = vocabulary()
    assert hasattr(event, "nouns")
    for noun in event.nouns:
        for pairs in known.actions.values():
            for plain, third in pairs:
                assert lexicon().find(f"How often does {with_article(noun)} {plain} in the video?") == (event.name,)
                assert lexicon().find(f"{with_article(noun)} {third}") == (event.name,)


def test_the_eyes_classes_and_scenes_are_known() -> None:
    assert set(lexicon().things) == set(vocabulary().sprites)
    assert lexicon().scenes == set(vocabulary().scenes)


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


def test_a_lexicon_of_ones_own() -> None:
    own = make_lexicon([Thing("cat", ("cat", "kitty"))], scenes=["roof"])
    assert own.find("two cats and a kitty on the roof") == ("cat", "roof")
