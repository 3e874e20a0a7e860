"""A report as a file whose name says the format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import InputError
from trace_ves.core.outputs import write_output
from trace_ves.report.csv_file import report_csv
from trace_ves.report.html import html_page, report_html
from trace_ves.report.latex import report_latex
from trace_ves.report.markdown import report_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import PathLike

    from trace_ves.ves.report import AuditReport


def as_json(value: object) -> str:
    """As `--json` writes it."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


REPORT_FORMATS: Final[Mapping[str, Callable[[AuditReport], str]]] = {
    ".json": lambda report: as_json(report.to_json()),
    ".csv": report_csv,
    ".md": report_markdown,
    ".tex": report_latex,
    ".html": lambda report: html_page("VES audit", report_html(report)),
    ".txt": lambda report: f"{report}\n",
}
"""How a report is written, by the suffix of the file."""


def save_report(report: AuditReport, path: str | PathLike[str]) -> Path:
    """Write a report; a suffix that is no format is an `InputError`."""
    file = Path(path)
    if file.suffix not in REPORT_FORMATS:
        raise InputError(f"{file}: the name of a report ends with one of {', '.join(REPORT_FORMATS)}.")
    write_output(file, REPORT_FORMATS[file.suffix](report))
    return file
