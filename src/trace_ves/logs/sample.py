"""What every log says of one question, whatever tool wrote it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import InputError
from trace_ves.records.field_path import text_at, value_at
from trace_ves.records.record import FieldError, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.records import Prediction

ID_KEYS: Final = ("question_id", "qid", "uid", "id")
"""Keys under which tools keep the id of a question, in the order in which they are tried."""
ANSWER_KEYS: Final = ("pred_answer", "parsed_pred", "pred", "prediction", "model_answer")
"""Keys under which they keep what was answered; `answer` is the right one in all of them."""


@dataclass(frozen=True, slots=True)
class LoggedSample:
    """One question as a log has it."""

    number: int
    """The line, row or place of the sample in its file, from 1."""
    question_id: str
    response: str | None
    """What was answered, as a letter or in the model's own words; None where nothing was."""
    prediction: Prediction | None = None
    """What was looked at, where the log has it; the answer of the line is this one's then."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Fields:
    """Where a log keeps the id and the answer, where a person says so: `id=doc.qid,answer=scores.mcq.answer`."""

    paths: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | None) -> Fields:
        """The fields of `--fields`."""
        paths = {}
        for part in (text or "").split(",") if text is not None else ():
            name, equals, path = (word.strip() for word in part.partition("="))
            if not equals or name not in {"id", "answer"} or not path:
                raise InputError(f"--fields {part.strip()!r}: write id=PATH,answer=PATH, such as id=doc.qid.")
            paths[name] = path
        return cls(paths)

    def question_id(self, row: Mapping[str, object], places: Sequence[object]) -> str:
        """The id of a row: at the path that was given, else under the first known key of these places."""
        if path := self.paths.get("id"):
            return text_at(row, path)
        found = first_of(places, ID_KEYS)
        if found is None:
            raise FieldError("no id of a question is in it; say where with --fields id=PATH")
        return text_at({"id": found}, "id")

    def response(self, row: Mapping[str, object], places: Sequence[object], default: object) -> str | None:
        """What was answered: at the path that was given, else under a known key, else what the model wrote."""
        path = self.paths.get("answer")
        found = value_at(row, path) if path else first_of(places, ANSWER_KEYS)
        return _words(default if found is None else found)


def first_of(places: Sequence[object], keys: Sequence[str]) -> object:
    """The first value that is not null under one of these keys, in one of these objects; None where there is none."""
    for key in keys:
        for place in places:
            if isinstance(place, dict) and place.get(key) is not None:
                return place[key]
    return None


def _words(value: object) -> str | None:
    """A response that may stand in lists of one, as lmms-eval nests them."""
    for _ in range(4):
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
    if value is None or value == []:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise FieldError(f"the answer must be text, found {shown(value)}")
    return str(value)
