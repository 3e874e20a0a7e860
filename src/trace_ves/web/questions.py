"""The questions of a page: in memory, or read one by one from the lines of a large bench."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from trace_ves.core import InputError, Question
from trace_ves.core.jsonl import parse_object
from trace_ves.records import Item
from trace_ves.records.disk_cache import Facts
from trace_ves.records.run_index import BYTE_ORDER_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from trace_ves.core import Interval

MOST_REMEMBERED: Final = 4096  # questions of a large bench that stay in memory once they were read


@dataclass(frozen=True, slots=True)
class QuestionInfo:
    """What the page knows about a question."""

    question: Question
    duration: float | None = None
    item: Item | None = None  # the question with its gold answer and evidence; None where they are not known

    @classmethod
    def of_item(cls, item: Item) -> QuestionInfo:
        """What a bench says about a question."""
        return cls(item.question, item.duration if math.isfinite(item.duration) else None, item)

    @property
    def answer(self) -> str | None:
        """The gold answer."""
        return self.item.answer if self.item else None

    @property
    def evidence(self) -> tuple[Interval, ...]:
        """The intervals that the answer depends on."""
        return self.item.evidence if self.item else ()


@dataclass(frozen=True)
class QuestionColumns:
    """What lists need of the questions themselves, the same for every run."""

    infos: Mapping[str, QuestionInfo]
    has_item: Sequence[bool]
    has_evidence: Sequence[bool]
    families: Sequence[str]

    @classmethod
    def of(cls, questions: Mapping[str, QuestionInfo]) -> QuestionColumns:
        """The columns of these questions; those of a `BenchQuestions` are there already."""
        if isinstance(questions, BenchQuestions):
            return questions.columns
        infos = questions.values()
        return cls(
            questions,
            has_item=[info.item is not None for info in infos],
            has_evidence=[bool(info.evidence) for info in infos],
            families=[info.question.family for info in infos],
        )

    @cached_property
    def ids(self) -> list[str]:
        """The ids, in the order of the questions."""
        return list(self.infos)

    @cached_property
    def id_set(self) -> frozenset[str]:
        """The ids, to look one up."""
        return frozenset(self.ids)

    @cached_property
    def search_texts(self) -> list[str]:
        """What a text is searched in, for each question."""
        questions = [info.question for info in self.infos.values()]
        return ["\n".join((each.id, each.text, each.video, *each.options)).casefold() for each in questions]


class BenchQuestions(Mapping[str, QuestionInfo]):
    """The questions of a large bench file, each read from its line when it is needed."""

    def __init__(self, path: Path, facts: Facts) -> None:
        """`facts` is what `locate_questions` made of the same file."""
        self._path = path
        self._places: dict[str, tuple[int, int]] = facts.values["places"]
        self.columns: Final = QuestionColumns(
            self,
            has_item=[True] * len(self),
            has_evidence=facts.values["has_evidence"],
            families=facts.values["families"],
        )
        self._read = lru_cache(MOST_REMEMBERED)(self._read_line)

    def __getitem__(self, question_id: str) -> QuestionInfo:
        return self._read(question_id)

    def __contains__(self, question_id: object) -> bool:
        return question_id in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _read_line(self, question_id: str) -> QuestionInfo:
        offset, length = self._places[question_id]
        try:
            with self._path.open("rb") as file:
                file.seek(offset)
                item = Item.from_json(parse_object(file.read(length)))
        except (OSError, ValueError):
            item = None
        if item is None or item.question.id != question_id:
            raise InputError(f"{self._path}: the bench was changed while its page was open; start the page again.")
        return QuestionInfo.of_item(item)


def locate_questions(path: Path, infos: Mapping[str, QuestionInfo]) -> Facts:
    """Where the lines of a bench file begin whose usable questions are these, and what lists need of them."""
    places: dict[str, tuple[int, int]] = {}
    offset = 0
    with path.open("rb") as file:
        for raw in file:
            text = raw if offset else raw.removeprefix(BYTE_ORDER_MARK)
            name = "" if text.isspace() else str(parse_object(text)["id"])
            if name in infos:
                places[name] = (offset + len(raw) - len(text), len(text))
            offset += len(raw)
    return Facts(
        {
            "places": places,
            "has_evidence": [bool(infos[name].evidence) for name in places],
            "families": [infos[name].question.family for name in places],
        }
    )
