"""Answers one question, for `trace_ves.ask`, for runs on threads and for runs on a cluster.

A job is one method with one backbone; a task is one question of a job. Both can be sent to other machines.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from trace_ves.backbone.protocol import Backbone, OpensVideos
from trace_ves.backbone.registry import open_backbone
from trace_ves.core import Answer, Question, TraceVesError
from trace_ves.core.errors import MethodError
from trace_ves.core.plugins import describe_error
from trace_ves.observer import Listener, Memory, Method, Observer
from trace_ves.records import ObservationLog, Prediction
from trace_ves.runs.methods import default_budget, open_method, reads_subtitles
from trace_ves.runs.video_pool import SharedVideo, VideoPool

if TYPE_CHECKING:
    from trace_ves.records.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Job:
    """One method with one backbone: one run file."""

    method: str
    backbone: str
    budget: int | None = None
    """Frames per question; None for the method's default."""

    @property
    def name(self) -> str:
        """The name of its run file."""
        return f"{_make_slug(self.method)}@{_make_slug(self.backbone)}"


@dataclass(frozen=True, slots=True)
class QuestionTask:
    """One question for one job."""

    job: Job
    question: Question
    video: str
    """Path of the file; on a cluster, the same on every machine."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task: its line, and the transcript of its calls."""

    prediction: Prediction
    transcript: Transcript | None = None
    """None without transcripts."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Settings that all jobs share."""

    backbone_options: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of `open_backbone`."""
    open_videos: int = 8
    """Videos kept open in one process."""
    methods: Mapping[str, Method] = field(default_factory=dict)
    """Methods passed as objects, by the name in their lines; every other name is opened."""
    backbones: Mapping[str, Backbone] = field(default_factory=dict)
    """The same for backbones."""
    subtitles: bool = False
    """Whether methods that read subtitles get them."""
    transcripts: bool = True
    """Whether the prompt and raw reply of each call are saved next to the run."""


def _make_slug(name: str) -> str:
    """A name as part of a file name: `openai:gpt-4o@http://host/v1` becomes `openai-gpt-4o-http-host-v1`."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.") or "unnamed"


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of one question."""

    answer: Answer
    """With the clips that support it; empty after an error."""
    log: ObservationLog
    prediction: Prediction
    """The line of a run file."""
    transcript: Transcript
    """The prompts and replies of its calls."""
    error: TraceVesError | None = None


def answer_question(
    question: Question,
    video: SharedVideo,
    job: Job,
    *,
    method: Method,
    backbone: Backbone,
    listener: Listener | None = None,
    subtitles: bool = False,
    memory: Memory | None = None,
) -> Answered:
    """Let a method answer a question, check its answer, and record it with the video's checksum.

    `subtitles` are passed to methods that read them. `memory` is what earlier questions learned about the video.
    Errors of the question are part of the result; only errors that stop the whole program are raised.
    """
    started = time.monotonic()
    observer = Observer(video, backbone, budget=default_budget(method) if job.budget is None else job.budget)
    observer.memory = memory
    if listener is not None:
        observer.listener = listener
    answer, error = Answer(None), None
    extra: dict[str, object] = {}
    try:
        if subtitles and reads_subtitles(method) and (excerpts := video.subtitles()) is not None:
            observer.subtitles, extra["subtitles"] = excerpts, excerpts.to_json()
        answer = _check_answer(method(question, observer), question, job.method)
        if observer.log.frames_supplied and (checksum := video.checksum()) is not None:
            extra["video"] = checksum.to_json()
    except TraceVesError as failure:
        error = failure
    except Exception as failure:  # noqa: BLE001  recorded, and the other questions continue
        error = MethodError(describe_error(failure))
        error.__cause__ = failure
    log, seconds = observer.log, round(time.monotonic() - started, 3)
    answer = answer if error is None else Answer(None)
    line = Prediction.of(question, answer, log, method=job.method, backbone=job.backbone, seconds=seconds)
    if error is not None:
        line = replace(line, termination=None, error=str(error))
    return Answered(answer, log, replace(line, extra=extra), observer.transcript(question.id), error)


class Answerer:
    """Answers tasks within one process. Threads share it: backbones and videos are opened once."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._videos = VideoPool(options.open_videos)
        self._methods: dict[str, Method] = dict(options.methods)
        self._backbones: dict[str, Backbone] = dict(options.backbones)
        self._lock = Lock()

    def prepare(self, jobs: Iterable[Job]) -> None:
        """Open what the jobs need, so that a wrong name is an error before anything is sent."""
        for job in jobs:
            self._open(job)

    def __call__(self, task: QuestionTask) -> TaskResult:
        """Answer one task. Only errors that stop the whole program are raised."""
        method, backbone = self._open(task.job)
        with self._videos.borrow(task.video, find_opener(backbone)) as video:
            result = answer_question(
                task.question, video, task.job, method=method, backbone=backbone, subtitles=self._options.subtitles
            )
        return TaskResult(result.prediction, result.transcript if self._options.transcripts else None)

    def _open(self, job: Job) -> tuple[Method, Backbone]:
        with self._lock:
            if job.method not in self._methods:
                self._methods[job.method] = open_method(job.method)
            if job.backbone not in self._backbones:
                self._backbones[job.backbone] = open_backbone(job.backbone, **self._options.backbone_options)
            return self._methods[job.method], self._backbones[job.backbone]


def find_opener(backbone: Backbone) -> OpensVideos | None:
    """The backbone itself if it opens videos instead of the decoder."""
    return backbone if isinstance(backbone, OpensVideos) else None


def _check_answer(answer: object, question: Question, method: str) -> Answer:
    """Check what a method returned. Raises `MethodError`."""
    if not isinstance(answer, Answer):
        raise MethodError(f"the method {method} returned {type(answer).__name__}; it must return a trace_ves.Answer")
    letters = question.letters
    if answer.option is not None and not isinstance(answer.option, str):
        raise MethodError(f"the method {method} answered {answer.option!r}; an answer is text, or None")
    if answer.option is not None and letters and answer.option not in letters:
        raise MethodError(
            f"the method answered {answer.option!r}; the question has {letters[0]}-{letters[-1]}, or None"
        )
    return answer
