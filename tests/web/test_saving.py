"""An answer in a notebook: the words of the answer, its evidence as small pictures, and no markup from outside."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fakes import Still
from tests.ves.test_html import HOSTILE, Tags
from tests.web.test_search_view import results
from trace_ves.core import Clip, Frame, InputError, Interval, ObservationStrategy, Question
from trace_ves.web.saving import MOST_CLIPS, PICTURES_OF_A_CLIP

if TYPE_CHECKING:
    from pathlib import Path


def test_a_notebook_shows_the_answer_and_its_evidence() -> None:
    result = results("trace")["plain"]
    shown = result._repr_html_()
    page = Tags(shown)
    for words in (result.question.text, f"{result.answer}. {result.text}", "a red balloon rises (0:21.0-0:26.0)"):
        assert words in page.words
    pictures = sum(min(len(clip.frames), PICTURES_OF_A_CLIP) for clip in result.bundle)
    assert shown.count('<img src="data:image/jpeg;base64,') == pictures > 0
    assert page.tags <= {"p", "b", "div", "ul", "li", "figure", "img", "figcaption"}


def test_what_a_person_or_a_model_wrote_stays_text() -> None:
    plain = results("trace")["plain"]
    question = Question("ask", HOSTILE, HOSTILE, (HOSTILE, "y"))
    prediction = replace(plain.prediction, answer="A", method=HOSTILE, backbone=HOSTILE)
    page = Tags(replace(plain, question=question, prediction=prediction)._repr_html_())
    assert "script" not in page.tags
    assert page.attributes <= {"style", "src", "width", "height", "alt"}
    assert page.words.count("<script>alert(1)</script>") == 4


def test_an_answer_with_many_clips_stays_small() -> None:
    plain = results("trace")["plain"]
    strategy = ObservationStrategy(2.0, 720)
    frames = [tuple(Frame(n, at + n / 10, Still(90)) for n in range(9)) for at in range(40)]
    clips = tuple(Clip(Interval(at, at + 1), strategy, frames[at]) for at in range(40))
    shown = replace(plain, bundle=clips)._repr_html_()
    assert shown.count("<img") == MOST_CLIPS * PICTURES_OF_A_CLIP
    assert f"and {40 - MOST_CLIPS} more clips" in shown
    assert len(shown) < 300_000


def test_an_answer_saves_itself_and_replaces_nothing_unasked(tmp_path: Path) -> None:
    result = results("trace")["plain"]
    folder = result.save(tmp_path / "answer")
    assert json.loads((folder / "record.json").read_text())["text"] == result.text
    assert (folder / "contact-sheet.jpg").is_file()
    with pytest.raises(InputError, match="not empty"):
        result.save(folder)
    assert result.save(str(folder), overwrite=True) == folder
