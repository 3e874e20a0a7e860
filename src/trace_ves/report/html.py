"""Tables as HTML, for a notebook or a file. Whatever comes from a file is escaped; nothing is fetched, nothing runs."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from trace_ves.report.table import Mark, Row, Table, Value
from trace_ves.report.tables import tables
from trace_ves.report.terminal import printable

if TYPE_CHECKING:
    from trace_ves.ves.report import AuditReport

MARKS: Final = {Mark.PLAIN: "{}", Mark.BEST: "<b>{}</b>", Mark.SECOND: "<u>{}</u>"}
_NUMBER: Final = 'style="text-align:right;white-space:nowrap;padding:.15em .6em"'
_NAME: Final = 'style="text-align:left;padding:.15em .6em"'
_NOTE: Final = 'style="opacity:.7;margin:.2em 0 1.2em;max-width:60em"'


def report_html(report: AuditReport) -> str:
    """Every table of a report, its warnings and its signature."""
    parts = [html_table(table) for table in tables(report)]
    parts += [f"<p><b>warning:</b> {text(warning)}</p>" for warning in report.warnings]
    return "".join([*parts, f"<p {_NOTE}><code>{text(report.signature)}</code></p>"])


def html_table(table: Table) -> str:
    """One table under its title; it scrolls within itself where it is wider than the page."""
    head = "".join(f"<th {_NUMBER}>{_heading(column.title, column.unit)}</th>" for column in table.columns)
    rows = [f"<tr><th {_NAME}>{text(table.first_column)}</th>{head}</tr>"]
    if any(column.group for column in table.columns):
        rows.insert(0, f"<tr><th></th>{_groups(table)}</tr>")
    body = []
    for section in table.sections:
        if section.heading:
            body.append(f'<tr><td {_NAME} colspan="{len(table.columns) + 1}"><i>{text(section.heading)}</i></td></tr>')
        body += [_row(row) for row in section.rows]
    note = f"<p {_NOTE}>{text(table.note)}</p>" if table.note else ""
    return (
        f'<p style="margin:1em 0 .2em"><b>{text(table.title)}</b></p><div style="overflow-x:auto">'
        f"<table><thead>{''.join(rows)}</thead><tbody>{''.join(body)}</tbody></table></div>{note}"
    )


def html_page(title: str, body: str) -> str:
    """A whole file around a part, which may load nothing and run nothing."""
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    style = "font:15px/1.5 system-ui,sans-serif;max-width:75em;margin:2em auto;padding:0 1em"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        f'content="{policy}"><title>{text(title)}</title><body style="{style}">{body}</body></html>\n'
    )


def text(words: str) -> str:
    """Text from a file, a person or a model that must not turn into markup."""
    return escape(printable(words))


def _heading(title: str, unit: str) -> str:
    return f"{text(title)}<br>{text(unit)}" if unit else text(title)


def _groups(table: Table) -> str:
    """The words over groups of columns, each once."""
    spans: list[tuple[str, int]] = []
    for column in table.columns:
        if spans and spans[-1][0] == column.group:
            spans[-1] = (column.group, spans[-1][1] + 1)
        else:
            spans.append((column.group, 1))
    return "".join(f'<th colspan="{count}" style="text-align:center">{text(group)}</th>' for group, count in spans)


def _row(row: Row) -> str:
    cells = "".join(f"<td {_NUMBER}>{' / '.join(map(_value, cell))}</td>" for cell in row.cells)
    return f"<tr><td {_NAME}>{text(row.name)}</td>{cells}</tr>"


def _value(value: Value) -> str:
    half = f" <small>±{text(value.plus_minus)}</small>" if value.plus_minus is not None else ""
    return MARKS[value.mark].format(text(value.text)) + half
