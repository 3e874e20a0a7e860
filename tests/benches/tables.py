"""Rows as a file of the kind that its name ends with."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write .jsonl, .json, .parquet, .xlsx, .csv or .tsv; the path again."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".parquet":
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".xlsx":
        from openpyxl import Workbook

        book = Workbook()
        for line in (list(rows[0]), *(list(row.values()) for row in rows)):
            book.active.append(line)
        book.save(path)
    else:
        with path.open("w", newline="") as file:
            delimiter = "\t" if path.suffix == ".tsv" else ","
            writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows(rows)
    return path
