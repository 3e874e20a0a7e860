"""The timeline of one answer: lanes of bars and ticks, which a template renders as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trace_ves.core.display import colour_stages, describe_stage
from trace_ves.records.search import AvpRecord, RoundRecord, TraceRecord, VcaRecord
from trace_ves.ves.metrics import HEADLINE_DENSITY
from trace_ves.web.search_view import FATES, SearchView, Span, clock, span_text, strategy_text

if TYPE_CHECKING:
    from trace_ves.records import Prediction
    from trace_ves.web.listing import QuestionInfo

TICKS_HEIGHT: Final = 18
BAR_HEIGHT: Final = 15
LANE_GAP: Final = 7
MOST_ROWS: Final = 6  # rows for bars that overlap
BARE_GAP: Final = 0.004
NAMED_GAP: Final = 0.03
"""Bars closer than this share of the video get separate rows; bars with names need more room."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A span with a name."""

    start: float
    end: float
    label: str
    kind: str  # its CSS class: candidate, answer, kept, dropped or refined
    title: str
    row: int = 0


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of the timeline: bars, or ticks of one colour."""

    title: str
    bars: tuple[Bar, ...] = ()
    ticks: tuple[float, ...] = ()  # distinct moments in seconds
    count: int = 0  # frames supplied, with repetitions
    colour: str = ""
    top: int = 0

    @property
    def height(self) -> int:
        """Pixels."""
        return BAR_HEIGHT * (1 + max(bar.row for bar in self.bars)) if self.bars else TICKS_HEIGHT

    @property
    def path(self) -> str:
        """The ticks as an SVG path with one horizontal unit per millisecond."""
        return "".join(f"M{moment} 0V1" for moment in sorted({round(1000 * tick) for tick in self.ticks}))


@dataclass(frozen=True, slots=True)
class Evidence:
    """A gold interval, and the number of distinct frames in it."""

    start: float
    end: float
    frames: int

    @property
    def state(self) -> str:
        """Covered, thin (fewer frames than coverage needs) or missed."""
        return "covered" if self.frames >= HEADLINE_DENSITY else "thin" if self.frames else "missed"


@dataclass(frozen=True, slots=True)
class Timeline:
    """The timeline of one answer."""

    duration: float
    evidence: tuple[Evidence, ...]
    lanes: tuple[Lane, ...]
    marks: tuple[tuple[float, str], ...]  # moments of the axis, with their labels

    @property
    def height(self) -> int:
        """Pixels."""
        return self.lanes[-1].top + self.lanes[-1].height if self.lanes else 0

    @property
    def milliseconds(self) -> int:
        """The length of the axis, at least one."""
        return max(1, round(1000 * self.duration))

    def percent(self, seconds: float) -> str:
        """The horizontal position of a moment."""
        return f"{100 * min(max(seconds / self.duration, 0.0), 1.0):.4f}%"

    def width(self, start: float, end: float) -> str:
        """The width of a span."""
        low, high = max(0.0, start), min(self.duration, end)
        return f"{max(0.0, 100 * (high - low) / self.duration):.4f}%"


def make_timeline(info: QuestionInfo, prediction: Prediction | None, search: SearchView | None) -> Timeline:
    """Make the timeline of one answer; without a prediction it has only the evidence."""
    seen = sorted(set(prediction.timestamps)) if prediction else []
    latest = max([*seen, *(interval.end for interval in info.evidence)], default=0.0)
    duration = max(info.duration or 0.0, latest) or 1.0
    lanes = [*(_bar_lanes(search) if search else ()), *(_tick_lanes(prediction) if prediction else ())]
    evidence = tuple(Evidence(each.start, each.end, sum(moment in each for moment in seen)) for each in info.evidence)
    top, stacked = 0, []
    for lane in lanes:
        if lane.bars or lane.ticks:
            stacked.append(replace(lane, top=top))
            top += lane.height + LANE_GAP
    return Timeline(duration, evidence, tuple(stacked), axis(duration))


def axis(duration: float) -> tuple[tuple[float, str], ...]:
    """Up to about ten round moments with their labels."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)
    step = next((step for step in steps if duration / step <= 10), steps[-1] * max(1, int(duration // 72000)))
    return tuple((at, clock(at, 0)) for at in range(0, int(duration) + 1, step))


def pack(bars: Sequence[Bar], gap: float) -> tuple[Bar, ...]:
    """Sort bars by time, and put each in the first row where it overlaps no other."""
    ends: list[float] = []
    packed = []
    for bar in sorted(bars, key=lambda bar: (bar.start, bar.end)):
        row = next((at for at, end in enumerate(ends) if bar.start >= end + gap), len(ends))
        row = min(row, MOST_ROWS - 1)
        ends[row : row + 1] = [max(bar.end, ends[row]) if row < len(ends) else bar.end]
        packed.append(replace(bar, row=row))
    return tuple(packed)


def _tick_lanes(prediction: Prediction) -> list[Lane]:
    stages: dict[str, list[float]] = {}
    for call in prediction.observations:
        stages.setdefault(call.stage, []).extend(call.timestamps)
    stages = {stage: moments for stage, moments in stages.items() if moments}
    if not stages and prediction.timestamps:
        stages = {"frames": list(prediction.timestamps)}  # the run logged no calls
    hues = colour_stages(list(stages))
    return [
        Lane(describe_stage(stage).title, ticks=tuple(dict.fromkeys(moments)), count=len(moments), colour=hues[stage])
        for stage, moments in stages.items()
    ]


def _bar_lanes(search: SearchView) -> list[Lane]:
    match search.record:
        case TraceRecord(rounds=rounds):
            return _trace_lanes(rounds, search)
        case AvpRecord(rounds=steps):
            regions = [
                _bar(span, str(number), "candidate", f"round {number}: ")
                for number, each in enumerate(steps, 1)
                for span in each.spans
            ]
            pieces = dict.fromkeys(piece for each in steps for piece in each.evidence.key_evidence)
            evidence = [_bar(piece, "", "kept", after=f": {piece.description}") for piece in pieces]
            return [_lane("regions", regions), _lane("key evidence", evidence)]
        case VcaRecord(steps=explored):
            bars = [
                _bar(step.explored, str(number), "candidate", f"step {number}: segment {step.explored.segment}, ")
                for number, step in enumerate(explored, 1)
            ]
            return [_lane("explored", bars)]
        case None:
            return []


def _lane(title: str, bars: Sequence[Bar]) -> Lane:
    whole = max((bar.end for bar in bars), default=0.0)
    gap = NAMED_GAP if any(bar.label for bar in bars) else BARE_GAP
    return Lane(title, pack(bars, gap * whole))


def _bar(span: Span, label: str, kind: str, before: str = "", after: str = "") -> Bar:
    title = f"{before}{span_text(span)}{after}"
    return Bar(span.start, max(span.start, span.end), label, kind, title)


def _trace_lanes(rounds: Sequence[RoundRecord], search: SearchView) -> list[Lane]:
    candidates = [
        _bar(candidate.span, "", "candidate", f"round {each.number}: ", f", {strategy_text(candidate.strategy)}")
        for each in rounds
        for candidate in each.candidates
    ]
    anchors = [
        _bar(
            anchor.clip.span,
            anchor.id,
            fate := search.fates[anchor.id],
            f"{anchor.id}, round {each.number}: ",
            f", {strategy_text(anchor.clip.strategy)}, {FATES[fate]}",
        )
        for each in rounds
        for anchor in each.anchors
    ]
    return [_lane("candidates", candidates), _lane("anchors", anchors)]
