"""Self-consistency: N samples over the same uniform frames, and the answer that most of them give.

The paper's contrast to the evidence growth trajectory: here the evidence never changes, so agreement shows how sure the
model is, not whether the evidence suffices.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.replies import same_answer
from trace_ves.baselines.registry import MethodFamily, count_in_name
from trace_ves.baselines.uniform import DEFAULT_HEIGHT, answer_request, chosen
from trace_ves.core import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.core import Question
    from trace_ves.observer import Observer


@dataclass(frozen=True, slots=True)
class Vote:
    """`samples` draws over `frames` uniform frames. Every draw supplies the frames again, and pays for them."""

    samples: int
    frames: int = 64
    """The paper's budget for direct answering."""
    height: int = DEFAULT_HEIGHT

    def __call__(self, question: Question, observer: Observer) -> Answer:
        """Draw, count, and answer with the majority."""
        clip = observer.survey(observer.whole, self.frames, height=self.height)
        draws = range(1, self.samples + 1)  # 0 would ask for the model's most likely answer instead of a draw
        replies = observer.ask([answer_request(question, (clip,), sample=draw) for draw in draws])
        votes = [chosen(reply) for reply in replies]
        return Answer(majority(votes), bundle=(clip,), record={"votes": votes})


def majority(votes: Sequence[str | None]) -> str | None:
    """The answer given most often, the one given first among equals; a vote without an answer counts for none."""
    ballots: defaultdict[str, int] = defaultdict(int)
    for vote in votes:
        if vote is not None:
            ballots[next((known for known in ballots if same_answer(known, vote)), vote)] += 1
    return max(ballots, key=ballots.__getitem__, default=None)


MAX_SAMPLES: Final = 256

METHODS: Final = (MethodFamily("vote-5", r"vote-(\d{1,9})", lambda n: Vote(count_in_name("vote-N", n, MAX_SAMPLES))),)
