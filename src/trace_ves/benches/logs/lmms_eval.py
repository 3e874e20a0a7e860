"""lmms-eval: the `*_samples_TASK.jsonl` that `--log_samples` writes, one object for each document.

A line holds `doc_id`, `filtered_resps`, in some versions `doc` and `resps`, and, under the name of each metric, what
the task's `process_results` returned: most tasks put the question's id and the parsed answer there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.benches.logs.files import loose_lines
from trace_ves.benches.logs.reading import LoggedSample
from trace_ves.core.errors import FormatError
from trace_ves.records.base import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trace_ves.benches.logs.reading import Fields

FILES = ("*samples_*.jsonl", "*.jsonl")
"""What to read where a folder is given: the first pattern that finds anything."""

_OWN_KEYS = frozenset({"doc", "arguments", "resps", "filtered_resps", "token_counts", "input_media", "target"})


def samples(path: Path, fields: Fields, on_progress: Callable[[int, int], None] | None) -> Iterator[LoggedSample]:
    """Every document of a samples file."""
    for number, row in loose_lines(path, on_progress):
        metrics = [value for key, value in row.items() if key not in _OWN_KEYS and isinstance(value, dict)]
        try:
            name = fields.question_id(row, [*metrics, row.get("doc"), row])
            response = fields.response(row, metrics, row.get("filtered_resps", row.get("resps")))
        except FieldError as error:
            raise FormatError(f"{error}.", path=path, line=number) from None
        yield LoggedSample(number, name, response)
