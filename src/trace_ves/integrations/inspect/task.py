"""A bench as a task of inspect_ai."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread
from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from rich.markup import escape

from trace_ves._version import __version__
from trace_ves.benches import load_bench
from trace_ves.core import InputError
from trace_ves.integrations.inspect.backbone import InspectBackbone
from trace_ves.records import Item, Prediction
from trace_ves.records.item import BenchLine
from trace_ves.runs.answering import Answered, Job, answer_question
from trace_ves.runs.methods import open_method
from trace_ves.runs.video_pool import VideoPool, bench_folder, check_durations
from trace_ves.ves.metrics import HEADLINE_DENSITY, densities
from trace_ves.ves.rows import row_of_prediction

STORE_KEY: Final = "trace_ves:prediction"
"""The store key for the line of a run file, which `trace-ves audit --format inspect` reads."""
_ITEM: Final = "item"
_VIDEO: Final = "video"
_MEASURED: Final = "measured"  # Whether the audit's table counts the question


def item_of(state: TaskState) -> Item:
    """The question of a sample, with its answer and its evidence."""
    if _ITEM not in state.metadata:
        raise InputError(f"sample {state.sample_id!r} is not of the task trace_ves/ves: its metadata has no {_ITEM!r}.")
    return BenchLine.from_json(state.metadata[_ITEM]).item()


@scorer(metrics={"*": [mean(), stderr()]})
def audit(k: int = HEADLINE_DENSITY) -> Scorer:
    """Acc: a correct answer. Cov@k: at least k frames in every evidence interval. ECA@k: both. Fr: frames supplied.

    Rates are from 0 to 1, as elsewhere in inspect_ai. A sample without a prediction is wrong and unobserved, like a
    question without a line in `trace-ves audit`.
    """

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001  the item has the answer too
        item, stored = item_of(state), state.store.get(STORE_KEY)
        prediction = None if stored is None else Prediction.from_json(stored)
        row = row_of_prediction(item, prediction)
        measured, correct = bool(state.metadata[_MEASURED]), bool(row.correct)
        levels = densities(k) if item.evidence or not measured else ()
        figures = {
            "Acc": correct,
            **{f"Cov@{level}": row.density >= level for level in levels},
            **{f"ECA@{level}": correct and row.density >= level for level in levels},
            "Fr": row.frames_supplied,
        }  # inspect_ai leaves nan out of the mean, as the audit does
        values = {name: float(figure) if measured else math.nan for name, figure in figures.items()}
        explanation = (
            f"{row.frames_supplied} frames supplied, {row.frames_distinct} of them distinct, {row.frames_inside} "
            f"inside the evidence, {row.density} in its least observed interval"
        )
        return Score(value=values, answer=prediction.answer if prediction else None, explanation=explanation)

    return score


OPEN_VIDEOS: Final = 8  # Videos that stay open between samples


@solver
def trace(budget: int | None = None) -> Solver:
    """TRACE; `budget` bounds the frames that a question may cost."""
    return _make_solver("trace", budget)


@solver
def uniform(frames: int = 64) -> Solver:
    """One call with frames spread evenly over the video."""
    return _make_solver(f"uniform-{frames}", None)


@solver
def avp(budget: int | None = None) -> Solver:
    """AVP: plan, observe, reflect."""
    return _make_solver("avp", budget)


@solver
def vca(budget: int | None = None) -> Solver:
    """VCA: explore segments by reward."""
    return _make_solver("vca", budget)


@solver
def method(name: str, budget: int | None = None) -> Solver:
    """Any method of `trace-ves run` by its name, your own `package.module:callable` included."""
    return _make_solver(name, budget)


def _make_solver(name: str, budget: int | None) -> Solver:
    method_to_run = open_method(name)
    videos = VideoPool(OPEN_VIDEOS)

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001  a method asks in its own words
        question, path = item_of(state).question, str(state.metadata[_VIDEO])
        backbone = InspectBackbone(get_model())
        job = Job(name, backbone.name, budget)

        def work() -> Answered:
            with videos.borrow(path) as video:
                return answer_question(question, video, job, method=method_to_run, backbone=backbone)

        result = await to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))
        await anyio.lowlevel.checkpoint_if_cancelled()  # after a time limit, the method's error is only a consequence
        state.store.set(STORE_KEY, result.prediction.to_json())
        if result.error is not None:  # inspect_ai decides by the type of the error what to retry
            raise result.error.__cause__ or result.error
        option = result.answer.option
        # inspect_ai's viewer and scorers read the answer from `output` and `choices`
        state.output = ModelOutput.from_content(str(state.model), f"ANSWER: {option}" if option else "no answer")
        for place, letter in enumerate(question.letters):
            state.choices.mark_choice(place, letter == option)
        return state

    return solve


make_method_solver = method  # `ves` has an argument with the name `method`


@task
def ves(bench: str = "", method: str = "trace", budget: int | None = None, k: int = HEADLINE_DENSITY) -> Task:
    """The questions of a bench folder, answered by a method and audited.

    `-T bench=BENCH -T method=uniform-64`; any solver of inspect_ai's may be named with `--solver` instead.
    """
    try:
        dataset, solver = _load_dataset(bench), make_method_solver(method, budget)
    except InputError as error:  # inspect_ai prints a `PrerequisiteError` without a traceback
        raise PrerequisiteError(escape(f"ERROR: {error}")) from None
    return Task(dataset=dataset, solver=solver, scorer=audit(k), metadata={"trace_ves": __version__})


def _load_dataset(bench: str) -> MemoryDataset:
    if not bench:
        raise InputError("the task trace_ves/ves needs a bench: -T bench=FOLDER, with questions.jsonl in it.")
    loaded = load_bench(Path(bench).expanduser().absolute())
    for sentence in loaded.warnings:
        logging.getLogger(__name__).warning("%s", sentence)
    check_durations(loaded, {item.question.video for item in loaded.items}, lambda _done, _total: None)
    folder = bench_folder(loaded)
    with_evidence = any(item.evidence for item in loaded.items)
    samples = [
        Sample(
            id=item.question.id,
            input=item.question.text,
            choices=list(item.question.options),
            target=item.answer,
            metadata={
                _ITEM: item.to_json(),
                _VIDEO: str(folder / item.question.video),
                _MEASURED: bool(item.evidence) or not with_evidence,
                "family": item.question.family,
            },
        )
        for item in loaded.items
    ]
    return MemoryDataset(samples, name=folder.name)
