"""What a run cost, by stage and per question: calls, frames, tokens, seconds and money. The paper's cost appendix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_ves.cost.lines import stages_of
from trace_ves.cost.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trace_ves.cost.prices import Price
    from trace_ves.records import Prediction


@dataclass(frozen=True, slots=True)
class RunCost:
    """What one run cost."""

    name: str
    questions: int
    by_stage: Mapping[str, Spent]
    """In the order in which the stages first came up."""
    by_question: Mapping[str, Spent]
    """By the question's id."""
    price: Price | None

    @classmethod
    def of(cls, name: str, predictions: Iterable[Prediction], price: Price | None) -> RunCost:
        """Add up the calls of a run."""
        by_stage: dict[str, Spent] = {}
        by_question: dict[str, Spent] = {}
        questions = 0
        for prediction in predictions:
            questions += 1
            asked = by_question.setdefault(prediction.question_id, Spent())
            for stage, spent in stages_of(prediction).items():
                whole = by_stage.setdefault(stage, Spent())
                whole += spent
                asked += spent
        return cls(name, questions, by_stage, by_question, price)

    @property
    def total(self) -> Spent:
        """All stages together."""
        return Spent.total(self.by_stage.values())

    @property
    def dollars(self) -> float | None:
        """Money for the whole run; None where the model has no price."""
        return self.total.dollars(self.price)

    def to_json(self) -> dict[str, object]:
        """The cost, for machines."""
        return {
            "questions": self.questions,
            "total": self._json(self.total),
            "by_stage": {stage: self._json(spent) for stage, spent in self.by_stage.items()},
            "by_question": {question: self._json(spent) for question, spent in self.by_question.items()},
        }

    def _json(self, spent: Spent) -> dict[str, object]:
        return spent.to_json(spent.dollars(self.price))
