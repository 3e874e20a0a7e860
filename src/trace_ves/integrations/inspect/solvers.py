"""The methods as solvers of inspect_ai, with the evaluated model as their backbone.

A method is synchronous and may take minutes, so each sample has a worker thread of its own; how many samples are under
way is inspect_ai's `max_samples`. No thread of a pool with a limit is used: a method that waits in one for a model
call that needs another would wait for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.solver import solver

from trace_ves.integrations.inspect.backbone import InspectBackbone
from trace_ves.integrations.inspect.sample import item_of, keep, video_of
from trace_ves.methods import open_method
from trace_ves.running.answering import Answered, answer_question
from trace_ves.running.job import Job
from trace_ves.running.video_pool import VideoPool

if TYPE_CHECKING:
    from inspect_ai.solver import Generate, Solver, TaskState

OPEN_VIDEOS: Final = 8
"""Videos that stay open between the samples that ask about them."""


@solver
def trace(budget: int | None = None) -> Solver:
    """TRACE; `budget` bounds the frames that a question may cost."""
    return _solver("trace", budget)


@solver
def uniform(frames: int = 64) -> Solver:
    """One call with frames spread evenly over the video."""
    return _solver(f"uniform-{frames}", None)


@solver
def avp(budget: int | None = None) -> Solver:
    """AVP: plan, observe, reflect."""
    return _solver("avp", budget)


@solver
def vca(budget: int | None = None) -> Solver:
    """VCA: explore segments by reward."""
    return _solver("vca", budget)


@solver
def method(name: str, budget: int | None = None) -> Solver:
    """Any method of `trace-ves run` by its name, your own `package.module:callable` included."""
    return _solver(name, budget)


def _solver(name: str, budget: int | None) -> Solver:
    answering = open_method(name)
    videos = VideoPool(OPEN_VIDEOS)

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001  a method asks in its own words
        question, path = item_of(state).question, video_of(state)
        backbone = InspectBackbone(get_model())
        job = Job(name, backbone.name, budget)

        def work() -> Answered:
            with videos.borrow(path) as video:
                return answer_question(question, video, job, method=answering, backbone=backbone)

        answered = await to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))
        await anyio.lowlevel.checkpoint_if_cancelled()  # a time limit ends the sample; the method's error is its echo
        keep(state, answered.prediction)
        if answered.error is not None:  # inspect_ai knows its own limits, and what to retry, by the type of the error
            raise answered.error.__cause__ or answered.error
        return _with_answer(state, answered)

    return solve


def _with_answer(state: TaskState, answered: Answered) -> TaskState:
    """The answer where inspect_ai's viewer and its own scorers look for it."""
    option = answered.answer.option
    state.output = ModelOutput.from_content(str(state.model), f"ANSWER: {option}" if option else "no answer")
    for place, letter in enumerate(item_of(state).question.letters):
        state.choices.mark_choice(place, letter == option)
    return state
