"""Letters of options, and how methods, stages and simulations are shown."""

from pathlib import Path

import trace_ves
from trace_ves.core import Question
from trace_ves.core.display import (
    LAB_NOTICE,
    PALETTE,
    STAGES,
    colour_stages,
    count_words,
    describe_stage,
    is_trace,
    method_colours,
    simulation_notes,
)
from trace_ves.core.question import MAX_OPTIONS, MIN_OPTIONS


def test_options_are_lettered_from_a() -> None:
    question = Question("q", "v.mp4", "Which?", ("red", "green", "blue"))
    assert (question.letters, question.is_open) == (("A", "B", "C"), False)
    assert [question.option(letter) for letter in "ABC"] == ["red", "green", "blue"]
    unanswered = Question("q", "v.mp4", "What?")
    assert (unanswered.letters, unanswered.is_open) == ((), True)
    assert (MIN_OPTIONS, MAX_OPTIONS) == (2, 26)


def test_trace_is_blue_what_it_is_compared_with_grey_and_others_share_the_rest() -> None:
    found = method_colours(["TRACE", "uniform-8", "mine", "blind", "avp", "vca", "yours", "theirs", "ours", "mine"])
    assert found == {
        "TRACE": "blue",
        "avp": "orange",
        "vca": "purple",
        "uniform-8": "grey",
        "blind": "grey",
        "mine": "green",
        "yours": "vermillion",
        "theirs": "sky",
        "ours": "green",
    }
    assert set(found.values()) <= set(PALETTE)
    names = ("trace", "Trace@openai:x", "trace-without-replay", "traces", "vca@trace")
    assert [name for name in names if is_trace(name)] == ["trace", "Trace@openai:x"]  # an ablation is not TRACE
    notes = [simulation_notes(names) for names in (["lab:seed=1", "openai:gpt", "lab"], ["openai:gpt"])]
    assert [count_words(number, "clip") for number in (0, 1, 2000)] == ["0 clips", "1 clip", "2,000 clips"]
    assert notes == [LAB_NOTICE, ""]  # a simulation is said once, and a model is none


PROMPTS = sorted(
    path.stem
    for package in ("agent", "baselines")
    for path in Path(trace_ves.__path__[0], package).glob("prompts/*.md")
)


def test_every_prompt_of_a_method_has_a_stage_with_words_for_people() -> None:
    assert PROMPTS
    assert not [name for name in PROMPTS if name not in STAGES or STAGES[name].name != name]
    assert not [stage.name for stage in STAGES.values() if not all((stage.title, stage.purpose, stage.activity))]
    other = describe_stage("my-check")  # one that is not ours is shown by its own name
    assert (other.title, other.activity, other.purpose, other.colour) == ("my-check", "my-check", "", None)


def test_our_stages_keep_their_colours_and_others_take_what_is_left() -> None:
    names = ["anchor-extraction", "mine", "evidence-assembly", "yours"]
    found = colour_stages(names)
    assert (found["anchor-extraction"], found["evidence-assembly"]) == ("orange", "blue")
    assert len(set(found.values())) == len(names)
    spare = {"sky", "orange", "purple", "blue", "vermillion", "grey"}
    assert set(colour_stages([f"s{n}" for n in range(9)]).values()) <= spare
