"""The exact frames that a run looked at, written as pictures from the source video, with an index that names each."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_ves.core import InputError
from trace_ves.recorded import open_recorded, recorded_frames
from trace_ves.running.run_file import read_configuration

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.core import Frame
    from trace_ves.records import Call, Prediction
    from trace_ves.ves import Run
    from trace_ves.video.video import Video


@dataclass(frozen=True, slots=True)
class Written:
    """What was written where."""

    folder: Path
    pictures: int
    calls: int
    checked: bool
    """Whether the run had noted the video's checksum."""


def prediction_of(run: Run, question_id: str) -> Prediction:
    """The line of a run for one question."""
    for prediction in run.predictions:
        if prediction.question_id == question_id:
            return prediction
    some = ", ".join(prediction.question_id for prediction in run.predictions[:3])
    raise InputError(f"{run.path}: no line for question {question_id!r}; the file has {some}, …")


def bench_of(run: Path) -> Path:
    """The bench that a run was made on, as its configuration says: a path, from the run's folder if it is relative."""
    bench = read_configuration(run).get("bench")
    if not isinstance(bench, str):
        raise InputError(f"{run}: no run.toml beside this file says which bench it was made on; give --bench.")
    return run.parent / bench


def write_frames(prediction: Prediction, video: Path, out: Path) -> Written:
    """Write every distinct frame once for each height, and `frames.csv`: which call was given which picture."""
    if not prediction.timestamps:
        raise InputError(f"question {prediction.question_id!r} was answered without looking; there are no frames.")
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; give another folder.")
    out.mkdir(parents=True, exist_ok=True)
    with open_recorded(prediction, video) as opened:
        names = _write_pictures(opened, prediction, out)
    with (out / "frames.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["call", "stage", "place", "seconds", "height", "picture"])
        for number, call in enumerate(prediction.observations, start=1):
            for place, (seconds, height) in enumerate(_supplied(call), start=1):
                table.writerow([number, call.stage, place, seconds, height, names[seconds, height]])
    (out / "prediction.json").write_text(json.dumps(prediction.to_json(), ensure_ascii=False, indent=2) + "\n", "utf-8")
    return Written(out, len(set(names.values())), len(prediction.observations), "video" in prediction.extra)


def _write_pictures(opened: Video, prediction: Prediction, out: Path) -> dict[tuple[float, int | None], str]:
    names: dict[tuple[float, int | None], str] = {}
    for height, timestamps in _by_height(prediction).items():
        for seconds, frame in zip(timestamps, recorded_frames(opened, timestamps, height), strict=True):
            names[seconds, height] = _write_picture(frame, out)
    return names


def _by_height(prediction: Prediction) -> dict[int | None, list[float]]:
    """Distinct timestamps for each height that frames were supplied at; an outsider's run has no heights."""
    found: dict[int | None, set[float]] = {}
    for call in prediction.observations:
        for seconds, height in _supplied(call):
            found.setdefault(height, set()).add(seconds)
    if not found:
        found[None] = set(prediction.timestamps)
    return {height: sorted(timestamps) for height, timestamps in found.items()}


def _supplied(call: Call) -> list[tuple[float, int | None]]:
    """Timestamp and height of each frame of a call; a log without heights is of frames in their own size."""
    if call.heights and len(call.heights) != len(call.timestamps):
        raise InputError(f"a {call.stage} call has {len(call.timestamps)} timestamps but {len(call.heights)} heights.")
    return list(zip(call.timestamps, call.heights or (None,) * len(call.timestamps), strict=True))


def _write_picture(frame: Frame, out: Path) -> str:
    name = f"{frame.seconds:010.3f}s-{frame.picture.height}p-pts{frame.pts}.jpg"
    (out / name).write_bytes(frame.jpeg())
    return name
