"""Stages: one place for the name, the words and the colour of every call that our methods make."""

from __future__ import annotations

from pathlib import Path

import pytest

import trace_ves
from trace_ves.core.stages import STAGES, colours, describe

PROMPTS = sorted(
    path.stem
    for package in ("agent", "baselines")
    for path in Path(trace_ves.__path__[0], package).glob("prompts/*.md")
)


@pytest.mark.parametrize("name", PROMPTS)
def test_every_prompt_of_a_method_has_a_stage_with_words_for_people(name: str) -> None:
    stage = STAGES[name]
    assert stage.name == name
    assert all((stage.title, stage.purpose, stage.doing))


def test_a_stage_that_is_not_ours_is_shown_by_its_own_name() -> None:
    stage = describe("my-check")
    assert (stage.title, stage.doing, stage.purpose, stage.colour) == ("my-check", "my-check", "", None)


def test_our_stages_keep_their_colours_and_others_take_what_is_left() -> None:
    names = ["anchor-extraction", "mine", "evidence-assembly", "yours"]
    found = colours(names)
    assert (found["anchor-extraction"], found["evidence-assembly"]) == ("orange", "blue")
    assert len(set(found.values())) == len(names)
    assert set(colours([f"s{n}" for n in range(9)]).values()) <= {
        *("sky", "orange", "purple", "blue", "vermillion", "grey"),
    }
