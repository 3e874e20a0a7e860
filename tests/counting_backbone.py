"""A backbone that counts what it is asked, for tests of what is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trace_ves.backbone import Generation, ModelFault
from trace_ves.core import BackboneError
from trace_ves.records import Usage
from trace_ves.records.transcript import ModelText

if TYPE_CHECKING:
    import threading


class Counting:
    """A backbone that counts what it is asked, and answers with the number of the question."""

    name = "counting:m"

    def __init__(
        self, *, wait: threading.Barrier | None = None, fail: tuple[str, ...] = (), fault: bool = False
    ) -> None:
        self.asked: list[str] = []
        self._wait, self._fail, self._fault = wait, fail, fault

    def generate(self, batch: Any) -> Any:
        if self._wait:
            self._wait.wait(20)
        answers = []
        for request in batch:
            question = request.variables["question"]
            self.asked.append(question)
            if question == self._fail:
                raise BackboneError("counting:m: the service is down.")
            reply = ModelFault("It would not.") if self._fault else request.reply(colour=question)
            answers.append(Generation(reply, Usage(100, 0, 10), 1.0, said=(ModelText(f"I say {question}"),)))
        return answers
