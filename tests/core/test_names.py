"""Letters of options, colours of methods, and what is said of simulations."""

from __future__ import annotations

from trace_ves.core import Question
from trace_ves.core.display import PALETTE, SIMULATIONS, is_trace, method_colours, simulation_notes
from trace_ves.core.question import MAX_OPTIONS, MIN_OPTIONS


def test_options_are_lettered_from_a() -> None:
    question = Question("q", "v.mp4", "Which?", ("red", "green", "blue"))
    assert question.letters == ("A", "B", "C")
    assert [question.option(letter) for letter in "ABC"] == ["red", "green", "blue"]
    assert not question.is_open
    assert Question("q", "v.mp4", "What?").is_open
    assert Question("q", "v.mp4", "What?").letters == ()
    assert (MIN_OPTIONS, MAX_OPTIONS) == (2, 26)


def test_trace_is_blue_what_it_is_compared_with_grey_and_others_share_the_rest() -> None:
    found = method_colours(["TRACE", "uniform-8", "mine", "blind", "vca", "yours", "theirs", "ours", "mine"])
    assert found == {
        "TRACE": "blue",
        "vca": "purple",
        "uniform-8": "grey",
        "blind": "grey",
        "mine": "green",
        "yours": "vermillion",
        "theirs": "sky",
        "ours": "green",
    }
    assert set(found.values()) <= set(PALETTE)


def test_an_ablation_of_trace_is_not_trace() -> None:
    assert [is_trace(name) for name in ("trace", "Trace@openai:x", "trace-without-replay", "vca@trace")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_simulation_is_said_once_and_a_model_is_none() -> None:
    assert simulation_notes(["lab:seed=1", "openai:gpt", "lab"]) == SIMULATIONS["lab"]
    assert simulation_notes(["openai:gpt"]) == ""
