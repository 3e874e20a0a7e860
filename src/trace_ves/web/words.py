"""How the page says things: moments, stages, ends of a search. Words alone."""

from __future__ import annotations

from typing import Final

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

STAGES: Final = {
    "claims": ("claims", "what has to be settled, from the words alone"),
    "temporal-proposal": ("temporal proposal", "where to look, from the storyboard"),
    "anchor-extraction": ("anchor extraction", "a closer look at each candidate"),
    "anchor-prioritization": ("anchor prioritization", "one frame of each anchor, to order them"),
    "evidence-assembly": ("evidence assembly", "each growing bundle, read on its own"),
    "trajectory-reconciler": ("trajectory reconciler", "stop, drop, refine or expand"),
    "final-answer-replay": ("final answer replay", "the answer once more, from the raw clips"),
    "direct-answer": ("direct answer", "one call over all frames"),
    "avp-plan": ("plan", "what to observe next"),
    "avp-observe": ("observe", "the regions of the plan"),
    "avp-reflect": ("reflect", "is the evidence enough?"),
    "avp-answer": ("answer", "from the text of the evidence"),
    "vca-reward": ("reward", "how relevant is each new segment?"),
    "vca-explore": ("explore", "the memory of frames; explore or answer"),
    "vca-answer": ("answer", "from the memory of frames"),
}
"""Stage -> its name and what it does."""

STAGE_COLOURS: Final = {
    "temporal-proposal": "sky",
    "anchor-extraction": "orange",
    "anchor-prioritization": "purple",
    "evidence-assembly": "blue",
    "final-answer-replay": "vermillion",
    "direct-answer": "blue",
    "avp-observe": "orange",
    "vca-reward": "orange",
    "vca-explore": "blue",
    "vca-answer": "vermillion",
}
SPARE_COLOURS: Final = ("sky", "orange", "purple", "blue", "vermillion", "grey")

FRAMES: Final = "frames"
"""The stage that stands for all, where a run logged no calls."""


def stage_name(stage: str) -> str:
    """A stage in words; one that is not ours is shown by its own name."""
    return STAGES[stage][0] if stage in STAGES else stage


def stage_note(stage: str) -> str:
    """What a stage does, nothing for one that is not ours."""
    return STAGES[stage][1] if stage in STAGES else ""


def stage_colours(stages: list[str]) -> dict[str, str]:
    """A colour for each stage: ours have their own, others take what is left, and start again where none is."""
    colours = {stage: STAGE_COLOURS[stage] for stage in stages if stage in STAGE_COLOURS}
    spare = [colour for colour in SPARE_COLOURS if colour not in colours.values()] or list(SPARE_COLOURS)
    for number, stage in enumerate(stage for stage in stages if stage not in colours):
        colours[stage] = spare[number % len(spare)]
    return colours


def clock(seconds: float, decimals: int = 1) -> str:
    """A moment as a player shows it: 1:02:03.4, or 2:03.4 within the first hour."""
    scale = 10**decimals
    ticks = round(seconds * scale)
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
