"""The interface to a vision-language model: a batch of independent requests, and one validated reply for each."""

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

    stage: str  # The name of the call in logs; a rule-based backbone chooses its rule by it
    text: str = field(repr=False)

    @classmethod
    def load(cls, folder: Traversable, stage: str) -> Prompt:
        """Read the prompt of a stage from `<stage>.md`."""
        return cls(stage, folder.joinpath(f"{stage}.md").read_text(encoding="utf-8"))

    def render(self, variables: Mapping[str, object]) -> str:
        """Fill in the variables: text unchanged, everything else as JSON. Raises `PromptError`."""
        texts = {name: self._as_text(name, value) for name, value in variables.items()}
        try:
            return Template(self.text).substitute(texts)
        except KeyError as error:
            names = ", ".join(f"${name}" for name in variables) or "none"
            raise PromptError(
                f"The prompt of the stage {self.stage!r} has ${error.args[0]}, which its request does not fill in; "
                f"the request's variables are: {names}."
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
    """One request to the model: its frames, its text, and the type of the reply."""

    prompt: Prompt
    variables: Mapping[str, Any]  # The prompt's variables: text, numbers, and lists and mappings of them
    reply: type[R]  # The pydantic model of the reply
    clips: tuple[Clip, ...] = ()  # The visual input, in the order in which the model sees it
    sample: int = 0
    """The number of a draw, if one request is sampled several times; 0 asks for the most likely answer."""
    subtitles: SubtitleExcerpt | None = None
    """Subtitles to show after the prompt. They do not count as observed frames."""

    @property
    def stage(self) -> str:
        """The stage of the request."""
        return self.prompt.stage

    @property
    def text(self) -> str:
        """The rendered prompt, with the subtitles."""
        text = self.prompt.render(self.variables)
        return text if self.subtitles is None else f"{text.rstrip()}{self.subtitles}"

    @property
    def frames_supplied(self) -> int:
        """The number of frames of this request."""
        return sum(len(clip.frames) for clip in self.clips)


@dataclass(frozen=True, slots=True)
class ModelFault:
    """A reply that did not validate, even after one repair. It is recorded and not raised."""

    reason: str  # One sentence
    raw: str = field(default="", repr=False)  # The beginning of the model's text


@dataclass(frozen=True, slots=True)
class Generation(Generic[R]):
    """The reply to one request, and its cost."""

    reply: R | ModelFault
    usage: Usage = Usage()
    seconds: float = 0.0
    service_tier: str | None = None  # The service tier that answered, if it was not the standard one
    texts: tuple[ModelText, ...] = field(default=(), repr=False)
    """The raw text of each attempt; empty if there is none, for example from a cache."""
    sends: int = 1  # How often the frames were sent: twice if the first reply was empty or incomplete
    suspect: bool = False  # Whether the server seems to have dropped frames
    undetermined: bool = False
    """Whether the answer was drawn among equally good ones. Only rule-based backbones report this."""


class Backbone(Protocol):
    """A vision-language model, local or remote."""

    @property
    def name(self) -> str:
        """Its spec, for example `openai:gpt-4o`; written into run files."""

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer every request of the batch: one `Generation` each, with the request's `reply` or a `ModelFault`.

        Raises `BackboneError` if the service fails, `UnknownStageError` if there is no rule for a stage.
        """


class CacheableBackbone(Backbone, Protocol):
    """A backbone whose answers the response cache can store."""

    @property
    def answer_settings(self) -> Mapping[str, object]:
        """The settings that affect an answer; part of the response cache's key."""

    def generate_as_completed(self, batch: Sequence[Request[R]]) -> Iterator[tuple[int, Generation[R] | BackboneError]]:
        """The index of each request with its answer or error, in order of completion. Errors are not raised."""


@runtime_checkable
class OpensVideos(Protocol):
    """A backbone that opens the videos of its runs itself, instead of a decoder."""

    def open_video(self, path: Path) -> VideoSource:
        """Open the video at this path of a bench. Raises `InputError`."""


def validate_generations(
    name: str, batch: Sequence[Request[R]], generations: Sequence[Generation[R]]
) -> list[Generation[R]]:
    """Check what a backbone returned for a batch. Raises `BackboneError` if it breaks the contract of `generate`."""
    try:
        results: list[object] = list(generations)
    except TypeError:
        raise BackboneError(
            f"{name}: the backbone returned {type(generations).__name__} for a batch; it must return a list with one "
            "Generation for each request."
        ) from None
    if len(results) != len(batch):
        raise BackboneError(f"{name}: the backbone returned {len(results)} replies for {len(batch)} requests.")
    for request, generation in zip(batch, results, strict=True):
        reply = generation.reply if isinstance(generation, Generation) else generation
        if not isinstance(generation, Generation) or not isinstance(reply, request.reply | ModelFault):
            raise BackboneError(
                f"{name}: the backbone returned {type(reply).__name__} for the stage {request.stage!r}; each reply "
                f"must be a Generation of the request's {request.reply.__name__}, or of a ModelFault."
            )
    return cast("list[Generation[R]]", results)


class ScriptedBackbone:
    """A backbone for tests: `script(request)` returns a reply, a mapping of its fields, or a `ModelFault`."""

    def __init__(
        self, script: Callable[[Request[Any]], BaseModel | Mapping[str, Any] | ModelFault], *, name: str = "scripted"
    ) -> None:
        self.name = name
        self._script = script

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer every request of the batch."""
        return [Generation(self._reply(request)) for request in batch]

    def _reply(self, request: Request[R]) -> R | ModelFault:
        result = self._script(request)
        if isinstance(result, ModelFault):
            return result
        return request.reply.model_validate(result.model_dump() if isinstance(result, BaseModel) else result)
