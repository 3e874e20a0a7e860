"""A small bench with runs of the real methods: videos whose frames carry their own number as black and white blocks.

The model behind the methods is a witness that knows when the events are; each question makes TRACE go another way.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.fake_models import StageModel, full
from trace_ves import video
from trace_ves.agent import TRACE, TraceSettings
from trace_ves.backbone.protocol import Request, ScriptedBackbone
from trace_ves.baselines.avp import Avp
from trace_ves.baselines.direct import Uniform
from trace_ves.baselines.vca import Vca
from trace_ves.benches.bench import write_bench
from trace_ves.core import Answer, Interval, Question
from trace_ves.core.jsonl import dump_line
from trace_ves.observer import Observer
from trace_ves.records import Item, Prediction
from trace_ves.records.transcript import Transcript, transcripts_path
from trace_ves.video import CachedVideo

BITS = 12
BLOCK = 20
WIDTH, HEIGHT = 320, 180
GROUND = 131
FPS = 10
SECONDS = 120
EVENTS = {
    "a red balloon rises": Interval(21, 26),
    "a blue van passes": Interval(63, 68),
    "a yellow door opens": Interval(97, 103),
}
RED, BLUE, YELLOW = EVENTS
COLOURS = {RED: (196, 60, 50), BLUE: (50, 90, 190), YELLOW: (225, 190, 60)}
FACTS = (f"{RED} (0:21.0-0:26.0)", f"{BLUE} (1:03.0-1:08.0)", f"{YELLOW} (1:37.0-1:43.0)")
ORDERS = (
    f"{RED} -> {BLUE} -> {YELLOW}",
    f"{RED} -> {YELLOW} -> {BLUE}",
    f"{BLUE} -> {RED} -> {YELLOW}",
    f"{YELLOW} -> {BLUE} -> {RED}",
)
SPANS = ((15.0, 31.0), (58.0, 74.0), (92.0, 108.0))


@cache
def scene() -> tuple[NDArray[Any], NDArray[Any], NDArray[np.uint8]]:
    """The rows and columns of a picture, and the picture without events and number."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    image = np.stack([90 + 60 * rows // HEIGHT, 110 + 50 * rows // HEIGHT, 0 * rows], axis=-1).astype(np.uint8)
    image[:BLOCK] = 0
    image[GROUND:] = (96, 104, 88)
    return rows, columns, image


def picture(number: int, seconds: float) -> NDArray[np.uint8]:
    """A frame of a plain scene; its number stands in binary along the top, lowest bit first."""
    rows, columns, empty = scene()
    image = empty.copy()
    image[BLOCK:GROUND, :, 2] = 130 + int(seconds * 0.5) % 60
    for name, span in EVENTS.items():
        if seconds in span:
            centre = 60 + 200 * (seconds - span.start) / span.length
            image[(rows - 105) ** 2 + (columns - centre) ** 2 < 30**2] = COLOURS[name]
    for bit in range(BITS):
        if number >> bit & 1:
            image[:BLOCK, bit * BLOCK : (bit + 1) * BLOCK] = 255
    return image


def number_in(pixels: NDArray[np.uint8]) -> int:
    """The number that a decoded frame carries."""
    height, width = pixels.shape[:2]
    row = pixels[round(height * BLOCK / 2 / HEIGHT)]
    at = [round((bit + 0.5) * BLOCK * width / WIDTH) for bit in range(BITS)]
    return sum(1 << bit for bit, x in enumerate(at) if int(row[x].max()) > 127)


def write_video(
    path: Path, *, codec: str = "libx264", seconds: float = SECONDS, variable: bool = False, first_tick: int = 0
) -> list[float]:
    """Write a numbered video with B-frames; gives the timestamp of each frame, the first at 0."""
    import av

    ticks, moments = first_tick, []
    options = {"libx264": {"preset": "ultrafast", "g": "50", "bf": "2"}, "libx265": {"x265-params": "log-level=none"}}
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=FPS, options=options.get(codec, {}))
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        for number in range(round(seconds * FPS)):
            moments.append((ticks - first_tick) / 1000)
            frame = av.VideoFrame.from_ndarray(picture(number, moments[-1]), format="rgb24")
            frame.pts, frame.time_base = ticks, Fraction(1, 1000)
            container.mux(stream.encode(frame))
            ticks += (40, 100, 160)[number % 3] if variable else 1000 // FPS
        container.mux(stream.encode())
    return moments


