"""Reports and tables as HTML, Markdown, LaTeX, CSV and JSON. Text from files is escaped in every format."""

import csv
import json
import re
from collections.abc import Callable, Mapping
from html import escape
from io import StringIO
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Final

from trace_ves.core.errors import InputError
from trace_ves.core.files import write_output
from trace_ves.ves.report import AuditReport, Bounds, round_rate
from trace_ves.ves.table import Table, Value, ValueMark
from trace_ves.ves.tables import tables
from trace_ves.ves.terminal import printable

HTML_MARKS: Final = {ValueMark.PLAIN: "{}", ValueMark.BEST: "<b>{}</b>", ValueMark.SECOND: "<u>{}</u>"}
_HTML_HALF: Final = " <small>±{}</small>"
_NUMBER: Final = 'style="text-align:right;white-space:nowrap;padding:.15em .6em"'
_NAME: Final = 'style="text-align:left;padding:.15em .6em"'
_NOTE: Final = 'style="opacity:.7;margin:.2em 0 1.2em;max-width:60em"'


def report_html(report: AuditReport) -> str:
    """Render every table of a report, its warnings and its signature."""
    parts = [html_table(table) for table in tables(report)]
    parts += [f"<p><b>warning:</b> {escape_html(warning)}</p>" for warning in report.warnings]
    return "".join([*parts, f"<p {_NOTE}><code>{escape_html(report.signature)}</code></p>"])


def html_table(table: Table) -> str:
    """Render one table under its title; it scrolls horizontally if it is wider than the page."""
    heads = ["<br>".join(escape_html(line) for line in (column.title, column.unit) if line) for column in table.columns]
    head = "".join(f"<th {_NUMBER}>{line}</th>" for line in heads)
    rows = [f"<tr><th {_NAME}>{escape_html(table.first_column)}</th>{head}</tr>"]
    if groups := _groups(table):
        over = [f'<th colspan="{count}" style="text-align:center">{escape_html(name)}</th>' for name, count in groups]
        rows.insert(0, f"<tr><th></th>{''.join(over)}</tr>")
    body = []
    for section in table.sections:
        if section.heading:
            heading, width = escape_html(section.heading), len(table.columns) + 1
            body.append(f'<tr><td {_NAME} colspan="{width}"><i>{heading}</i></td></tr>')
        for row in section.rows:
            cells = [f"<td {_NUMBER}>{_cell(cell, HTML_MARKS, _HTML_HALF, escape_html)}</td>" for cell in row.cells]
            body.append(f"<tr><td {_NAME}>{escape_html(row.name)}</td>{''.join(cells)}</tr>")
    note = f"<p {_NOTE}>{escape_html(table.note)}</p>" if table.note else ""
    return (
        f'<p style="margin:1em 0 .2em"><b>{escape_html(table.title)}</b></p><div style="overflow-x:auto">'
        f"<table><thead>{''.join(rows)}</thead><tbody>{''.join(body)}</tbody></table></div>{note}"
    )


def html_page(title: str, body: str) -> str:
    """Wrap HTML in a page that may neither load nor run anything."""
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    style = "font:15px/1.5 system-ui,sans-serif;max-width:75em;margin:2em auto;padding:0 1em"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        f'content="{policy}"><title>{escape_html(title)}</title><body style="{style}">{body}</body></html>\n'
    )


def escape_html(text: str) -> str:
    """Escape text for HTML."""
    return escape(printable(text))


def _groups(table: Table) -> list[tuple[str, int]]:
    """The titles of column groups with the numbers of their columns; empty if there are no groups."""
    groups = [(name, len(list(columns))) for name, columns in groupby(column.group for column in table.columns)]
    return groups if any(name for name, _ in groups) else []


def _cell(cell: tuple[Value, ...], marks: Mapping[ValueMark, str], half: str, escape: Callable[[str], str]) -> str:
    """Format the values of a cell with their marks; `half` is the format of half of an interval."""
    return " / ".join(
        marks[value.mark].format(escape(value.text))
        + (half.format(escape(value.plus_minus)) if value.plus_minus is not None else "")
        for value in cell
    )


