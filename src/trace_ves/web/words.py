"""How the page says things: moments, stages, ends of a search. Words alone."""

from __future__ import annotations

from typing import Final

from trace_ves.core.stages import colours, describe

BUCKETS: Final = {
    "covered": "right, evidence covered",
    "uncovered": "right, evidence not covered",
    "right": "right",
    "wrong": "wrong",
    "unscored": "not scored",
    "open": "no answer line yet",
}
"""The paper's three buckets, and what a page also meets."""

BUCKET_SIGNS: Final = {"covered": "●", "uncovered": "◐", "right": "●", "wrong": "✕", "unscored": "?", "open": "…"}
"""So that colour is never the only difference."""

TERMINATIONS: Final = {
    "stable-prefix-found": "The answer held while evidence grew, and a replay over the same clips agreed.",
    "no-stable-prefix": "At best a forced answer, not claimed to be sufficient.",
    "single-pass": "One look; nothing is claimed about sufficiency.",
    "self-reported": "The model said itself that it had seen enough.",
    "exhausted": "Rounds or frames ran out; nothing is claimed about sufficiency.",
}

LATEST_SECONDS: Final = 1e12
"""A later moment, in a foreign record, is shown as this one."""

FRAMES: Final = "frames"
"""The stage that stands for all, where a run logged no calls."""


def stage_name(stage: str) -> str:
    """A stage in words."""
    return describe(stage).title


def stage_note(stage: str) -> str:
    """What a stage is for; nothing where it is not ours."""
    return describe(stage).purpose


def stage_colours(names: list[str]) -> dict[str, str]:
    """A colour for each stage."""
    return colours(names)


def clock(seconds: float, decimals: int = 1) -> str:
    """A moment as a player shows it: 1:02:03.4, or 2:03.4 within the first hour."""
    scale = 10**decimals
    ticks = round(min(seconds, LATEST_SECONDS) * scale)
    whole, rest = divmod(ticks, scale)
    tail = f".{rest:0{decimals}d}" if decimals else ""
    hours, minutes, last = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{last:02d}{tail}" if hours else f"{minutes}:{last:02d}{tail}"


def span_text(start: float, end: float) -> str:
    """A span of time from clock to clock."""
    return f"{clock(start)}-{clock(end)}"


def percent(value: float | None) -> str:
    """A rate in percent as the tables show it."""
    return "--" if value is None else f"{value:.1f}"
