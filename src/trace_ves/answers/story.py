"""The story of an answer that was just given, for a page or a file."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trace_ves.asking import AskResult
    from trace_ves.web.library import Library


@contextmanager
def answer_library(result: AskResult) -> Iterator[Library]:
    """The answer as a library of its own, with its video; `ModuleNotFoundError` without the extra for pages."""
    from trace_ves.web.open_library import library_of_answer

    with tempfile.TemporaryDirectory() as scratch:
        yield library_of_answer(
            result.question,
            result.duration,
            result.prediction,
            Path(scratch),
            videos=Path(result.question.video).resolve().parent,
            transcript=result.transcript,
        )
