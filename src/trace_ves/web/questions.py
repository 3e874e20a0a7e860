"""The questions of a page: in memory, or read one by one from the lines of a large bench."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core import InputError, Question
from trace_ves.core.jsonl import parse_object
from trace_ves.records import Item
from trace_ves.records.disk_cache import Facts
from trace_ves.records.run_index import BYTE_ORDER_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from trace_ves.core import Interval

MOST_REMEMBERED: Final = 4096
"""Questions of a large bench that stay in memory once they were read."""


@dataclass(frozen=True, slots=True)
class QuestionInfo:
    """What the page knows about a question."""

    question: Question
    duration: float | None = None
    item: Item | None = None
    """The question with its gold answer and evidence; None where they are not known."""

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


class QuestionColumns:
    """What lists need of the questions themselves, the same for every run."""

    def __init__(
        self,
        questions: Mapping[str, QuestionInfo],
        ids: list[str],
        *,
        has_item: NDArray[np.bool_],
        has_evidence: NDArray[np.bool_],
        families: list[str],
    ) -> None:
        self.infos: Final = questions
        self.ids: Final = ids
        self.has_item: Final = has_item
        self.has_evidence: Final = has_evidence
        self.families: Final = families

    @classmethod
    def of(cls, questions: Mapping[str, QuestionInfo]) -> QuestionColumns:
        """The columns of these questions; those of a `BenchQuestions` are there already."""
        if isinstance(questions, BenchQuestions):
            return questions.columns
        infos = questions.values()
        return cls(
            questions,
            list(questions),
            has_item=np.array([info.item is not None for info in infos], np.bool_),
            has_evidence=np.array([bool(info.evidence) for info in infos], np.bool_),
            families=[info.question.family for info in infos],
        )

    @cached_property
    def haystacks(self) -> list[str]:
        """What a text is searched in, for each question."""
        return [search_text(info.question) for info in self.infos.values()]


def search_text(question: Question) -> str:
    """What a text is searched in."""
    return "\n".join((question.id, question.text, question.video, *question.options)).casefold()


class BenchQuestions(Mapping[str, QuestionInfo]):
    """The questions of a large bench file, each read from its line when it is needed."""

    def __init__(self, path: Path, facts: Facts) -> None:
        """`facts` is what `locate_questions` made of the same file."""
        self._path = path
        ids: list[str] = facts.values["ids"]
        self._places = {name: at for at, name in enumerate(ids)}
        self._offset, self._length = facts.columns["offset"], facts.columns["length"]
        self.columns: Final = QuestionColumns(
            self,
            ids,
            has_item=np.ones(len(ids), np.bool_),
            has_evidence=facts.columns["has_evidence"],
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
        at = self._places[question_id]
        try:
            with self._path.open("rb") as file:
                file.seek(int(self._offset[at]))
                item = Item.from_json(parse_object(file.read(int(self._length[at]))))
        except (OSError, ValueError):
            item = None
        if item is None or item.question.id != question_id:
            raise InputError(f"{self._path}: the bench was changed while its page was open; start the page again.")
        return QuestionInfo.of_item(item)


def locate_questions(path: Path, infos: Mapping[str, QuestionInfo]) -> Facts:
    """Where the lines of a bench file begin whose usable questions are these, and what lists need of them."""
    names, offsets, lengths, offset = [], [], [], 0
    with path.open("rb") as file:
        for raw in file:
            text = raw if offset else raw.removeprefix(BYTE_ORDER_MARK)
            name = "" if text.isspace() else str(parse_object(text)["id"])
            if name in infos:
                names.append(name)
                offsets.append(offset + len(raw) - len(text))
                lengths.append(len(text))
            offset += len(raw)
    return Facts(
        {"ids": names, "families": [infos[name].question.family for name in names]},
        {
            "offset": np.array(offsets, np.int64),
            "length": np.array(lengths, np.int64),
            "has_evidence": np.array([bool(infos[name].evidence) for name in names], np.bool_),
        },
    )
