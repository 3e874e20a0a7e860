"""What stands behind the page to ask on: the videos, the model, the search of the moment, and the answers so far."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from trace_ves import video as videos
from trace_ves.asking import AskResult, ask, make_question
from trace_ves.core import InputError, TraceVesError
from trace_ves.core.jsonl import dump_line
from trace_ves.cost.estimate import THINKING_TOKENS, Estimate, estimate
from trace_ves.cost.spent import Spent
from trace_ves.records.transcript import transcripts_path
from trace_ves.studio.search import LiveSearch
from trace_ves.web.library import Library, QuestionInfo
from trace_ves.web.open_library import TITLE_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.core import Question
    from trace_ves.cost.prices import Prices
    from trace_ves.observer import Listener
    from trace_ves.studio.events import Json
    from trace_ves.studio.videos import VideoFolders

RUN: Final = "answers"
"""The run that the answers are."""
METHODS: Final = ("trace", "uniform-16", "uniform-64", "avp", "vca")
"""What a page may choose from; the person at the command line may name any other."""


class BusyError(InputError):
    """One question is being answered already."""


@dataclass(frozen=True, slots=True)
class Model:
    """The backbone that a person named, with the options that its costs depend on."""

    spec: str
    backbone: Backbone = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)


class Studio:
    """One person's questions. `folder` takes the answers as a run, which the story pages read."""

    def __init__(
        self,
        found: VideoFolders,
        model: Model,
        folder: Path,
        prices: Prices,
        *,
        method: str = "trace",
        budget: int | None = None,
        save: Callable[[AskResult, int], None] | None = None,
    ) -> None:
        self.videos: Final = found
        self.model: Final = model
        self.prices: Final = prices
        self.methods: Final = tuple(dict.fromkeys((method, *METHODS)))
        """The first one is chosen unless a person chooses another."""
        self.budget: Final = budget
        self.searches: list[LiveSearch] = []
        self._folder = folder
        self._save = save
        self._questions: dict[str, QuestionInfo] = {}
        self._lock = threading.Lock()
        self.library: Final = Library(folder, self._questions, [folder, *found.roots], found.roots[0])
        self.library.home = "Ask"
        self._estimate = lru_cache(maxsize=256)(self._fresh_estimate)

    @property
    def current(self) -> LiveSearch | None:
        """The search of the moment, or the last one."""
        return self.searches[-1] if self.searches else None

    def search(self, number: int) -> LiveSearch:
        """A search by its number; a `KeyError` where there is none."""
        if not 1 <= number <= len(self.searches):
            raise KeyError(number)
        return self.searches[number - 1]

    def duration(self, name: str) -> float:
        """How long a video is, in seconds."""
        with videos.open(self._video(name)) as opened:
            return opened.duration

    def estimate(self, name: str, method: str, budget: int | None) -> Json:
        """What a question about a video will cost, before anything is sent."""
        self._check(method, budget)
        found = self._estimate(round(self.duration(name), -1), method, budget)
        spent = Spent.total(found.by_stage.values())
        return {
            "calls": round(spent.calls / found.measured, 1),
            "frames": round(spent.frames / found.measured),
            "input_tokens": round(spent.usage.input_tokens / found.measured),
            "output_tokens": round(spent.usage.output_tokens / found.measured),
            "dollars": found.dollars(),
            "dollars_thinking": found.dollars(thinking_tokens=THINKING_TOKENS),
            "thinking_tokens": THINKING_TOKENS,
        }

    def begin(self, name: str, text: str, options: Sequence[str], method: str, budget: int | None) -> LiveSearch:
        """Begin to answer a question; what a person got wrong about it is an `InputError`."""
        path = self._video(name)
        self._check(method, budget)
        question = make_question(str(path), text, options)
        info = QuestionInfo(question, self.duration(name))
        with self._lock:
            if self.current is not None and self.current.state == "running":
                raise BusyError("a question is being answered; wait for it, or cancel it.")
            title = self._title(question)
            self._questions[title] = replace(info, question=replace(question, id=title))
            number = len(self.searches) + 1
            search = LiveSearch(
                number,
                title,
                name,
                lambda listener: self._ask(question, method, budget, listener),
                keep=lambda result: self._keep(result, title, number),
                price=self.prices.of(self.model.spec),
            )
            self.searches.append(search)
        search.start()
        return search

    def close(self) -> None:
        """Cancel what runs, and give it a moment to end."""
        if self.current is not None:
            self.current.cancel()
            self.current.join(2.0)

    def _video(self, name: str) -> Path:
        found = self.videos.find().get(name)
        if found is None:
            raise InputError(f"there is no video {name[:80]!r} in the folders that were given.")
        return found

    def _check(self, method: str, budget: int | None) -> None:
        if method not in self.methods:
            raise InputError(f"the page offers the methods {', '.join(self.methods)}.")
        if budget is not None and not 1 <= budget <= 100_000:
            raise InputError(f"the budget must be 1 to 100,000 frames, found {budget}.")

    def _fresh_estimate(self, seconds: float, method: str, budget: int | None) -> Estimate:
        options = self.model.options
        return estimate(
            method,
            self.model.spec,
            [seconds],
            self.prices.of(self.model.spec),
            budget=budget,
            detail=options.get("detail", "auto"),
            flex=options.get("service_tier", "standard") != "standard",
        )

    def _title(self, question: Question) -> str:
        """The words of a question as its name; asked again, with a number."""
        words = " ".join(question.text.split())[:TITLE_LENGTH]
        again = 2
        title = words
        while title in self._questions:
            title = f"{words} ({again})"
            again += 1
        return title

    def _ask(self, question: Question, method: str, budget: int | None, listener: Listener) -> AskResult:
        return ask(
            question.video,
            question.text,
            question.options,
            backbone=self.model.backbone,
            method=method,
            budget=budget,
            listener=listener,
        )

    def _keep(self, result: AskResult, title: str, number: int) -> Json:
        """Write an answer down as a line of the run, and save it where that was asked for."""
        run = self._folder / f"{RUN}.jsonl"
        if result.transcript is not None:
            with transcripts_path(run).open("ab") as file:
                file.write(dump_line(replace(result.transcript, question_id=title).to_json()))
        with run.open("ab") as file:
            file.write(dump_line(replace(result.prediction, question_id=title, backbone=self.model.spec).to_json()))
        self.library.refresh(now=True)
        kept: Json = {"title": title, "answer": result.answer, "text": result.text, "stable": result.stable}
        try:
            if self._save is not None:
                self._save(result, number)
        except TraceVesError as error:  # an answer that was paid for is not lost to a full disk
            kept["sentence"] = str(error)
        return kept