MARKDOWN_MARKS: Final = {ValueMark.PLAIN: "{}", ValueMark.BEST: "**{}**", ValueMark.SECOND: "<u>{}</u>"}


def report_markdown(report: AuditReport) -> str:
    """Render every table of a report, its warnings and its signature."""
    parts = [markdown_table(table) for table in tables(report)]
    return "\n".join(
        [*parts, *(f"- {escape_markdown(warning)}" for warning in report.warnings), f"`{report.signature}`", ""]
    )


def markdown_table(table: Table) -> str:
    """Render one table under its title."""
    heads = [" ".join(filter(None, (column.group, column.title, column.unit))) for column in table.columns]
    lines = [
        f"### {escape_markdown(table.title)}",
        "",
        _markdown_line([table.first_column, *map(escape_markdown, heads)]),
        "|:---|" + "---:|" * len(heads),
    ]
    for section in table.sections:
        if section.heading:
            lines.append(_markdown_line([f"*{escape_markdown(section.heading)}*", *[""] * len(heads)]))
        for row in section.rows:
            cells = [_cell(cell, MARKDOWN_MARKS, " ±{}", str) for cell in row.cells]
            lines.append(_markdown_line([escape_markdown(row.name), *cells]))
    return "\n".join([*lines, "", *([escape_markdown(table.note), ""] if table.note else [])])


def _markdown_line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def escape_markdown(text: str) -> str:
    """Escape text for Markdown."""
    safe = printable(text).replace("\\", "\\\\")
    for character in "|*_`<>[]":
        safe = safe.replace(character, f"\\{character}")
    return safe


LATEX_MARKS: Final = {ValueMark.PLAIN: "{}", ValueMark.BEST: r"\textbf{{{}}}", ValueMark.SECOND: r"\underline{{{}}}"}

HEAD: Final = r"""% Compile this file by itself, or \input it in a paper that has \usepackage{booktabs}.
\newif\ifvesalone
\ifcsname c@section\endcsname\vesalonefalse\else\vesalonetrue\fi
\ifvesalone
\documentclass[10pt]{article}
\usepackage[utf8]{inputenc}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs}
\begin{document}
\fi
"""
TAIL: Final = r"""
\ifvesalone\def\vesend{\end{document}}\else\let\vesend\relax\fi
\vesend
"""

ESCAPES: Final = {character: f"\\{character}" for character in "{}$&#_%"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "↑": r"$\uparrow$",
    "…": r"\dots{}",
}


def report_latex(report: AuditReport) -> str:
    """Render every table of a report, after the signature as a comment."""
    return "\n".join([HEAD, f"% {report.signature}", *(latex_table(table) for table in tables(report)), TAIL])


