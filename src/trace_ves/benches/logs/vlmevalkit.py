"""VLMEvalKit: the prediction table `MODEL_DATASET.xlsx`, or .tsv, .csv, .json, with a column `prediction`.

Its `index` numbers the rows of a dataset and is no id of a question; `qid` or `question_id` is, where there is one.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

from trace_ves.benches.logs.files import refuse_large
from trace_ves.benches.logs.reading import LoggedSample
from trace_ves.core.errors import FormatError, InputError, MissingExtraError
from trace_ves.core.files import read_csv
from trace_ves.records.base import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trace_ves.benches.logs.reading import Fields

FILES = ("*.xlsx", "*.tsv", "*.csv", "*.json")
FAILURE: Final = "Failed to obtain answer"
"""What VLMEvalKit writes instead of an answer where the model's service failed."""
MOST_TABLE_BYTES: Final = 1024**3


def samples(path: Path, fields: Fields, on_progress: Callable[[int, int], None] | None) -> Iterator[LoggedSample]:
    """Every row of a prediction table."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: a table of VLMEvalKit ends with {', '.join(_READERS)}; a .pkl would run code.")
    rows = reader(path)
    for number, row in enumerate(rows, start=2):  # line 1 has the names of the columns
        try:
            name = fields.question_id(row, [row])
            response = fields.response(row, [{"prediction": row.get("prediction")}], None)
        except FieldError as error:
            raise FormatError(f"{error}.", path=path, line=number) from None
        failed = response is not None and response.startswith(FAILURE)
        yield LoggedSample(number, name, None if failed else response, error=response if failed else None)
        if on_progress is not None:
            on_progress(number - 1, len(rows))


def _json_rows(path: Path) -> list[dict[str, object]]:
    try:
        rows = json.loads(path.read_bytes(), parse_constant=lambda _: None)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path}: not a JSON file in UTF-8.") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: expected a JSON array of objects, as VLMEvalKit writes its tables.")
    return rows


def _xlsx_rows(path: Path) -> list[dict[str, object]]:
    try:
        from openpyxl import load_workbook  # type: ignore[import-untyped]  # an optional part
    except ImportError:
        raise MissingExtraError("Reading .xlsx tables", "logs") from None
    refuse_large(path, MOST_TABLE_BYTES)
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        lines = [list(line) for line in book.worksheets[0].iter_rows(values_only=True)]
        book.close()
    except Exception as error:  # noqa: BLE001  openpyxl raises whatever its parts do on a damaged file
        raise InputError(f"{path}: cannot be read as .xlsx: {str(error) or type(error).__name__}.") from None
    if not lines:
        raise InputError(f"{path}: the first sheet is empty.")
    head = [str(name) for name in lines[0]]
    return [dict(zip(head, line, strict=False)) for line in lines[1:] if any(cell is not None for cell in line)]


_READERS: Final[dict[str, Callable[[Path], list[dict[str, object]]]]] = {
    ".xlsx": _xlsx_rows,
    ".tsv": partial(read_csv, delimiter="\t"),
    ".csv": partial(read_csv, delimiter=","),
    ".json": _json_rows,
}
