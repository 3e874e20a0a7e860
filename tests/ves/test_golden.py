"""Three reports in every format, one also for a terminal of 60 columns, letter for letter as in tests/ves/golden.

After a change that is meant: `python -m tests.ves.test_golden`, then read the difference of each file.
"""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from trace_ves.core import Interval, Question
from trace_ves.records import Call, Item, Prediction
from trace_ves.records.run_file import Reconstruction, Run
from trace_ves.ves import audit
from trace_ves.ves.paper import paper_main_table
from trace_ves.ves.renderers import REPORT_FORMATS, markdown_table
from trace_ves.ves.report import AuditReport
from trace_ves.ves.terminal import print_report

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


def everything() -> AuditReport:
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
        run(items, "avp", 5, 0, observations=(Call("scan", (1.25,)),)),
        *(run(items, f"uniform-{n}", 3, n // 16) for n in (32, 8)),
        replace(mine, predictions=mine.predictions[:-5]),
        run(items, "blind", 2, None),
        run(items, "unseen", 2, None, extra={"frames_known": False}),
    ]
    options = {"samplers": (8, "linspace-16"), "unlimited": frozenset({"mine"}), "resamples": 200, "seed": 3}
    return audit(items, runs, **options)


def answers() -> AuditReport:
    """Two runs on a bench without evidence."""
    items = [replace(item, evidence=(), duration=float("inf")) for item in bench(5)]
    lab = [replace(each, backbone="lab:x") for each in run(items, "trace", 4, None).predictions]
    return audit(items, [Run("trace", lab), run(items, "blind", 3, None)], resamples=50)


def families() -> AuditReport:
    """One run and one sampler on a bench with many families, at a density that is none of the usual ones."""
    items = [replace(item, evidence=item.evidence or (Interval(5, 50),)) for item in bench(5)]
    return audit(items, {"solo": run(items, "", 5, 4).predictions}, samplers=(64,), resamples=50, k=4)


def few() -> AuditReport:
    """Three of those runs, without the signature: a CSV file repeats it on each line."""
    report, names = everything(), {"trace", "mine", "uniform-8 (sampler)"}
    pairs = {
        field: tuple(each for each in getattr(report, field) if {each.a, each.b} <= names)
        for field in ("comparisons", "agreement")
    }
    return replace(report, signature="", runs=tuple(each for each in report.runs if each.name in names), **pairs)


def in_terminal(report: AuditReport, width: int) -> str:
    """What a terminal receives, with its escapes readable."""
    out = io.StringIO()
    print_report(report, Console(file=out, width=width, force_terminal=True, color_system="standard"))
    return out.getvalue().replace("\x1b", "^")


FILES = {
    **{
        f"everything{suffix}": lambda write=REPORT_FORMATS[suffix]: write(everything())
        for suffix in (".txt", ".tex", ".md")
    },
    **{
        f"few{suffix}": lambda write=REPORT_FORMATS[suffix]: write(few()).replace("<t", "\n<t")
        for suffix in (".csv", ".html")
    },
    "terminal.txt": lambda: in_terminal(everything(), 60),
    "answers.txt": lambda: f"{answers()}\n",
    "families.txt": lambda: f"{families()}\n",
    "paper.md": lambda: markdown_table(paper_main_table(everything())),
}
"""What is in each file of the folder; each is made by itself, so that no test depends on another."""


def written(name: str) -> list[str]:
    return re.sub(r"version:[^,|\s<`]+", "version:0", FILES[name]()).splitlines()


@pytest.mark.parametrize("name", FILES)
def test_a_report_is_written_as_it_was(name: str) -> None:
    assert written(name) == (GOLDEN / name).read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    for name in FILES:
        (GOLDEN / name).write_text("\n".join([*written(name), ""]), encoding="utf-8")
