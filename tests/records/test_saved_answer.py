"""What `ask --save` writes has the video's path and its checksum, and gives back the question and the run line."""

import json

import pytest
from tests.records.test_schemas import FILES

from trace_ves.core import Question
from trace_ves.records import Call, Prediction
from trace_ves.records.base import FieldError
from trace_ves.records.disk_cache import Checksum
from trace_ves.records.prediction import SavedAnswer

[OF_0_1_0] = FILES["saved-answer"]
QUESTION = Question("ask", "films/a.mp4", "Which?", ("one", "two"))
PREDICTION = Prediction(
    "ask", "A", (1.0, 2.0), 2, "trace", "glance", "single-pass", (Call("x", (1.0, 2.0)),), {"kind": "mine"}, seconds=1.5
)


@pytest.mark.parametrize("noted", [None, Checksum(9, "ab" * 32)])
def test_a_saved_answer_goes_round(noted: Checksum | None) -> None:
    prediction = (
        PREDICTION if noted is None else Prediction.from_json(PREDICTION.to_json() | {"video": noted.to_json()})
    )
    saved = SavedAnswer.of(QUESTION, 60.0, prediction, text="one", stable=False)
    written = json.loads(json.dumps(saved.to_json()))
    assert written["video"] == "films/a.mp4"
    again = SavedAnswer.from_json(written)
    assert (again.asked, again.duration, again.prediction) == (QUESTION, 60.0, prediction)
    assert again.prediction.video_checksum == noted


def test_an_answer_without_words_says_so() -> None:
    written = SavedAnswer.of(QUESTION, 60.0, Prediction("ask", None), text=None, stable=False).to_json()
    assert written["text"] is None
    assert "video_checksum" not in written
    del written["stable"]
    assert not SavedAnswer.from_json(written).stable


def test_an_answer_of_version_0_1_0_is_read_and_written_as_it_was() -> None:
    saved = SavedAnswer.from_json(OF_0_1_0)
    assert saved.to_json() == OF_0_1_0
    assert saved.prediction.answer == OF_0_1_0["answer"]
    assert saved.asked.options == tuple(OF_0_1_0["options"])


@pytest.mark.parametrize("change", [{"video": {"bytes": 1}}, {"options": "AB"}, {"duration": "1"}, {"stable": 1}])
def test_a_wrong_type_is_named(change: dict[str, object]) -> None:
    with pytest.raises(FieldError, match=f"'{next(iter(change))}' must be"):
        SavedAnswer.from_json(OF_0_1_0 | change)


def test_a_saved_answer_has_its_words_and_whether_it_is_stable() -> None:
    for text, stable in (("one", True), ("two", False)):
        saved = SavedAnswer.from_json(SavedAnswer.of(QUESTION, 60.0, PREDICTION, text=text, stable=stable).to_json())
        assert (saved.text, saved.stable, saved.options) == (text, stable, ("one", "two"))