class Witness(StageModel):
    """Answers every stage from the frames of that call alone; a way of going wrong can be named."""

    def __init__(self, way: str = "plain", proposals: Sequence[Sequence[tuple[float, float]]] = (SPANS,)) -> None:
        super().__init__()
        self.way, self.proposals = way, list(proposals)

    def __call__(self, request: Request[Any]) -> Any:
        return full(request, super().__call__(request))

    def seen(self, request: Request[Any]) -> dict[str, Interval]:
        moments = [frame.seconds for clip in request.clips for frame in clip.frames]
        return {event: span for event, span in EVENTS.items() if sum(moment in span for moment in moments) >= 1}

    def letter(self, request: Request[Any]) -> str | None:
        seen = len(self.seen(request))
        return ("C" if self.way == "wrong" else "A") if seen == len(EVENTS) else "B" if seen == 2 else None

    def claims(self, request: Request[Any]) -> Any:
        return {"claims": [{"claim": event, "kind": "fact"} for event in EVENTS]}

    def temporal_proposal(self, request: Request[Any]) -> Any:
        named = self.proposals.pop(0) if self.proposals else []
        notes = [{"start": 0, "end": 60, "note": "a road by a meadow"}] if request.clips else []
        ids = [claim["id"] for claim in request.variables["claims"]]
        candidates = [{"start": a, "end": b, "moment": (a + b) / 2, "claims": ids} for a, b in named]
        return {"notes": notes, "candidates": candidates}

    def anchor_extraction(self, request: Request[Any]) -> Any:
        seen = self.seen(request)
        if not seen and self.way != "drop":
            return {"relevant": "no"}
        spans = list(seen.values()) or [request.clips[0].span]
        return {"relevant": "yes", "spans": [{"start": s.start, "end": s.end, "claims": []} for s in spans]}

    def anchor_prioritization(self, request: Request[Any]) -> Any:
        return {"order": list(range(1, len(request.clips) + 1))}

    def evidence_assembly(self, request: Request[Any]) -> Any:
        seen = self.seen(request)
        ids = {event: c["id"] for c in request.variables["claims"] for event in EVENTS if event in c["claim"]}
        done = len(seen) == len(EVENTS)
        strays = any(clip.span.start < 15 for clip in request.clips)
        kinds = {c["id"]: c["kind"] for c in request.variables["claims"]}
        facts = [
            {"claim": ids[event], "spans": [{"start": s.start, "end": s.end}]}
            if kinds[ids[event]] == "time"
            else {"claim": ids[event], "value": "seen"}
            for event, s in seen.items()
        ]
        return {
            "facts_supported": facts,
            "unmet_needs": [name for event, name in ids.items() if event not in seen],
            "status": "conflicted" if strays else "answerable" if done else "insufficient",
            "answer": None if strays or not done else self.letter(request),
        }

    def trajectory_reconciler(self, request: Request[Any]) -> Any:
        pieces = [(piece["start"], piece["end"]) for piece in request.variables["unexplored_segments"]]
        if self.way == "drop" and request.variables["conflict_set"]:
            return {"action": "DROP", "target_anchors": [*request.variables["conflict_set"], "a99"]}
        if self.way == "refine" and "REFINE" in request.variables["actions"]:
            return {"action": "REFINE", "target_anchors": ["a1"], "observation_strategy": "raise-frame-rate"}
        if "EXPAND" not in request.variables["actions"]:
            return {"action": request.variables["actions"].split(", ")[0]}
        return {"action": "EXPAND", "target_intervals": list(self.proposals.pop(0) if self.proposals else pieces)}

    def final_answer_replay(self, request: Request[Any]) -> Any:
        return {"answer": "D" if self.way == "replay" else self.letter(request)}

    def forced_answer(self, request: Request[Any]) -> Any:
        return {"answer": "D" if self.way == "replay" else self.letter(request) or "D"}

    def direct_answer(self, request: Request[Any]) -> Any:
        return {"answer": "A" if self.way in {"plain", "expand"} else "B"}

    def avp_plan(self, request: Request[Any]) -> Any:
        regions = [list(span) for span in SPANS[: 2 if self.way == "wrong" else 3]]
        return {"load_mode": "region", "fps": 0.5, "spatial": "low", "regions": regions, "completion_criteria": "all"}

    def avp_observe(self, request: Request[Any]) -> Any:
        found = [{"start": s.start, "end": s.end, "description": event} for event, s in self.seen(request).items()]
        return {"description": f"{len(found)} of the scenes are there", "key_evidence": found}

    def avp_reflect(self, request: Request[Any]) -> Any:
        enough = "door" in str(request.variables["evidence"])
        letter = "A" if enough else None
        return {"sufficient": enough, "confidence": 0.9, "justification": "the door was not seen", "answer": letter}

    def avp_answer(self, request: Request[Any]) -> Any:
        return {"answer": "B"}

    def vca_reward(self, request: Request[Any]) -> Any:
        scores = []
        for segment in request.variables["segments"]:
            span = Interval(segment["start"], segment["end"])
            events = [event for event, at in EVENTS.items() if at.intersection(span)]
            why = f"here {events[0]}" if events else "a road, and nothing on it"
            scores.append({"segment": segment["segment"], "explanation": why, "relevance": 80 if events else 5})
        return {"scores": scores}

    def vca_explore(self, request: Request[Any]) -> Any:
        if len(self.seen(request)) >= 2:
            return {"action": "answer", "answer": "B" if self.way == "wrong" else "A"}
        best = max(request.variables["segments"], key=lambda segment: segment["relevance"])
        return {"action": "explore", "segment": best["segment"]}

    def vca_answer(self, request: Request[Any]) -> Any:
        return {"answer": self.letter(request) or "D"}


