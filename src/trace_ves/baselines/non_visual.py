"""Methods that never look: what a question gives away without the video (blind), and chance (random)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.baselines.registry import MethodFamily
from trace_ves.baselines.uniform import answer_request, chosen
from trace_ves.core import Answer

if TYPE_CHECKING:
    from trace_ves.core import Question
    from trace_ves.observer import Observer


def blind(question: Question, observer: Observer) -> Answer:
    """Ask for the answer from the question and options alone."""
    [reply] = observer.ask([answer_request(question)])
    return Answer(chosen(reply))


@dataclass(frozen=True, slots=True)
class Random:
    """A letter drawn by the seed and the question's id: the chance line of a table, the same in every run and order."""

    seed: int = 0

    def __call__(self, question: Question, observer: Observer) -> Answer:  # noqa: ARG002  it never looks
        """Draw a letter; an open question has none to draw."""
        draw = random.Random(f"{self.seed}:{question.id}")  # noqa: S311  chance, not a secret
        return Answer(draw.choice(question.letters) if question.letters else None)


METHODS: Final = (
    MethodFamily("random", r"random(?:-(\d{1,9}))?", lambda seed=0: Random(int(seed))),
    MethodFamily("blind", "blind", lambda: blind),
)
