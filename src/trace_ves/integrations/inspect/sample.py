"""How a question of a bench travels through inspect_ai: an item in the sample's metadata, a prediction in its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from inspect_ai.dataset import Sample

from trace_ves.core.errors import InputError
from trace_ves.records import Item, Prediction
from trace_ves.records.item import BenchLine

if TYPE_CHECKING:
    from pathlib import Path

    from inspect_ai.solver import TaskState

STORE_KEY: Final = "trace_ves:prediction"
"""Where a solver leaves the line of a run file; `trace-ves audit --format inspect` reads it there."""
_ITEM: Final = "item"
_VIDEO: Final = "video"
_MEASURED: Final = "measured"


def make_sample(item: Item, folder: Path, *, measured: bool) -> Sample:
    """A question as a sample. `measured` says whether the audit's table counts it."""
    question = item.question
    return Sample(
        id=question.id,
        input=question.text,
        choices=list(question.options),
        target=item.answer,
        metadata={
            _ITEM: item.to_json(),
            _VIDEO: str(folder / question.video),
            _MEASURED: measured,
            "family": question.family,
        },
    )


def item_of(state: TaskState) -> Item:
    """The question of a sample, with its answer and its evidence."""
    if _ITEM not in state.metadata:
        raise InputError(f"sample {state.sample_id!r} is not of the task trace_ves/ves: its metadata has no {_ITEM!r}.")
    return BenchLine.from_json(state.metadata[_ITEM]).item()


def video_of(state: TaskState) -> str:
    """Where the video of a sample lies."""
    return str(state.metadata[_VIDEO])


def is_measured(state: TaskState) -> bool:
    """Whether the audit's table counts the question of a sample."""
    return bool(state.metadata[_MEASURED])


def keep(state: TaskState, prediction: Prediction) -> None:
    """Leave a prediction in the sample's store."""
    state.store.set(STORE_KEY, prediction.to_json())


def kept(state: TaskState) -> Prediction | None:
    """The prediction in a sample's store, where its solver left one."""
    found: Any = state.store.get(STORE_KEY)
    return None if found is None else Prediction.from_json(found)
