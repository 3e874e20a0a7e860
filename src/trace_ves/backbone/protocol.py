"""The one seam to a VLM: a batch of independent requests goes in, one validated reply each comes out.

Knows nothing of providers. Whoever implements `Backbone` decides how a batch is answered: concurrently over HTTP,
from one shared prefill, or in a plain loop. Nothing above the seam can tell.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from string import Template
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pydantic import BaseModel

from trace_ves.core import Clip, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.resources.abc import Traversable

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Prompt:
    """The words of one stage, with `$variables` to fill in."""

    stage: str
    """Names the call in logs and reports, and tells an embedded backbone what is asked of it."""
    text: str = field(repr=False)

    @classmethod
    def load(cls, folder: Traversable, stage: str) -> Prompt:
        """Read the prompt of a stage from `<stage>.md`."""
        return cls(stage, folder.joinpath(f"{stage}.md").read_text(encoding="utf-8"))

    def render(self, variables: Mapping[str, object]) -> str:
        """Fill in the variables: text as it is, everything else as JSON. A variable that is missing is a KeyError."""
        return Template(self.text).substitute({name: _as_text(value) for name, value in variables.items()})


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Request(Generic[R]):
    """One question to the model: frames first, then the words, and the shape that the answer must have."""

    prompt: Prompt
    variables: Mapping[str, Any]
    """What fills the prompt: text, numbers, and lists and mappings of them."""
    reply: type[R]
    """The pydantic model of the answer."""
    clips: tuple[Clip, ...] = ()
    """The visual input, in the order in which the model sees it."""
    sample: int = 0
    """Distinguishes repeated draws of one request where the model samples; 0 asks for its most likely answer."""

    @property
    def stage(self) -> str:
        """The stage that asks."""
        return self.prompt.stage

    @property
    def text(self) -> str:
        """The words of the request, rendered."""
        return self.prompt.render(self.variables)

    @property
    def frames_supplied(self) -> int:
        """Frames that this request supplies."""
        return sum(len(clip.frames) for clip in self.clips)


@dataclass(frozen=True, slots=True)
class ModelFault:
    """The model's reply did not validate, not even after one repair. A value, not an exception: it goes on record."""

    reason: str
    """One sentence."""
    raw: str = field(default="", repr=False)
    """What the model said, cut to a length fit for a record."""


@dataclass(frozen=True, slots=True)
class Generation(Generic[R]):
    """What came back for one request, and what it cost."""

    reply: R | ModelFault
    usage: Usage = Usage()
    seconds: float = 0.0


class Backbone(Protocol):
    """A vision-language model, wherever it runs."""

    @property
    def name(self) -> str:
        """The spec that names it, for example `openai:gpt-4o`; stands in run files."""

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer every request of the batch independently, in the order given."""
