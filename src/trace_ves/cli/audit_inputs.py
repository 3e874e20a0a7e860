"""What `trace-ves audit` reads: run files, logs of other tools, schedules, and the frame times of videos at hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_ves.benchmarks import BenchScan
from trace_ves.core.schedules import FrameTimes, schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trace_ves.benchmarks import Bench
    from trace_ves.records import Item
    from trace_ves.ves import Run

    Progress = Callable[[str, int, int], None]


def sampler_names(text: str | None) -> tuple[str, ...]:
    """`linspace-32, uniform-32` as the names of schedules that there are, each once."""
    names = [] if text is None else [word.strip() for word in text.split(",")]
    return tuple(dict.fromkeys(schedule(name).name for name in names))


def foreign_runs(
    paths: Sequence[Path],
    log_format: str,
    bench: Bench,
    samplers: Sequence[str],
    *,
    fields: str | None,
    recorded: Path | None,
    frame_times: Callable[[Item], FrameTimes],
    on_progress: Progress,
) -> tuple[Run, ...]:
    """Logs of another tool as runs on this bench."""
    from trace_ves.logs import read_logs
    from trace_ves.logs.recorded_frames import read_recorded
    from trace_ves.logs.sample import Fields

    if len(samplers) > 1:
        raise click.UsageError("With --format, --sampler names the one schedule that the logged run used.")
    return read_logs(
        paths,
        log_format,
        bench.items,
        sampler=schedule(samplers[0]) if samplers else None,
        recorded=read_recorded(recorded, bench.items) if recorded is not None else None,
        frame_times=frame_times,
        fields=Fields.parse(fields),
        on_progress=on_progress,
    )


class FrameTimesOfBench:
    """When the frames of each video are shown: read from the video where it is there, else by duration and rate."""

    def __init__(self, bench: Bench | BenchScan, fps: float, on_progress: Progress) -> None:
        self._folder = bench.path.parent if bench.path else Path()
        self._videos = len(bench.table.videos) if isinstance(bench, BenchScan) else len(bench.video_files())
        self._fps = fps
        self._known: dict[str, FrameTimes] = {}
        self._on_progress = on_progress

    def __call__(self, item: Item) -> FrameTimes:
        """The frames of an item's video."""
        name = item.question.video
        if name not in self._known:
            file = self._folder / name
            self._known[name] = self._read(file) if file.is_file() else FrameTimes.assumed(item.duration, self._fps)
            self._on_progress("reading frame times", len(self._known), self._videos)
        return self._known[name]

    def _read(self, file: Path) -> FrameTimes:
        from trace_ves.video import open as open_video

        with open_video(file) as video:
            return FrameTimes(video.timestamps.copy(), video.average_fps, is_exact=True)
