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
from trace_ves.core.plugins import describe_error
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
from trace_ves.runs.prices import Price, Prices, add_price_notes
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


def describe_progress(progress: Progress) -> Json:
    """Convert an event of a search to JSON for the page, with the frames spent so far."""
    event = progress.event
    budget = None if progress.budget >= UNLIMITED else progress.budget
    common: Json = {"supplied": progress.frames_supplied, "budget": budget, "words": describe_event(event)}
    match event:
        case RoundStarted(number=number):
            return common | {"kind": "round", "number": number}
        case StageStarted(stage=name, spans=spans, timestamps=timestamps):
            stage = describe_stage(name)
            where = {"spans": _pairs(dict.fromkeys(spans)), "frames": list(timestamps)}
            return common | {"kind": "stage", "title": stage.title, "colour": stage.colour or "grey", **where}
        case CallAnswered(reply=AssemblyReply(status=status, answer=answer), call=call, spans=spans):
            pictures = [_middle_frame(span, call.timestamps) for span in spans]
            bundle = {"status": status.value, "answer": answer, "pictures": pictures}
            return common | {"kind": "answered", "spans": _pairs(spans), "bundle": bundle}
        case CallAnswered():
            return common | {"kind": "answered"}
        case Decided(decision=decision):
            refused = [text[:LONGEST_TEXT] for text in decision.refused]
            action = decision.action.action if decision.action else "END"
            return common | {"kind": "decided", "action": action, "refused": refused}
        case ReplyRejected(stage=name, reason=reason, raw=raw):
            rejection = {"reason": reason[:LONGEST_TEXT], "raw": raw[:LONGEST_TEXT]}
            return common | {"kind": "rejected", "title": describe_stage(name).title, **rejection}


def _middle_frame(span: Interval, moments: Iterable[float]) -> float:
    """The moment of a clip's frame that is nearest to its middle."""
    centre = (span.start + span.end) / 2
    return min((moment for moment in moments if moment in span), key=lambda at: abs(at - centre), default=centre)


def _pairs(spans: Iterable[Interval]) -> list[list[float]]:
    return [[span.start, span.end] for span in spans]


class LiveSearch(threading.Thread):
    """A thread that answers one question: `answer` searches, `keep` stores the result and returns the last event."""

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
        self.title: Final = title  # the question; also the id of its page
        self.video: Final = video
        self.state: State = "running"
        self.result: AskResult | None = None
        self.answer = ""  # empty until the search is done
        self._answer, self._keep, self._price = answer, keep, price
        self._most_dollars = most_dollars
        self._events: list[Json] = []
        self._spent = Spent()
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """Cancel the search: no further call is sent, and the reply to a call in flight is ignored."""
        self._end("cancelled", {})

    def events_after(self, count: int) -> list[Json]:
        """The events after the first `count`."""
        with self._lock:
            return self._events[count:]

    @property
    def dollars(self) -> float:
        """The cost of its calls so far; 0 if the model has no price."""
        return self._spent.dollars(self._price) or 0.0

    def spent(self) -> Json:
        """The usage and cost of its calls so far, as JSON."""
        with self._lock:
            return self._spent.to_json(self._spent.dollars(self._price))

    def run(self) -> None:
        """Search, and set the final state."""
        try:
            result = self._answer(self._handle)
            if self.state == "running":
                self.result = result
                last = self._keep(result)
                self.answer = str(last["answer"])
                self._end("done", last)
        except Exception as error:  # noqa: BLE001  the page waits for a final event after any error
            sentence = str(error) if isinstance(error, TraceVesError) else describe_error(error)
            self._end("failed", {"sentence": sentence})

    def _handle(self, progress: Progress) -> None:
        with self._lock:
            if self.state != "running":
                raise TraceVesError("the search was cancelled.")  # stops the search before its next call
            if isinstance(progress.event, CallAnswered):
                self._spent.add(progress.event.call)
            if isinstance(progress.event, StageStarted) and self.dollars >= self._most_dollars:  # before the next call
                raise TraceVesError(f"the cost limit of this session is reached. {LIMIT_ADVICE}")
            self._events.append(describe_progress(progress))

    def _end(self, state: State, event: Json) -> None:
        """Set the final state; only the first call has an effect."""
        with self._lock:
            if self.state == "running":
                self.state = state
                self._events.append({"kind": state, **event})


LIMIT_ADVICE: Final = "Start the studio with a higher --max-cost to continue."
MOST_UPLOAD_BYTES: Final = 4 * 1024**3
RUN: Final = "answers"  # the key of the run of all answers
METHODS: Final = ("trace", "uniform-16", "uniform-64", "avp", "vca")
"""The methods on the page, besides the method of the command line."""


class BusyError(InputError):
    """A question is already being answered."""


