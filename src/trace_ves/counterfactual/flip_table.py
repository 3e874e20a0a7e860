"""The counterfactual check as a table, the paper's numbers beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.core.simulation import simulation_notes
from trace_ves.report.paper import paper
from trace_ves.report.table import Column, Row, Section, Table, Value, number

if TYPE_CHECKING:
    from trace_ves.counterfactual.summary import FlipRate, Summary


def flip_table(summary: Summary, run: str, backbone: str = "") -> Table:
    """Both rates, with what did not count towards them in the note, and that the backbone simulates where it does."""
    theirs = paper()["counterfactual"]
    rows = (
        _row("one evidence interval", summary.evidence, theirs["evidence"]),
        _row("a segment of as many frames that are no evidence", summary.control, theirs["control"]),
    )
    older = f" {summary.older} stand in a log of version 0.1, with a control among the clips." if summary.older else ""
    return Table(
        key="counterfactual",
        title=f"Changed answers without some frames: {run}",
        first_column="Masked",
        columns=(
            Column("Questions"),
            Column("Changed", "(%)"),
            Column("No answer", "(%)"),
            Column("Paper", "changed (%)"),
        ),
        sections=(Section("", rows),),
        note=f"{summary.eligible} predictions are correct and covered; {summary.not_reproduced} of them do not get "
        f"their answer from their clips alone, {summary.no_mask} have nothing to mask, {summary.no_control} have "
        f"no control, {summary.failed} failed. No answer any more is not counted as a changed one; the paper does not "
        f"tell the two apart.{older} {simulation_notes([backbone])}".rstrip(),
    )


def _row(name: str, rate: FlipRate, paper: float) -> Row:
    half = None if rate.ci95 is None else (rate.ci95[1] - rate.ci95[0]) / 2
    cells = (Value(str(rate.questions)), number(rate.percent, half=half), number(rate.no_answer), number(paper))
    return Row(name, tuple((cell,) for cell in cells))
