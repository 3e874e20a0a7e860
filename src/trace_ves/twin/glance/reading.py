"""Words on the screen, read by RapidOCR where the extra `ocr` is installed: which of some phrases a picture shows.

Its models come with its package, so nothing is downloaded.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from difflib import SequenceMatcher
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from trace_ves.twin.glance.sightings import Sighting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

SETTINGS: Final = {
    "Global.log_level": "error",
    "Global.use_cls": False,  # words on a screen are not upside down
    "Det.limit_type": "max",  # pictures are made smaller where they are large, never larger
    "Det.limit_side_len": 960,
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,  # as the eyes: runs answer several questions at once
}
ALIKE: Final = 0.8
"""A line that is this much like a phrase is taken for it, misread; shorter phrases than 4 letters must be exact."""

Line = tuple[str, float]
"""A line of text, and how sure the reader is."""

Reader: TypeAlias = "Callable[[NDArray[np.uint8]], tuple[Line, ...]]"
"""Whatever turns the pixels of one picture into lines of text."""


def can_read() -> bool:
    """Whether the extra `ocr` is installed."""
    return find_spec("rapidocr") is not None


class ScreenReader:
    """RapidOCR, opened on the first picture."""

    def __init__(self) -> None:
        self._engine: Any = None
        self._lock = threading.Lock()

    def __call__(self, picture: NDArray[np.uint8]) -> tuple[Line, ...]:
        """The lines of text in a picture of height x width x 3."""
        with self._lock:
            if self._engine is None:
                from rapidocr import RapidOCR  # an extra, loaded only when there is something to read

                self._engine = RapidOCR(params=SETTINGS)
            found = self._engine(picture[..., ::-1])
        return tuple(
            (str(text), float(score)) for text, score in zip(found.txts or (), found.scores or (), strict=True)
        )


def sightings_of(phrases: Iterable[str], lines: Iterable[Line]) -> tuple[Sighting, ...]:
    """The phrases that stand in the lines, with the score of the line."""
    plain = [(_plain(text), score) for text, score in lines]
    found = ((phrase, max((_score(_plain(phrase), *line) for line in plain), default=0.0)) for phrase in phrases)
    return tuple(Sighting(phrase, score) for phrase, score in found if score > 0)


def _score(phrase: str, line: str, score: float) -> float:
    if not phrase:
        return 0.0
    if f" {phrase} " in f" {line} " or (len(phrase) >= 4 and phrase.replace(" ", "") in line.replace(" ", "")):
        return score
    likeness = SequenceMatcher(None, phrase, line, autojunk=False).ratio()
    return score * likeness if len(phrase) >= 4 and likeness >= ALIKE else 0.0


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[\W_]+", " ", folded).split())
