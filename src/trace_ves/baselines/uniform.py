"""Direct answering from N frames of the canonical centred-uniform schedule. Looks once, whatever the question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.baselines.direct import DEFAULT_HEIGHT, answer_request, chosen
from trace_ves.baselines.registry import MethodFamily, count_in_name
from trace_ves.core import Answer

if TYPE_CHECKING:
    from trace_ves.core import Question
    from trace_ves.observer import Observer


@dataclass(frozen=True, slots=True)
class Uniform:
    """`frames` frames at t_j = (j + 1/2) T / frames, one call. A video with fewer frames supplies each of them once."""

    frames: int
    height: int = DEFAULT_HEIGHT

    def __call__(self, question: Question, observer: Observer) -> Answer:
        """Look once and answer."""
        clip = observer.survey(observer.whole, self.frames, height=self.height)
        [reply] = observer.ask([answer_request(question, (clip,))])
        return Answer(chosen(reply), bundle=(clip,))


MAX_FRAMES: Final = 4096

METHODS: Final = (
    MethodFamily("uniform-64", r"uniform-(\d{1,9})", lambda n: Uniform(count_in_name("uniform-N", n, MAX_FRAMES))),
)
