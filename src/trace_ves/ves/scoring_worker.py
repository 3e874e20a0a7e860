"""A process that scores the run files it is told of: a path as a line of JSON comes in, lines of JSON go out.

`scoring_workers` starts it with the folder that holds the columns of the bench, and takes the rows from there.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import fields
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trace_ves.core.errors import InputError
from trace_ves.records.item_table import ItemTable
from trace_ves.ves.row_table import COLUMNS
from trace_ves.ves.scoring import IdIndex
from trace_ves.ves.scoring_files import score_file
from trace_ves.ves.scoring_workers import LEFT_OUT

if TYPE_CHECKING:
    from trace_ves.ves.scoring import ScoredRun

REPORT_SECONDS: Final = 0.2


def main(folder: Path) -> None:
    """Score files until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this one ends it
    table = ItemTable.load(folder)
    index = IdIndex(table)
    left_out = frozenset(json.loads((folder / LEFT_OUT).read_text(encoding="utf-8")))
    for line in sys.stdin:
        file = Path(json.loads(line))
        try:
            run, refusal = score_file(table, index, file, left_out, _Progress())
        except InputError as error:
            _tell({"unreadable": _told(error)})
        else:
            _tell({**_written(run, folder), "refusal": _told(refusal) if refusal else None})


class _Progress:
    """Says how many bytes were read, a few times a second."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if done == total or time.monotonic() - self._said > REPORT_SECONDS:
            self._said = time.monotonic()
            _tell({"done": done})


def _written(run: ScoredRun, folder: Path) -> dict[str, Any]:
    """The rows as files, and what is said of the run as a whole."""
    place = Path(mkdtemp(prefix="rows-", dir=folder))
    for name in COLUMNS:
        np.save(place / f"{name}.npy", getattr(run.rows, name))
    kept = {each.name for each in fields(run)} - {"rows", "path", "reconstruction"}
    facts = {name: getattr(run, name) for name in sorted(kept)}
    return {"rows": place.name, "terminations": run.rows.terminations, "run": facts}


def _told(error: InputError) -> dict[str, Any]:
    return {"message": str(error), "line": getattr(error, "line", None)}


def _tell(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)  # noqa: T201  what it is for


if __name__ == "__main__":
    main(Path(sys.argv[1]))
