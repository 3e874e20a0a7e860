"""Two reports in every format, and their figures, letter for letter and line for line as in tests/ves/golden.

After a change that is meant: `python -m tests.ves.test_golden`, then read the difference of each file.
"""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from rich.console import Console

from trace_ves.core import Interval, Question
from trace_ves.records import Call, Item, Prediction
from trace_ves.records.run_file import Reconstruction, Run
from trace_ves.ves import audit
from trace_ves.ves.figures import draw_figures
from trace_ves.ves.paper import paper_main_table
from trace_ves.ves.renderers import REPORT_FORMATS, markdown_table
from trace_ves.ves.terminal import print_report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trace_ves.ves.report import AuditReport

GOLDEN = Path(__file__).parent / "golden"
DURATIONS = (119.5, 120.0, 899.0, 900.0, 3599.0, 3600.0)
"""On both sides of each duration class."""
FAMILIES = ("event-counting", "temporal-ordering", "my_family", "Own Words", "")
ENDINGS = ("stable-prefix-found", "no-stable-prefix", "exhausted", "self-reported", "single-pass", "gave <up>", None)


def bench(families: int, count: int = 24) -> list[Item]:
    """Questions with one to five evidence intervals; every seventh has none."""
    return [
        Item(
            Question(f"q{at:02}", f"v{at % 6}", "?", ("a", "b", "c"), FAMILIES[at % families]),
            "ABC"[at % 3],
            tuple(Interval(10.0 * n + at / 4, 10.0 * n + 4 + at / 4) for n in range(at % 5 + 1)) if at % 7 else (),
            DURATIONS[at % 6],
            {"domain": ("x", "y & z")[at % 2], "category": str(at % 6), "question_group": f"g{at // 2}"},
        )
        for at in range(count)
    ]


def looks(item: Item, at: int, each: int) -> tuple[float, ...]:
    """Frames in the evidence, some more often than others, and two frames that are elsewhere."""
    return (*(i.start + n / 2 for i in item.evidence for n in range((at + each) % 5)), 1.25, 110.0)


def run(items: list[Item], method: str, right: int, each: int | None, **facts: Any) -> Run:
    """A run with every `right`-th answer wrong; `each` shifts what it looked at, None where it looked at nothing."""
    lines = []
    for at, item in enumerate(items):
        frames = () if each is None else looks(item, at, each)
        answer = item.answer if at % right else "CAB"["ABC".index(item.answer)]
        lines.append(Prediction(item.question.id, answer, frames, 2 * len(frames), method, "gemini", **facts))
    return Run(method, lines)


