r"""Tables as LaTeX with booktabs. The file compiles alone, and also when a paper takes it in with \input."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from trace_ves.report.table import Mark, Table, Value
from trace_ves.report.tables import tables
from trace_ves.report.terminal import printable

if TYPE_CHECKING:
    from trace_ves.ves.report import AuditReport

MARKS: Final = {Mark.PLAIN: "%s", Mark.BEST: r"\textbf{%s}", Mark.SECOND: r"\underline{%s}"}

HEAD: Final = r"""% Compile this file alone, or \input it in a paper that has \usepackage{booktabs}.
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

ESCAPES: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
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
    """Every table of a report, with the signature as a comment over them."""
    return "\n".join([HEAD, f"% {report.signature}", *(latex_table(table) for table in tables(report)), TAIL])


def latex_table(table: Table) -> str:
    """One table environment, as wide as the text."""
    width = len(table.columns) + 1
    caption = escaped(f"{table.title}." + (f" {table.note}" if table.note else ""))
    lines = [
        r"\begin{table*}[t]",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:ves-{escaped(table.key)}}}",
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
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\itshape {escaped(section.heading)}}} \\")
        lines += [_line([escaped(row.name), *map(_cell, row.cells)]) for row in section.rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular*}", r"\end{table*}", ""])


def _header(table: Table) -> list[str]:
    lines = []
    if any(column.group for column in table.columns):
        groups = [(name, len(list(columns))) for name, columns in groupby(column.group for column in table.columns)]
        lines.append(_line(["", *(rf"\multicolumn{{{count}}}{{c}}{{{escaped(name)}}}" for name, count in groups)]))
        start = 2
        for _, count in groups:
            lines.append(rf"\cmidrule(lr){{{start}-{start + count - 1}}}")
            start += count
    lines.append(_line(["", *(_title(column.title) for column in table.columns)]))
    units = [rf"{{\scriptsize {escaped(column.unit)}}}" if column.unit else "" for column in table.columns]
    return [*lines, _line([escaped(table.first_column), *units])]


def _title(title: str) -> str:
    return escaped(title).replace("@k", "@$k$")


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(cell: tuple[Value, ...]) -> str:
    return " / ".join(
        MARKS[value.mark] % escaped(value.text)
        + (rf"$_{{\pm {value.plus_minus}}}$" if value.plus_minus is not None else "")
        for value in cell
    )


def escaped(text: str) -> str:
    """Text from a file as LaTeX shows it; letters that pdflatex does not know become a question mark."""
    return "".join(ESCAPES.get(character, character if _known(character) else "?") for character in printable(text))


def _known(character: str) -> bool:
    """ASCII and Latin letters with accents, which every LaTeX since 2018 reads as UTF-8."""
    return character.isascii() or ("À" <= character <= "ÿ" and character.isalpha())
