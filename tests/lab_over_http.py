"""The laboratory behind a provider's SDK: its calls travel to a server on loopback, which counts what they cost."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import simplejpeg  # type: ignore[import-untyped]
from numpy.typing import NDArray

from trace_ves.backbone import Backbone
from trace_ves.backbone.protocol import Generation, R, Request
from trace_ves.core import Clip, Frame
from trace_ves.twin.lab import Lab


class Drawn:
    """A picture of the right size that differs from every other one, for a frame that was never drawn."""

    def __init__(self, frame: Frame) -> None:
        self.width, self.height = frame.picture.width, frame.picture.height
        picture: Any = frame.picture
        self._name = hashlib.sha256(f"{picture.digest} {picture.number}".encode()).digest()

    def rgb(self) -> NDArray[np.uint8]:
        return np.full((self.height, self.width, 3), 128, dtype=np.uint8)

    def jpeg(self, quality: int = 90) -> bytes:
        """Grey, with its name in a comment."""
        return _grey(self.width, self.height)[:-2] + b"\xff\xfe\x00\x22" + self._name + b"\xff\xd9"


@cache
def _grey(width: int, height: int) -> bytes:
    return bytes(simplejpeg.encode_jpeg(np.full((height, width, 3), 128, dtype=np.uint8)))


def drawn(request: Request[R]) -> Request[R]:
    """The request, with frames that have pixels."""

    def clip(each: Clip) -> Clip:
        return replace(each, frames=tuple(replace(frame, picture=Drawn(frame)) for frame in each.frames))

    return replace(request, clips=tuple(clip(each) for each in request.clips))


class Replies(dict[str, str]):
    """What a server answers, by the words of a request; its schema may stand behind them."""

    def answer(self, words: str) -> str:
        if words in self:
            return self[words]
        found = next((reply for text, reply in self.items() if words.startswith(text)), None)
        if found is None:
            raise KeyError(words)
        return found


class LabOverHttp(Lab):
    """Answers as the laboratory does, and is charged what a server says that counts each call."""

    def __init__(self, remote: Backbone, replies: Replies) -> None:
        super().__init__()
        self._remote = remote
        self._replies = replies

    def generate(self, batch: Sequence[Request[R]]) -> list[Generation[R]]:
        answered: list[Any] = list(super().generate(batch))
        self._replies.update(
            {request.text: each.reply.model_dump_json() for request, each in zip(batch, answered, strict=True)}
        )
        charged = self._remote.generate([drawn(request) for request in batch])
        return [
            Generation(each.reply, counted.usage, counted.seconds)
            for each, counted in zip(answered, charged, strict=True)
        ]