WAYS = ("plain", "expand", "drop", "replay", "wrong", "nothing", "refine", "plain", "wrong", "expand", "plain", "drop")
PROPOSALS = {
    "expand": [SPANS[:1], SPANS[1:]],
    "drop": [[*SPANS[:2], (2.0, 12.0)], SPANS[2:]],
    "nothing": [SPANS[:1], [(35.0, 50.0)], [(76.0, 90.0)]],
    "refine": [SPANS[:2], SPANS[2:]],
}


def witness(way: str) -> Witness:
    """A witness that leads TRACE along this way."""
    return Witness(way, [list(spans) for spans in PROPOSALS.get(way, [SPANS])])


METHODS: Mapping[str, Callable[[Question, Observer], Answer]] = {
    "trace": replace(TRACE, settings=TraceSettings(candidates_per_round=3, candidate_frames=8, most_anchor_frames=5)),
    "uniform-16": Uniform(16),
    "avp": Avp(),
    "vca": Vca(),
}


def items(videos: Sequence[str], count: int) -> list[Item]:
    """Questions about the three events, in turn on each video, of two families."""
    ordering = ("temporal-ordering", "In which order do these scenes appear?")
    counting = ("event-counting", "Which option names the scenes in order?")
    found = []
    for number in range(count):
        family, text = counting if number % 3 == 2 else ordering
        told = f"{text} ({WAYS[number % len(WAYS)]})"
        question = Question(f"q{number:03d}", videos[number % len(videos)], told, ORDERS, family)
        found.append(Item(question, "A", tuple(EVENTS.values()), float(SECONDS)))
    return found


def predict(item: Item, method: str, source: CachedVideo, way: str) -> tuple[Prediction, Transcript]:
    """What a method answers on a real video, as a line of a run file, and what was said in its calls."""
    observer = Observer(source, ScriptedBackbone(witness(way)), budget=250)
    answer = METHODS[method](item.question, observer)
    line = Prediction.of(item.question, answer, observer.log, method=method, backbone="scripted", seconds=1.25)
    return line, observer.transcript(item.question.id)


def make_bench(folder: Path, count: int = 12) -> list[Item]:
    """A bench of two videos."""
    (folder / "videos").mkdir(parents=True)
    write_video(folder / "videos" / "one.mp4")
    write_video(folder / "videos" / "two.mp4", first_tick=2000)
    made = items(["videos/one.mp4", "videos/two.mp4"], count)
    write_bench(made, folder)
    return made


def make_runs(bench: Path, runs: Path, made: Sequence[Item]) -> None:
    """A run file of each method over the whole bench."""
    runs.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        names = {item.question.video for item in made}
        sources = {name: video.CachedVideo(opened.enter_context(video.open(bench / name))) for name in names}
        for method in METHODS:
            told = [
                predict(item, method, sources[item.question.video], WAYS[number % len(WAYS)])
                for number, item in enumerate(made)
            ]
            run = runs / f"{method}@scripted.jsonl"
            run.write_bytes(b"".join(dump_line(line.to_json()) for line, _ in told))
            transcripts_path(run).write_bytes(b"".join(dump_line(said.to_json()) for _, said in told))