def everything() -> tuple[AuditReport, list[Item]]:
    """Runs of every kind on a bench with three families, some questions without evidence."""
    items = bench(3)
    trace = run(items, "trace", 6, 3)
    calls = [(Call("storyboard", each.timestamps), Call("replay", each.timestamps[:1])) for each in trace.predictions]
    lines = [
        replace(
            each,
            observations=calls[at],
            termination=ENDINGS[at % 7],
            undetermined=at % 4 == 0,
            extra={"read_by": ("letter", "text")[at % 3 == 0], "response": f"It is {at}"},
        )
        for at, each in enumerate(trace.predictions)
    ]
    mine = replace(run(items, "mine", 3, 1, error="no", extra={"response": "It is 5"}), warnings=("mine: is <torn>.",))
    logged = replace(run(items, "logged", 4, 2), reconstruction=Reconstruction("linspace-8", frozenset({True, False})))
    runs = [
        logged,
        replace(trace, predictions=lines),
        run(items, "avp", 5, 0),
        *(run(items, f"uniform-{n}", 3, n // 16) for n in (32, 8)),
        replace(mine, predictions=mine.predictions[:-5]),
        run(items, "blind", 2, None),
        run(items, "unseen", 2, None, extra={"frames_known": False}),
    ]
    options = {"samplers": (8, "linspace-16"), "unlimited": frozenset({"mine"}), "resamples": 200, "seed": 3}
    return audit(items, runs, **options), items


def answers() -> tuple[AuditReport, list[Item]]:
    """Two runs on a bench without evidence."""
    items = [replace(item, evidence=(), duration=float("inf")) for item in bench(5)]
    lab = [replace(each, backbone="lab:x") for each in run(items, "trace", 4, None).predictions]
    return audit(items, [Run("trace", lab), run(items, "blind", 3, None)], resamples=50), items


def families() -> tuple[AuditReport, list[Item]]:
    """One run and one sampler on a bench with many families, at a density that is none of the usual ones."""
    items = [replace(item, evidence=item.evidence or (Interval(5, 50),)) for item in bench(5)]
    return audit(items, {"solo": run(items, "", 5, 4).predictions}, samplers=(64,), resamples=50, k=4), items


def few() -> AuditReport:
    """Three of those runs, without the signature: a CSV file repeats it on each line."""
    report, names = everything()[0], {"trace", "mine", "uniform-8 (sampler)"}
    pairs = {
        field: tuple(each for each in getattr(report, field) if {each.a, each.b} <= names)
        for field in ("comparisons", "agreement")
    }
    return replace(report, signature="", runs=tuple(each for each in report.runs if each.name in names), **pairs)


def in_terminal(width: int) -> str:
    """What a terminal of this width shows, with its colours and marks."""
    out = StringIO()
    print_report(
        few(),
        Console(file=out, width=width, force_terminal=True, color_system="truecolor", no_color=False, _environ={}),
    )
    return out.getvalue()


FILES = {
    **{
        f"everything{suffix}": lambda write=REPORT_FORMATS[suffix]: write(everything()[0])
        for suffix in (".txt", ".tex", ".md")
    },
    **{
        f"few{suffix}": lambda write=REPORT_FORMATS[suffix]: write(few()).replace("<t", "\n<t")
        for suffix in (".csv", ".html")
    },
    "answers.txt": lambda: f"{answers()[0]}\n",
    "families.txt": lambda: f"{families()[0]}\n",
    **{f"terminal-{width}.txt": lambda width=width: in_terminal(width) for width in (45, 100)},
    "paper.md": lambda: markdown_table(paper_main_table(everything()[0])),
    "figures.txt": lambda: described(*everything()),
    "figures-families.txt": lambda: described(*families()),
}
"""What is in each file of the folder; each is made by itself, so that no test depends on another."""


def written(name: str) -> list[str]:
    return re.sub(r"version:[^,|\s<`]+", "version:0", FILES[name]()).splitlines()


def described(report: AuditReport, items: list[Item]) -> str:
    """What is drawn in each figure before it is laid out, and how it is saved."""
    lines: list[str] = []

    def draw(figure: Figure) -> None:
        lines.append(f"size {text(figure.get_size_inches())} dpi {figure.dpi}")
        lines.append(f"layout {type(figure.get_layout_engine()).__name__}")
        lines.extend(of_figure(figure))

    def save(figure: Figure, path: Path, *, bbox_inches: Bbox, **options: Any) -> None:
        lines.append(f"{path.name} {options} {text(bbox_inches.extents)} layout {figure.get_layout_engine()}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "draw_without_rendering", draw)
        patch.setattr(Figure, "get_tightbbox", lambda figure: Bbox([[1, 1], [2, 2]]))  # quicker than to lay it out
        patch.setattr(Figure, "savefig", save)
        drawn = draw_figures(report, items, GOLDEN)
    return "\n".join([*lines, *(path.name for path in drawn), ""])


def of_figure(figure: Figure) -> Iterable[str]:
    """Everything that is visible in a figure, a line for each."""
    for legend in [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]:
        words = [(each.get_text(), each.get_fontsize()) for each in legend.get_texts()]
        shape = (legend._ncols, legend.handlelength, legend.columnspacing, legend.borderaxespad, legend.get_frame_on())
        anchor = legend.get_bbox_to_anchor().transformed(figure.transFigure.inverted()).extents
        yield f"legend {words} at {legend._loc} {text(anchor)} {shape}"
    for words in figure.texts:
        yield f"text {words.get_text()!r} {words.get_fontsize()}"
    for axes in figure.axes:
        yield f"axes {text(axes.get_position().extents)} {axes.get_xscale()} {axes.get_axisbelow()}"
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            ticks = (text(axis.get_ticklocs()), [each.get_text() for each in axis.get_ticklabels()])
            tick, kinds = axis.get_major_ticks()[0], (axis.get_major_locator(), axis.get_minor_locator())
            grid = (tick.gridline.get_visible(), tick.gridline.get_color(), tick.gridline.get_linewidth())
            look = (tick._size, tick._width, tick.label1.get_fontsize(), axis.label.get_fontsize(), grid)
            yield f" axis {axis.label.get_text()!r} {text(limits)} {ticks} {look}"
            yield f" {[type(kind).__name__ for kind in kinds]} {type(axis.get_major_formatter()).__name__}"
        yield f" spines {[(name, each.get_visible(), each.get_linewidth()) for name, each in axes.spines.items()]}"
        for line in axes.lines:
            look = (line.get_linestyle(), line.get_marker(), line.get_markersize(), line.get_markeredgewidth())
            yield f" line {text(line.get_xydata())} {look} {rest(line)} width {line.get_linewidth()} {line.get_color()}"
        for bars in axes.collections:
            colours = [to_hex(each) for each in bars.get_colors()]
            yield f" bars {[text(s) for s in bars.get_segments()]} {rest(bars)} {bars.get_linewidth()} {colours}"
        for patch in (each for each in axes.patches if each.get_width() and each.get_height()):
            yield f" patch {text(patch.get_bbox().bounds)} {to_hex(patch.get_facecolor())} {rest(patch)}"
        for words in axes.texts:
            look = (words.get_ha(), words.get_va(), words.get_fontsize(), words.get_color())
            yield f" text {words.get_text()!r} {text(words.get_position())} {look}"


def rest(artist: Any) -> str:
    label = artist.get_label()
    return f"over {artist.get_zorder()}" + (f" {label!r}" if not label.startswith("_") else "")


def text(numbers: Any) -> str:
    """Numbers with five digits, in the order in which they are."""
    return " ".join(f"{each + 0.0:.5g}" for each in np.ravel(np.asarray(numbers, dtype=float)).round(9))


@pytest.mark.parametrize("name", FILES)
def test_what_is_written_and_drawn_is_what_it_was(name: str) -> None:
    assert written(name) == (GOLDEN / name).read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    for name in FILES:
        (GOLDEN / name).write_text("\n".join([*written(name), ""]), encoding="utf-8")
