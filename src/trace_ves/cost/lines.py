"""Costs as flat lines that can be grouped and sorted: `cost_lines`, for pages, tables and `--json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from trace_ves.cost.spent import Spent
from trace_ves.records import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trace_ves.cost.prices import Prices
    from trace_ves.records import Prediction

Key = Literal["run", "method", "backbone", "stage", "question_id"]
KEYS: Final[tuple[Key, ...]] = ("run", "method", "backbone", "stage", "question_id")
_Group = tuple[str | None, str | None, str | None, str | None, str | None]
UNRECORDED_STAGE: Final = "not recorded"
"""The stage of a line that states its tokens and none of its calls, as another program may write it."""


@dataclass(frozen=True, slots=True)
class CostLine:
    """What the calls of one run, method, backbone, stage and question cost; a key is None where it was summed over."""

    run: str | None
    method: str | None
    backbone: str | None
    stage: str | None
    question_id: str | None
    questions: int
    """Answers that the line is about: a question answered by two runs counts twice."""
    spent: Spent
    """Calls, frames, faults, seconds, tokens, and the cached share of the input tokens."""
    dollars: float | None
    """None where a backbone among the calls has no price."""

    def to_json(self) -> dict[str, object]:
        """The line, for machines: keys that were summed over are left out."""
        keys: dict[str, object] = {key: value for key in KEYS if (value := getattr(self, key)) is not None}
        return {**keys, "questions": self.questions, **self.spent.to_json(self.dollars)}


def cost_lines(
    runs: Iterable[tuple[str, Iterable[Prediction]]], prices: Prices, *, by: tuple[Key, ...] = KEYS
) -> list[CostLine]:
    """What runs cost, by the keys of `by`: by all of them a line for each run, question and stage.

    `cost_lines(runs, prices, by=("method", "stage"))` has a line for each stage of each method, over all questions and
    runs. A run is its name and its predictions, which are read once and not kept. Lines stand in the order of first
    appearance. An answer without calls or tokens has no line: it cost nothing.
    """
    return group_lines(_finest(runs, prices), by)


def group_lines(lines: Iterable[CostLine], by: tuple[Key, ...]) -> list[CostLine]:
    """Lines of `cost_lines` added up by fewer keys, so that one reading serves several tables.

    The lines must have the keys `run` and `question_id`, by which answers are counted.
    """
    sums: dict[_Group, Spent] = {}
    dollars: dict[_Group, float | None] = {}
    answers: dict[_Group, set[tuple[str | None, str | None]]] = {}
    for line in lines:
        group = _group(line, by)
        spent = sums.setdefault(group, Spent())
        spent += line.spent
        before = dollars.setdefault(group, 0.0)
        dollars[group] = None if before is None or line.dollars is None else before + line.dollars
        answers.setdefault(group, set()).add((line.run, line.question_id))
    return [CostLine(*group, len(answers[group]), sums[group], dollars[group]) for group in sums]


def _group(line: CostLine, by: tuple[Key, ...]) -> _Group:
    return (
        line.run if "run" in by else None,
        line.method if "method" in by else None,
        line.backbone if "backbone" in by else None,
        line.stage if "stage" in by else None,
        line.question_id if "question_id" in by else None,
    )


def _finest(runs: Iterable[tuple[str, Iterable[Prediction]]], prices: Prices) -> Iterator[CostLine]:
    for run, predictions in runs:
        for prediction in predictions:
            price = prices.of(prediction.backbone) if prediction.backbone else None
            for stage, spent in stages_of(prediction).items():
                keys = (run, prediction.method, prediction.backbone, stage, prediction.question_id)
                yield CostLine(*keys, 1, spent, spent.dollars(price))


def stages_of(prediction: Prediction) -> dict[str, Spent]:
    """What each stage of one answer came to, in the order in which the stages first came up."""
    stages: dict[str, Spent] = {}
    for call in prediction.observations:
        stages.setdefault(call.stage, Spent()).add(call)
    if not stages and (prediction.frames_supplied or prediction.usage != Usage()):
        frames = prediction.frames_supplied
        stages[UNRECORDED_STAGE] = Spent(frames=frames, seconds=prediction.seconds, usage=prediction.usage)
    return stages
