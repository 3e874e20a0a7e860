"""Tables as CSV or TSV, read whole: for files that other programs wrote."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MOST_FIELD_CHARACTERS: Final = 16 * 1024 * 1024
SURPLUS: Final = "(more)"
"""The key of cells beyond those that the first row names."""


def read_csv(path: Path, delimiter: str) -> list[dict[str, object]]:
    """Each row by the names in the first one. What cannot be read is an `InputError`."""
    before = csv.field_size_limit(MOST_FIELD_CHARACTERS)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [dict(row) for row in csv.DictReader(file, delimiter=delimiter, restkey=SURPLUS)]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a table in UTF-8: {error}.") from None
    finally:
        csv.field_size_limit(before)  # it is the whole process's
