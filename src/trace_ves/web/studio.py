"""The state of the studio: the videos, the model, the running search, and the answers so far."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, Literal

from trace_ves import video as videos
from trace_ves.agent.evidence_assembly import AssemblyReply
from trace_ves.core import InputError, Interval, Question, TraceVesError
from trace_ves.core.display import describe_stage
from trace_ves.core.jsonl import dump_line
from trace_ves.core.plugins import described
from trace_ves.observer import (
    UNLIMITED,
    CallAnswered,
    Decided,
    Listener,
    Progress,
    ReplyRejected,
    RoundStarted,
    StageStarted,
)
from trace_ves.records.transcript import transcripts_path
from trace_ves.runs.asking import AskResult, ask, make_question
from trace_ves.runs.cost import Spent
from trace_ves.runs.estimate import THINKING_TOKENS, Estimate, estimate
from trace_ves.runs.prices import Price, Prices, with_date
from trace_ves.video.folders import VIDEO_SUFFIXES, VideoFolders
from trace_ves.web.library import Library
from trace_ves.web.listing import QuestionInfo
from trace_ves.web.open_library import TITLE_LENGTH
from trace_ves.web.search_view import describe_event, view_answer

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone

LONGEST_TEXT: Final = 2000
Json = dict[str, object]
State = Literal["running", "done", "failed", "cancelled"]


def event_of(progress: Progress) -> Json:
    """An event of a search as the page reads it, with how far the budget was spent."""
    event = progress.event
    budget = None if progress.budget >= UNLIMITED else progress.budget
    shown: Json = {"supplied": progress.frames_supplied, "budget": budget, "words": describe_event(event)}
    match event:
        case RoundStarted(number=number):
            return shown | {"kind": "round", "number": number}
        case StageStarted(stage=name, spans=spans, timestamps=timestamps):
            stage = describe_stage(name)
            where = {"spans": _pairs(dict.fromkeys(spans)), "frames": list(timestamps)}
            return shown | {"kind": "stage", "title": stage.title, "colour": stage.colour or "grey", **where}
        case CallAnswered(reply=AssemblyReply(status=status, answer=answer), call=call, spans=spans):
            pictures = [_middle_frame(span, call.timestamps) for span in spans]
            bundle = {"status": status.value, "answer": answer, "pictures": pictures}
            return shown | {"kind": "answered", "spans": _pairs(spans), "bundle": bundle}
        case CallAnswered():
            return shown | {"kind": "answered"}
        case Decided(decision=decision):
            refused = [text[:LONGEST_TEXT] for text in decision.refused]
            action = decision.action.action if decision.action else "END"
            return shown | {"kind": "decided", "action": action, "refused": refused}
        case ReplyRejected(stage=name, reason=reason, raw=raw):
            said = {"reason": reason[:LONGEST_TEXT], "raw": raw[:LONGEST_TEXT]}
            return shown | {"kind": "rejected", "title": describe_stage(name).title, **said}


def _middle_frame(span: Interval, moments: Iterable[float]) -> float:
    """The frame of a clip that is nearest to its middle."""
    centre = (span.start + span.end) / 2
    return min((moment for moment in moments if moment in span), key=lambda at: abs(at - centre), default=centre)


def _pairs(spans: Iterable[Interval]) -> list[list[float]]:
    return [[span.start, span.end] for span in spans]


class LiveSearch(threading.Thread):
    """Answers one question in its own thread: `answer` gets a listener, `keep` its result, and gives the last event."""

    def __init__(
        self,
        number: int,
        title: str,
        video: str,
        answer: Callable[[Listener], AskResult],
        *,
        keep: Callable[[AskResult], Json],
        price: Price | None,
        most_dollars: float = math.inf,
    ) -> None:
        super().__init__(name=f"search-{number}", daemon=True)
        self.number: Final = number
        self.title: Final = title  # the question, by which its page is found
        self.video: Final = video
        self.state: State = "running"
        self.result: AskResult | None = None
        self.answer = ""  # in words, once it is there
        self._answer, self._keep, self._price = answer, keep, price
        self._most_dollars = most_dollars
        self._events: list[Json] = []
        self._spent = Spent()
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """End it: no further call is sent, and the reply to one in flight is ignored."""
        self._end("cancelled", {})

    def events_after(self, count: int) -> list[Json]:
        """What has happened since the first `count` events."""
        with self._lock:
            return self._events[count:]

    @property
    def dollars(self) -> float:
        """What its calls cost so far; 0 where no price is known."""
        return self._spent.dollars(self._price) or 0.0

    def spent(self) -> Json:
        """What its calls used so far."""
        with self._lock:
            return self._spent.to_json(self._spent.dollars(self._price))

    def run(self) -> None:
        """Search, and end in one of the states."""
        try:
            result = self._answer(self._hear)
            if self.state == "running":
                self.result = result
                last = self._keep(result)
                self.answer = str(last["answer"])
                self._end("done", last)
        except Exception as error:  # noqa: BLE001  the page waits for an end, whatever happened
            sentence = str(error) if isinstance(error, TraceVesError) else described(error)
            self._end("failed", {"sentence": sentence})

    def _hear(self, progress: Progress) -> None:
        with self._lock:
            if self.state != "running":
                raise TraceVesError("the search was cancelled.")  # so that it sends no further call
            if isinstance(progress.event, CallAnswered):
                self._spent.add(progress.event.call)
            if isinstance(progress.event, StageStarted) and self.dollars >= self._most_dollars:  # before it is sent
                raise TraceVesError(f"the limit of this session is reached. {LIMIT_ADVICE}")
            self._events.append(event_of(progress))

    def _end(self, state: State, event: Json) -> None:
        """Only the first end counts."""
        with self._lock:
            if self.state == "running":
                self.state = state
                self._events.append({"kind": state, **event})


LIMIT_ADVICE: Final = "Start the studio with a higher --max-cost to continue."
MOST_UPLOAD_BYTES: Final = 4 * 1024**3
RUN: Final = "answers"  # the run that the answers are
METHODS: Final = ("trace", "uniform-16", "uniform-64", "avp", "vca")
"""What the page offers, beside the method of the command line."""


class BusyError(InputError):
    """A question is already being answered."""


@dataclass(frozen=True, slots=True)
class Model:
    """The backbone of the command line, with the options that its costs depend on."""

    spec: str
    backbone: Backbone = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SampleQuestion:
    """A question that the page offers, about `video` or any video."""

    question: str
    options: tuple[str, ...] = ()
    video: str | None = None


SAMPLES: Final = (
    SampleQuestion("What happens in this video, in order?"),
    SampleQuestion("How many people are seen?"),
    SampleQuestion("What text is shown, and when?"),
)


class Studio:
    """The questions of one user. `folder` takes the answers as a run, which the story pages read."""

    def __init__(
        self,
        found: VideoFolders,
        model: Model,
        folder: Path,
        prices: Prices,
        *,
        method: str = "trace",
        budget: int | None = None,
        save: Path | None = None,
        max_cost: float = 1.0,
        samples: Sequence[SampleQuestion] = (),
    ) -> None:
        self.max_cost: Final = max_cost  # dollars that the session may spend
        self.samples: Final = tuple(samples)
        self.uploads: Final = folder / "videos"
        self.uploads.mkdir(parents=True, exist_ok=True)
        self.videos: Final = VideoFolders([*found.given, self.uploads])
        self.model: Final = model
        self.prices: Final = prices
        self.methods: Final = tuple(dict.fromkeys((method, *METHODS)))  # the first one is chosen when the page opens
        self.budget: Final = budget
        self.searches: list[LiveSearch] = []
        self.folder: Final = folder
        self._save = save
        self._questions: dict[str, QuestionInfo] = {}
        self._lock = threading.Lock()
        self.library: Final = Library(folder, self._questions, [folder, *self.videos.roots], self.videos.roots[0])
        self.library.home = "Ask"
        self._estimate = lru_cache(maxsize=256)(self._fresh_estimate)

    @property
    def dollars(self) -> float:
        """What the session has cost."""
        return sum(search.dollars for search in self.searches)

    def add_video(self, name: str, write: Callable[[Path], object]) -> str:
        """Add a video under a name like this one; raises an `InputError` if it cannot be decoded."""
        given = PurePath(name.replace("\\", "/")).name
        stem = re.sub(r"[^\w.() -]+", "-", PurePath(given).stem).strip(". -")[:80] or "video"
        suffix = PurePath(given).suffix.lower()
        if suffix not in VIDEO_SUFFIXES:
            raise InputError(f"{given[:80]!r} does not end like a video, for example with .mp4, .mov or .mkv.")
        names = (f"{stem}{suffix}" if at == 1 else f"{stem} ({at}){suffix}" for at in count(1))
        with self._lock:
            place = next(path for name in names if not (path := self.uploads / name).exists())
            place.touch()
        try:
            write(place)
            with videos.open(place):
                return place.name
        except BaseException:
            place.unlink(missing_ok=True)
            raise

    @property
    def current(self) -> LiveSearch | None:
        """The running search, or the last one."""
        return self.searches[-1] if self.searches else None

    def duration(self, name: str) -> float:
        """How long a video is, in seconds."""
        with videos.open(self.videos.find(name)) as opened:
            return opened.duration

    def estimate(self, name: str, method: str, budget: int | None) -> Json:
        """What a question about a video will cost, before anything is sent."""
        self._check_method(method)
        found = self._estimate(round(self.duration(name), -1), method, budget)
        spent = sum(found.by_stage.values(), Spent())
        return {
            "calls": round(spent.calls / found.measured, 1),
            "frames": round(spent.frames / found.measured),
            "input_tokens": round(spent.usage.input_tokens / found.measured),
            "output_tokens": round(spent.usage.output_tokens / found.measured),
            "dollars": found.dollars(),
            "dollars_thinking": found.dollars(thinking_tokens=THINKING_TOKENS),
            "thinking_tokens": THINKING_TOKENS,
        }

    def begin(
        self,
        name: str,
        text: str,
        options: Sequence[str],
        method: str,
        budget: int | None,
        *,
        subtitles: bool = False,
    ) -> LiveSearch:
        """Begin to answer a question; raises an `InputError` if it is invalid."""
        if self.dollars >= self.max_cost:
            dollars = with_date(f"${self.dollars:.2f}", [self.prices.of(self.model.spec)])
            spent = f"this session has spent {dollars} of ${self.max_cost:g}"
            raise InputError(f"{spent}. {LIMIT_ADVICE}")
        path = self.videos.find(name)
        self._check_method(method)
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
                lambda listener: ask(
                    path,
                    question.text,
                    question.options,
                    backbone=self.model.backbone,
                    method=method,
                    budget=budget,
                    listener=listener,
                    subtitles=subtitles,
                ),
                keep=lambda result: self._keep(result, title, number),
                price=self.prices.of(self.model.spec),
                most_dollars=self.max_cost - self.dollars,
            )
            self.searches.append(search)
        search.start()
        return search

    def close(self) -> None:
        """Cancel the running search and wait a moment for its end."""
        if self.current is not None:
            self.current.cancel()
            self.current.join(2.0)

    def _check_method(self, method: str) -> None:
        if method not in self.methods:
            raise InputError(f"the page offers the methods {', '.join(self.methods)}.")

    def _fresh_estimate(self, seconds: float, method: str, budget: int | None) -> Estimate:
        spec, options = self.model.spec, self.model.options
        return estimate(method, spec, [seconds], self.prices.of(spec), budget=budget, model_options=options)

    def _title(self, question: Question) -> str:
        """The words of a question as its name; asked again, with a number."""
        words = " ".join(question.text.split())[:TITLE_LENGTH]
        titles = (words if number == 1 else f"{words} ({number})" for number in count(1))
        return next(title for title in titles if title not in self._questions)

    def _keep(self, result: AskResult, title: str, number: int) -> Json:
        """Append an answer to the run, and save it with --save."""
        run = self.folder / f"{RUN}.jsonl"
        if result.transcript is not None:
            with transcripts_path(run).open("ab") as file:
                file.write(dump_line(replace(result.transcript, question_id=title).to_json()))
        with run.open("ab") as file:
            file.write(dump_line(replace(result.prediction, question_id=title, backbone=self.model.spec).to_json()))
        self.library.refresh(now=True)
        view = view_answer(result)
        event: Json = {"title": title, "answer": view.answer, "ending": view.ending, "found": view.found}
        event["clips"] = [
            {
                "start": clip.span.start,
                "end": clip.span.end,
                "picture": _middle_frame(clip.span, [frame.seconds for frame in clip.frames]),
                "seen": clip.seen,
                "facts": list(clip.facts),
            }
            for clip in view.clips
        ]
        event["open"] = list(view.still_open)
        try:
            if self._save is not None:
                places = (self._save / f"answer-{number:03d}" for number in count(number))
                result.save(next(place for place in places if not place.exists()))
        except TraceVesError as error:  # an answer that was paid for is not lost to a full disk
            event["sentence"] = str(error)
        return event