@dataclass(frozen=True, slots=True)
class Model:
    """The backbone of the command line, with the options that affect its cost."""

    spec: str
    backbone: Backbone = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SampleQuestion:
    """An example question, about `video` or any video."""

    question: str
    options: tuple[str, ...] = ()
    video: str | None = None


SAMPLES: Final = (
    SampleQuestion("What happens in this video, in order?"),
    SampleQuestion("How many people are seen?"),
    SampleQuestion("What text is shown, and when?"),
)


class Studio:
    """The session of one user. Answers are appended to a run in `folder`, which the viewer's pages read."""

    def __init__(
        self,
        folders: VideoFolders,
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
        self.videos: Final = VideoFolders([*folders.paths, self.uploads])
        self.model: Final = model
        self.prices: Final = prices
        self.methods: Final = tuple(dict.fromkeys((method, *METHODS)))  # the first is preselected
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
        """The cost of the session so far."""
        return sum(search.dollars for search in self.searches)

    def add_video(self, name: str, write: Callable[[Path], object]) -> str:
        """Add a video and return its name on the page; an `InputError` if it cannot be decoded."""
        file_name = PurePath(name.replace("\\", "/")).name
        stem = re.sub(r"[^\w.() -]+", "-", PurePath(file_name).stem).strip(". -")[:80] or "video"
        suffix = PurePath(file_name).suffix.lower()
        if suffix not in VIDEO_SUFFIXES:
            raise InputError(f"{file_name[:80]!r} has no video suffix, such as .mp4, .mov or .mkv.")
        names = (f"{stem}{suffix}" if at == 1 else f"{stem} ({at}){suffix}" for at in count(1))
        with self._lock:
            target = next(path for name in names if not (path := self.uploads / name).exists())
            target.touch()
        try:
            write(target)
            with videos.open(target):
                return target.name
        except BaseException:
            target.unlink(missing_ok=True)
            raise

    @property
    def current(self) -> LiveSearch | None:
        """The running search, or the last one."""
        return self.searches[-1] if self.searches else None

    def duration(self, name: str) -> float:
        """The duration of a video in seconds."""
        with videos.open(self.videos.find(name)) as opened:
            return opened.duration

    def estimate(self, name: str, method: str, budget: int | None) -> Json:
        """Estimate the cost of a question about a video; nothing is sent."""
        self._check_method(method)
        estimated = self._estimate(round(self.duration(name), -1), method, budget)
        spent = sum(estimated.by_stage.values(), Spent())
        return {
            "calls": round(spent.calls / estimated.measured, 1),
            "frames": round(spent.frames / estimated.measured),
            "input_tokens": round(spent.usage.input_tokens / estimated.measured),
            "output_tokens": round(spent.usage.output_tokens / estimated.measured),
            "dollars": estimated.dollars(),
            "dollars_thinking": estimated.dollars(thinking_tokens=THINKING_TOKENS),
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
        """Start to answer a question; an `InputError` if it is invalid."""
        if self.dollars >= self.max_cost:
            dollars = add_price_notes(f"${self.dollars:.2f}", [self.prices.of(self.model.spec)])
            spent = f"this session has spent {dollars} of ${self.max_cost:g}"
            raise InputError(f"{spent}. {LIMIT_ADVICE}")
        path = self.videos.find(name)
        self._check_method(method)
        question = make_question(str(path), text, options)
        info = QuestionInfo(question, self.duration(name))
        with self._lock:
            if self.current is not None and self.current.state == "running":
                raise BusyError("another question is being answered; wait for it, or cancel it.")
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
        """Cancel the running search, and wait up to two seconds for its thread."""
        if self.current is not None:
            self.current.cancel()
            self.current.join(2.0)

    def _check_method(self, method: str) -> None:
        if method not in self.methods:
            raise InputError(f"the method must be one of {', '.join(self.methods)}.")

    def _fresh_estimate(self, seconds: float, method: str, budget: int | None) -> Estimate:
        spec, options = self.model.spec, self.model.options
        return estimate(method, spec, [seconds], self.prices.of(spec), budget=budget, model_options=options)

    def _title(self, question: Question) -> str:
        """The beginning of a question as its id, with a number if it was asked before."""
        text = " ".join(question.text.split())[:TITLE_LENGTH]
        titles = (text if number == 1 else f"{text} ({number})" for number in count(1))
        return next(title for title in titles if title not in self._questions)

    def _keep(self, result: AskResult, title: str, number: int) -> Json:
        """Append an answer to the run, save it if --save is set, and return the last event."""
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
                folders = (self._save / f"answer-{number:03d}" for number in count(number))
                result.save(next(folder for folder in folders if not folder.exists()))
        except TraceVesError as error:  # a full disk must not lose a paid answer
            event["sentence"] = str(error)
        return event
