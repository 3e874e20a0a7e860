"""What to run: a job is one method with one backbone, a task one question of it. Plain values that travel."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.core import Question
    from trace_ves.observer import Method
    from trace_ves.records import Prediction
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
        return f"{_slug(self.method)}@{_slug(self.backbone)}"


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

    @property
    def error(self) -> str | None:
        """The error of the question, if there was one."""
        return self.prediction.error


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


def _slug(name: str) -> str:
    """A name as part of a file name: `openai:gpt-4o@http://host/v1` becomes `openai-gpt-4o-http-host-v1`."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.") or "unnamed"
