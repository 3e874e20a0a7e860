"""The screen of `trace-ves ask`: what it says of each typed event."""

from __future__ import annotations

import io

from rich.console import Console

from trace_ves.cli.ask_progress import AskScreen
from trace_ves.core import Interval
from trace_ves.observer import UNLIMITED, Decided, Event, Progress, RoundStarted, StageStarted


def shown(*events: Event, budget: int = 128) -> str:
    screen = AskScreen(quiet=True)
    for event in events:
        screen(Progress(event, 40, budget))
    out = Console(file=io.StringIO(), width=100)
    out.print(screen._live.renderable)
    return out.file.getvalue()  # type: ignore[attr-defined]


def test_a_stage_is_named_with_its_round_its_spans_and_the_budget() -> None:
    text = shown(RoundStarted(2), StageStarted("anchor-extraction", (Interval(60, 75.5),)))
    assert "round 2: looking closely  1:00.0-1:15.5" in text
    assert "40 of 128 frames" in text


def test_a_decision_is_told_in_words_and_an_unknown_stage_by_its_name() -> None:
    assert "more has to be found" in shown(Decided("EXPAND"))
    assert "nothing is left to look at" in shown(Decided(None))
    assert "my-check" in shown(StageStarted("my-check"))
    assert "40 frames" in shown(StageStarted("direct-answer"), budget=UNLIMITED)
