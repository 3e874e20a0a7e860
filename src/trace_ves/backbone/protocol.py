"""The interface to a vision-language model: a batch of independent requests in, one validated reply each out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, runtime_checkable

from pydantic import BaseModel

from trace_ves.core import BackboneError, Clip, PromptError, VideoSource
from trace_ves.records import Usage

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from trace_ves.core.subtitles import SubtitleExcerpt
    from trace_ves.records.transcript import ModelText

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of one stage, with `$variables` to fill in."""

    stage: str  # names the call in logs and reports; a rule-based backbone chooses its rule by it
    text: str = field(repr=False)

    @classmethod
    def load(cls, folder: Traversable, stage: str) -> Prompt:
        """Read the prompt of a stage from `<stage>.md`."""
        return cls(stage, folder.joinpath(f"{stage}.md").read_text(encoding="utf-8"))

    def render(self, variables: Mapping[str, object]) -> str:
        """Fill in the variables: text as it is, everything else as JSON. Raises `PromptError` where that fails."""
        texts = {name: self._as_text(name, value) for name, value in variables.items()}
        try:
            return Template(self.text).substitute(texts)
        except KeyError as error:
            given = ", ".join(f"${name}" for name in variables) or "none"
            raise PromptError(
                f"The prompt of the stage {self.stage!r} has ${error.args[0]}, which its request does not fill in; "
                f"the request's variables are: {given}."
            ) from None
        except ValueError as error:
            raise PromptError(
                f"The prompt of the stage {self.stage!r} has a $ that does not begin a variable ({error}); "
                "write $$ for a dollar sign."
            ) from None

    def _as_text(self, name: str, value: object) -> str:
        if isinstance(value, str):
            return value
        try:
            return json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise PromptError(
                f"The variable ${name} of the stage {self.stage!r} can be written neither as text nor as JSON: {error}."
            ) from None


@dataclass(frozen=True, slots=True)
class Request(Generic[R]):
    """One question to the model: frames first, then the text, and the type of the reply."""

    prompt: Prompt
    variables: Mapping[str, Any]  # what fills the prompt: text, numbers, and lists and mappings of them
    reply: type[R]  # the pydantic model of the answer
    clips: tuple[Clip, ...] = ()  # the visual input, in the order in which the model sees it
    sample: int = 0
    """Distinguishes repeated draws of one request where the model samples; 0 asks for its most likely answer."""
    subtitles: SubtitleExcerpt | None = None
    """What is said in the video, as timed text after the prompt. It does not count as an observed frame."""

    @property
    def stage(self) -> str:
        """The stage that asks."""
        return self.prompt.stage

    @property
    def text(self) -> str:
        """The rendered prompt, with the subtitles."""
        text = self.prompt.render(self.variables)
        return text if self.subtitles is None else f"{text.rstrip()}{self.subtitles}"

    @property
    def frames_supplied(self) -> int:
        """Frames that this request supplies."""
        return sum(len(clip.frames) for clip in self.clips)


@dataclass(frozen=True, slots=True)
class ModelFault:
    """The model's reply did not validate, even after one repair. A value, not an exception: it is recorded."""

    reason: str  # one sentence
    raw: str = field(default="", repr=False)  # the beginning of what the model said


@dataclass(frozen=True, slots=True)
class Generation(Generic[R]):
    """What came back for one request, and what it cost."""

    reply: R | ModelFault
    usage: Usage = Usage()
    seconds: float = 0.0
    service_tier: str | None = None  # the tier of the service that answered, where it was not the standard one
    said: tuple[ModelText, ...] = field(default=(), repr=False)
    """The raw text of each attempt; empty where there is none, for example from a cache."""
    sends: int = 1  # how often the frames were sent: twice where the first reply was empty or broke off
    suspect: bool = False  # whether the server seems to have dropped frames
    undetermined: bool = False
    """Whether the answer is a draw among several that fit equally well. A rule can say so; a model never does."""


class Backbone(Protocol):
    """A vision-language model, wherever it runs."""

    @property
    def name(self) -> str:
        """The spec that names it, for example `openai:gpt-4o`; written into run files."""

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer every request of the batch: one `Generation` each, with the request's `reply` or a `ModelFault`.

        Raises `BackboneError` where the service fails, `UnknownStageError` where there is no rule for a stage.
        """


class CacheableBackbone(Backbone, Protocol):
    """A backbone whose answers the response cache can store."""

    @property
    def answer_settings(self) -> Mapping[str, object]:
        """What decides an answer besides the name and the request; part of the response cache's key."""

    def generate_as_completed(self, batch: Sequence[Request[R]]) -> Iterator[tuple[int, Generation[R] | BackboneError]]:
        """Each request's position with its answer or what went wrong, as they come: no error loses the others."""


@runtime_checkable
class OpensVideos(Protocol):
    """A backbone that opens the videos of its runs itself, instead of a decoder."""

    def open_video(self, path: Path) -> VideoSource:
        """The video at this path of a bench. Raises `InputError` where there is none."""


def validate_generations(
    name: str, batch: Sequence[Request[R]], generations: Sequence[Generation[R]]
) -> list[Generation[R]]:
    """What a backbone returned for a batch; a `BackboneError` where it breaks the contract of `Backbone.generate`."""
    try:
        returned: list[object] = list(generations)
    except TypeError:
        raise BackboneError(
            f"{name}: the backbone returned {type(generations).__name__} for a batch; it must return a list with one "
            "Generation for each request."
        ) from None
    if len(returned) != len(batch):
        raise BackboneError(f"{name}: the backbone returned {len(returned)} replies for {len(batch)} requests.")
    for request, generation in zip(batch, returned, strict=True):
        reply = generation.reply if isinstance(generation, Generation) else generation
        if not isinstance(generation, Generation) or not isinstance(reply, request.reply | ModelFault):
            raise BackboneError(
                f"{name}: the backbone returned {type(reply).__name__} for the stage {request.stage!r}; each reply "
                f"must be a Generation of the request's {request.reply.__name__}, or of a ModelFault."
            )
    return cast("list[Generation[R]]", returned)


class ScriptedBackbone:
    """Answers with what `script(request)` returns: a reply, a mapping that becomes one, or a `ModelFault`."""

    def __init__(
        self, script: Callable[[Request[Any]], BaseModel | Mapping[str, Any] | ModelFault], *, name: str = "scripted"
    ) -> None:
        self.name = name
        self._script = script

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer every request of the batch, in the order given."""
        return [Generation(self._reply(request)) for request in batch]

    def _reply(self, request: Request[R]) -> R | ModelFault:
        said = self._script(request)
        if isinstance(said, ModelFault):
            return said
        return request.reply.model_validate(said.model_dump() if isinstance(said, BaseModel) else said)
