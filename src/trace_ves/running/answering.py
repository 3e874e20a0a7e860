"""One task becomes one line of a run file. Whatever goes wrong with a question is on that line; the rest goes on."""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from trace_ves.backbone.protocol import OpensVideos
from trace_ves.backbone.registry import open_backbone
from trace_ves.core import Answer, TraceVesError
from trace_ves.methods import open_method
from trace_ves.observer import Observer
from trace_ves.records import Prediction
from trace_ves.running.video_shelf import VideoShelf

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.observer import Method
    from trace_ves.running.job import Job, Settings, Task


class Answerer:
    """Answers tasks within one process. Threads share it: backbones and videos are opened once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._shelf = VideoShelf(settings.open_videos)
        self._methods: dict[str, Method] = {}
        self._backbones: dict[str, Backbone] = {}
        self._lock = Lock()

    def prepare(self, jobs: Iterable[Job]) -> None:
        """Open what the jobs need, so that what a person got wrong is said before anything is asked."""
        for job in jobs:
            self._opened(job)

    def __call__(self, task: Task) -> Prediction:
        """Answer one question. Only what stops the whole program is raised."""
        started = time.monotonic()
        job = task.job
        method, backbone = self._opened(job)
        answer, error = Answer(None), None
        extra: dict[str, object] = {}
        opener = backbone if isinstance(backbone, OpensVideos) else None
        with self._shelf.borrow(task.video, opener) as video:
            observer = Observer(video, backbone, budget=job.frames_allowed)
            try:
                answer = _checked(method(task.question, observer), task)
                if (found := video.checksum()) is not None:
                    extra["video"] = found.to_json()
            except TraceVesError as failure:
                error = str(failure)
            except Exception as failure:  # noqa: BLE001  a method's fault is on record, and the other questions go on
                error = f"{type(failure).__name__}: {failure}"
        seconds = round(time.monotonic() - started, 3)
        prediction = Prediction.of(
            task.question,
            answer if error is None else Answer(None),
            observer.log,
            method=job.method,
            backbone=job.backbone,
            seconds=seconds,
        )
        return replace(prediction, extra=extra) if error is None else replace(prediction, termination=None, error=error)

    def _opened(self, job: Job) -> tuple[Method, Backbone]:
        with self._lock:
            if job.method not in self._methods:
                self._methods[job.method] = open_method(job.method)
            if job.backbone not in self._backbones:
                self._backbones[job.backbone] = open_backbone(job.backbone, **self._settings.backbone_options)
            return self._methods[job.method], self._backbones[job.backbone]


def _checked(answer: object, task: Task) -> Answer:
    """Somebody's own method may give back anything; only an answer to this question becomes a line."""
    if not isinstance(answer, Answer):
        raise TypeError(
            f"the method {task.job.method} gave back {type(answer).__name__}; it must be trace_ves.core.Answer"
        )
    letters = task.question.letters
    if answer.option is not None and letters and answer.option not in letters:
        raise ValueError(f"the method answered {answer.option!r}; the question has {letters[0]}-{letters[-1]}, or None")
    return answer