def latex_table(table: Table) -> str:
    """Render one table environment, as wide as the text."""
    width = len(table.columns) + 1
    caption = escape_latex(f"{table.title}." + (f" {table.note}" if table.note else ""))
    lines = [
        r"\begin{table*}[t]",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:ves-{escape_latex(table.key)}}}",
        r"\small",
        r"\setlength{\tabcolsep}{4pt}",
        rf"\begin{{tabular*}}{{\textwidth}}{{@{{\extracolsep{{\fill}}}}l{'c' * (width - 1)}@{{}}}}",
        r"\toprule",
        *_header(table),
        r"\midrule",
    ]
    for index, section in enumerate(table.sections):
        if index:
            lines.append(r"\midrule")
        if section.heading:
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\itshape {escape_latex(section.heading)}}} \\")
        for row in section.rows:
            cells = [_cell(cell, LATEX_MARKS, r"$_{{\pm {}}}$", escape_latex) for cell in row.cells]
            lines.append(_latex_line([escape_latex(row.name), *cells]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular*}", r"\end{table*}", ""])


def _header(table: Table) -> list[str]:
    lines = []
    if groups := _groups(table):
        lines.append(
            _latex_line(["", *(rf"\multicolumn{{{count}}}{{c}}{{{escape_latex(name)}}}" for name, count in groups)])
        )
        start = 2
        for _, count in groups:
            lines.append(rf"\cmidrule(lr){{{start}-{start + count - 1}}}")
            start += count
    lines.append(_latex_line(["", *(escape_latex(column.title).replace("@k", "@$k$") for column in table.columns)]))
    units = [rf"{{\scriptsize {escape_latex(column.unit)}}}" if column.unit else "" for column in table.columns]
    return [*lines, _latex_line([escape_latex(table.first_column), *units])]


def _latex_line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def escape_latex(text: str) -> str:
    """Escape text for LaTeX; other characters than ASCII and accented Latin letters become question marks."""
    supported = re.sub(r"[^\x00-\x7f±↑…À-ÖØ-öø-ÿ]", "?", printable(text))
    return "".join(ESCAPES.get(character, character) for character in supported)


HEADER: Final = ("run", "family", "questions", "metric", "value", "ci95_low", "ci95_high", "signature")


def report_csv(report: AuditReport) -> str:
    """Render the report as CSV; an empty value is `--` in the tables, an empty family is the whole bench.

    A `family` such as `duration: under 2 min` is another subset of the bench. A pair of runs is `a minus b`.
    """
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)

    def write(run: str, part: str, questions: int, metric: str, value: float | None, *, bounds: Bounds = None) -> None:
        numbers = map(round_rate, (value, *(bounds or (None, None))))
        writer.writerow((plain_cell(run), plain_cell(part), questions, metric, *numbers, report.signature))

    for run in report.runs:
        for metric, value in run.metrics.items():
            write(run.name, "", run.questions, metric, value, bounds=run.ci95[metric])
        write(run.name, "", run.answer_only.questions, "Acc (all questions)", run.answer_only.acc)
        if question_groups := run.question_groups:
            write(run.name, "", question_groups.questions, "Whole groups", question_groups.acc)
        parts = {name: (report.bench.families[name], of) for name, of in run.families.items()}
        for key, classes in (run.classes or {}).items():
            parts |= {f"{key}: {word}": (each.questions, dict(each.metrics)) for word, each in classes.items()}
        for part, (count, metrics) in parts.items():
            for metric, value in metrics.items():
                write(run.name, part, count, metric, value)
        for key, groups in (run.groups or {}).items():
            for word, group in groups.items():
                write(run.name, f"{key}: {word}", group.questions, "Acc (all questions)", group.acc)
    for pair in report.comparisons:
        name, count = f"{pair.a} minus {pair.b}", report.run(pair.a).questions
        write(name, "", count, pair.metric, pair.difference, bounds=pair.ci95)
        write(name, "", count, f"p of {pair.metric}", pair.p)
    for both in report.agreement:
        for what, share in (("answer", both.answers), ("response", both.responses), ("frames", both.frames)):
            write(f"{both.a} and {both.b}", "", both.questions, f"Same {what}", share)
    return out.getvalue()


def plain_cell(text: str) -> str:
    """Make text safe for spreadsheets: mark it as text if it would be a formula, and escape control characters."""
    safe = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return f"'{safe}" if safe.lstrip().startswith(("=", "+", "-", "@")) else safe


def dump_json(value: object) -> str:
    """Serialise a value as `--json` does."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


REPORT_FORMATS: Final[Mapping[str, Callable[[AuditReport], str]]] = {
    ".json": lambda report: dump_json(report.to_json()),
    ".csv": report_csv,
    ".md": report_markdown,
    ".tex": report_latex,
    ".html": lambda report: html_page("VES audit", report_html(report)),
    ".txt": lambda report: f"{report}\n",
}
"""The renderer of each file suffix."""


def save_report(report: AuditReport, path: str | PathLike[str]) -> Path:
    """Write a report; an unknown suffix is an `InputError`."""
    file = Path(path)
    if file.suffix not in REPORT_FORMATS:
        raise InputError(f"{file}: the name of a report must end with one of {', '.join(REPORT_FORMATS)}.")
    write_output(file, REPORT_FORMATS[file.suffix](report))
    return file
