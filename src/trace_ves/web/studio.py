"""What stands behind the page to ask on: the videos, the model, the search of the moment, and the answers so far."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from trace_ves import video as videos
from trace_ves.agent.evidence_assembly import AssemblyReply
from trace_ves.backbone.protocol import ModelFault
from trace_ves.backbone.replies import AnswerReply
from trace_ves.core import InputError, TraceVesError
from trace_ves.core.display import describe_stage
from trace_ves.core.jsonl import dump_line
from trace_ves.core.plugins import described
from trace_ves.observer import UNLIMITED, CallAnswered, Decided, ReplyRejected, RoundStarted, StageStarted
from trace_ves.records.transcript import transcripts_path
from trace_ves.runs.asking import AskResult, ask, make_question
from trace_ves.runs.cost import Spent
from trace_ves.runs.estimate import THINKING_TOKENS, Estimate, estimate
from trace_ves.web.library import Library, QuestionInfo
from trace_ves.web.open_library import TITLE_LENGTH
from trace_ves.web.search_view import decision_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.core import Interval, Question
    from trace_ves.observer import Listener, Progress
    from trace_ves.runs.prices import Price, Prices

VIDEO_SUFFIXES: Final = frozenset(
    {".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".ts", ".m2ts", ".ogv", ".mpg", ".mpeg", ".flv", ".wmv", ".3gp"}
)
MOST_VIDEOS: Final = 2000
LOOK_AGAIN_SECONDS: Final = 2.0
"""A page asks for many frames at once, and each must name a video that is there."""


class VideoFolders:
    """Looks into its folders when it is asked, though not again and again; links that lead out are left alone."""

    def __init__(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            if not folder.exists():
                raise InputError(f"{folder}: no such file or folder; name a video, or a folder with videos.")
        self._given = tuple(folders)
        self.roots: Final = tuple(
            dict.fromkeys((folder if folder.is_dir() else folder.parent).resolve() for folder in folders)
        )
        """Where files may lie."""
        self._looked = -math.inf
        self._found: dict[str, Path] = {}

    def find(self) -> dict[str, Path]:
        """The videos by the names that the page shows, in their order."""
        if time.monotonic() - self._looked > LOOK_AGAIN_SECONDS:
            self._found = self._look()
            self._looked = time.monotonic()
        return self._found

    def _look(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for given in self._given:
            files = sorted(given.rglob("*")) if given.is_dir() else [given]
            for file in files:
                if len(found) == MOST_VIDEOS:
                    return found
                if (given.is_dir() and file.suffix.lower() not in VIDEO_SUFFIXES) or not self._is_inside(file):
                    continue
                name = str(file.relative_to(given)) if given.is_dir() else file.name
                if name in found:
                    name = f"{given.resolve().name}/{name}"
                found.setdefault(name, file.resolve())
        return found

    def _is_inside(self, file: Path) -> bool:
        try:
            real = file.resolve(strict=True)
        except (OSError, RuntimeError):
            return False
        return real.is_file() and any(real.is_relative_to(root) for root in self.roots)


MOST_FRAMES: Final = 600
"""Frames that one event names; a page shows no more."""
LONGEST_TEXT: Final = 2000
Json = dict[str, object]


def event_of(progress: Progress) -> Json:
    """An event of a search, with how far the budget was spent."""
    budget = None if progress.budget >= UNLIMITED else progress.budget
    return {"supplied": progress.frames_supplied, "budget": budget, **_what(progress)}


def _what(progress: Progress) -> Json:
    match progress.event:
        case RoundStarted(number=number):
            return {"kind": "round", "number": number}
        case StageStarted(stage=stage, spans=spans, timestamps=timestamps):
            about = describe_stage(stage)
            return {
                "kind": "stage",
                "stage": stage,
                "title": about.title,
                "doing": about.doing,
                "colour": about.colour or "grey",
                "spans": _pairs(dict.fromkeys(spans)),
                "frames": list(timestamps[:MOST_FRAMES]),
            }
        case CallAnswered() as answered:
            return _answered(answered)
        case Decided(action=action, decision=decision):
            words = decision_text(decision) if decision is not None else ""
            refused = [text[:LONGEST_TEXT] for text in decision.refused] if decision is not None else []
            return {"kind": "decided", "action": action or "END", "words": words, "refused": refused}
        case ReplyRejected(stage=stage, reason=reason, raw=raw):
            return {
                "kind": "rejected",
                "title": describe_stage(stage).title,
                "reason": reason[:LONGEST_TEXT],
                "raw": raw[:LONGEST_TEXT],
            }


def _answered(event: CallAnswered) -> Json:
    """What a call came to; for a bundle and for a replay, also what the model made of it."""
    call, reply = event.call, event.reply
    found: Json = {
        "kind": "answered",
        "stage": call.stage,
        "title": describe_stage(call.stage).title,
        "frames": len(call.timestamps),
        "seconds": round(call.seconds, 3),
        "spans": _pairs(event.spans),
        "fault": isinstance(reply, ModelFault),
    }
    if isinstance(reply, AssemblyReply):
        moments = sorted(call.timestamps)
        found["bundle"] = {
            "status": reply.status.value,
            "answer": reply.answer,
            "open": len(reply.unmet_needs),
            "facts": len(reply.facts_supported),
            "pictures": [_middle(span, moments) for span in event.spans],
        }
    elif isinstance(reply, AnswerReply):
        found["answer"] = reply.answer
    return found


def _middle(span: Interval, moments: Iterable[float]) -> float:
    """The frame of a clip that stands for it: the one nearest to its middle."""
    centre = (span.start + span.end) / 2
    return min((moment for moment in moments if moment in span), key=lambda at: abs(at - centre), default=centre)


def _pairs(spans: Iterable[Interval]) -> list[list[float]]:
    return [[span.start, span.end] for span in spans]


State = Literal["running", "done", "failed", "cancelled"]
MOST_EVENTS: Final = 20_000


class CancelledSearchError(TraceVesError):
    """Raised inside a search whose person wants no more of it."""


class LiveSearch:
    """Answers one question in a thread of its own. Everybody may ask how far it is.

    `answer` is called with a listener; `keep` gets its result, and gives the address of the story. A cancelled search
    sends no further call: one that is in flight is awaited by its thread alone, and its reply is thrown away.
    """

    def __init__(
        self,
        number: int,
        title: str,
        video: str,
        answer: Callable[[Listener], AskResult],
        *,
        keep: Callable[[AskResult], Json],
        price: Price | None,
    ) -> None:
        self.number: Final = number
        self.title: Final = title
        """The question, by which its story is found."""
        self.video: Final = video
        """The name of what it is about."""
        self.state: State = "running"
        self._answer, self._keep, self._price = answer, keep, price
        self._events: list[Json] = []
        self._spent = Spent()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"search-{number}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until its thread has ended, but not longer than this."""
        self._thread.join(seconds)

    def cancel(self) -> None:
        """End it: nothing more is sent. A search that has ended stays as it is."""
        self._end("cancelled", {"kind": "cancelled"})

    def events_after(self, count: int) -> list[Json]:
        """What has happened since the first `count` events."""
        with self._lock:
            return self._events[count:]

    def spent(self) -> Json:
        """What its calls came to so far."""
        with self._lock:
            return self._spent.to_json(self._spent.dollars(self._price))

    def _run(self) -> None:
        try:
            result = self._answer(self._hear)
            if self.state == "running":
                self._end("done", {"kind": "done", **self._keep(result)})
        except CancelledSearchError:
            pass  # whoever cancelled it has said so
        except TraceVesError as error:
            self._end("failed", {"kind": "failed", "sentence": str(error)})
        except Exception as error:  # noqa: BLE001  a page that waits must hear of it
            self._end("failed", {"kind": "failed", "sentence": described(error)})

    def _hear(self, progress: Progress) -> None:
        with self._lock:
            if self.state != "running":
                raise CancelledSearchError("the search was cancelled.")
            if isinstance(progress.event, CallAnswered):
                self._spent.add(progress.event.call)
            if len(self._events) < MOST_EVENTS:
                self._events.append(event_of(progress))

    def _end(self, state: State, event: Json) -> None:
        with self._lock:
            if self.state == "running":
                self.state = state
                self._events.append(event)


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
