"""The counterfactual check as a table, the paper's numbers beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.report.table import Column, Row, Section, Table, Value, number

if TYPE_CHECKING:
    from trace_ves.counterfactual.summary import FlipRate, Summary

PAPER: Final = {"evidence": 78.0, "control": 6.9}
"""Changed answers in percent in the paper's check: 304 covered, correct predictions of TRACE on Gemini-3-Flash."""


def flip_table(summary: Summary, run: str) -> Table:
    """Both rates, with what did not count towards them in the note."""
    rows = (
        _row("one evidence interval", summary.evidence, PAPER["evidence"]),
        _row("as many frames that are no evidence", summary.control, PAPER["control"]),
    )
    return Table(
        key="counterfactual",
        title=f"Changed answers without some frames: {run}",
        first_column="Masked",
        columns=(Column("Questions"), Column("Changed", "(%)"), Column("Paper", "(%)")),
        sections=(Section("", rows),),
        note=f"{summary.eligible} predictions are correct and covered; {summary.not_reproduced} of them do not get "
        f"their answer from their clips alone, {summary.no_mask} have nothing to mask, {summary.no_control} have "
        f"no control, {summary.failed} failed.",
    )


def _row(name: str, rate: FlipRate, paper: float) -> Row:
    half = None if rate.ci95 is None else (rate.ci95[1] - rate.ci95[0]) / 2
    return Row(name, ((Value(str(rate.questions)),), (number(rate.percent, half=half),), (Value(f"{paper:.1f}"),)))
