"""`trace-ves doctor --try SPEC`: one real call shows whether a backbone answers, sees pictures and obeys a schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, Field

from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.backbone.registry import open_backbone
from trace_ves.core import Clip, Frame, Interval, MissingExtraError, ObservationStrategy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PROMPT: Final = Prompt("test-call", "The frame above shows one square on a white ground. Which colour is the square?")
RED: Final = (200, 30, 30)


class Square(BaseModel):
    """What the model is asked for."""

    colour: str = Field(description="the colour of the square, in one word", max_length=40)


@dataclass(frozen=True, slots=True)
class RedSquare:
    """The picture of the test call."""

    width: int = 128
    height: int = 96

    def rgb(self) -> NDArray[np.uint8]:
        """The pixels."""
        import numpy as np

        pixels = np.full((self.height, self.width, 3), 255, dtype=np.uint8)
        pixels[24:72, 40:88] = RED
        return pixels

    def jpeg(self, quality: int = 90) -> bytes:
        """The picture as a model gets it."""
        try:
            import simplejpeg  # type: ignore[import-untyped]
        except ModuleNotFoundError:
            raise MissingExtraError("A test call", "video") from None
        return bytes(simplejpeg.encode_jpeg(self.rgb(), quality=quality))


@dataclass(frozen=True, slots=True)
class Trial:
    """How a test call went."""

    passed: bool
    sentence: str


def try_backbone(spec: str) -> Trial:
    """Ask a backbone about one picture. A service that fails raises `BackboneError`, as it would in a run."""
    clip = Clip(Interval(0, 1), ObservationStrategy(), (Frame(0, 0.0, RedSquare()),))
    [generation] = open_backbone(spec, cache=False).generate([Request(PROMPT, {}, Square, (clip,))])
    took = (
        f"{generation.seconds:.1f} s, {generation.usage.input_tokens} tokens in, {generation.usage.output_tokens} out"
    )
    reply = generation.reply
    if isinstance(reply, ModelFault):
        said = f' It said: "{" ".join(reply.raw.split())[:200]}".' if reply.raw.strip() else ""
        return Trial(False, f"{spec} replied, but not usably: {reply.reason}{said} ({took})")
    if "red" not in reply.colour.lower():
        return Trial(False, f"{spec} called a red square {reply.colour!r}: this model may not see pictures. ({took})")
    return Trial(True, f"{spec} works: it saw that the square is {reply.colour}. ({took})")
