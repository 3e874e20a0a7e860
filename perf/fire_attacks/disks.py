"""Disks that are full or read-only, and clocks that jump."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import time
from typing import TYPE_CHECKING

from fire_attacks.ground import SURVIVED, Outcome, command, in_child, lines_of, lost

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from fire_attacks.ground import Ground, Result

NOBODY = 65534


def full_disk_run(ground: Ground, chance: random.Random) -> Result:
    """A disk that is full after some bytes: a sentence, and with room again the lines of an undisturbed run."""
    out = ground.place() / "runs"
    limit = chance.choice((0, 1, 100, 4096, 30_000, 80_000))
    arguments = ("run", ground.twin, "--method", "uniform-8,trace", "--backbone", "lab", "--out", out, "--workers", "2")
    ended = in_child(_limited(command(*arguments), limit))
    result = ended.result
    if result.outcome is Outcome.LOST:
        return result
    wrong = [key for key, line in lines_of(out).items() if ground.lines.get(key) != line] if out.exists() else []
    again = in_child(lambda: ground.run(out))
    if wrong or again.status != 0 or lines_of(out) != ground.lines:
        return lost(f"limit {limit}: {wrong}\n{again.text}")
    return result


def full_disk_output(ground: Ground, chance: random.Random) -> Result:
    """Commands that write a file, to a disk without room and to a device that is always full."""
    place = ground.place()
    written = _writing_commands(ground, place)
    work = chance.choice(written)
    limit = chance.choice((0, 1, 200))
    return in_child(_limited(command(*work), limit)).result


def full_output_stream(ground: Ground, chance: random.Random) -> Result:
    """Standard output is a full disk."""
    work = chance.choice(
        [
            ("audit", ground.twin, ground.folder / "peace"),
            ("--help",),
            ("doctor",),
            ("frames", ground.videos[0], "--at", "1", ground.place() / "out"),
        ]
    )
    assert ground.lines

    def to_full() -> None:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        command(*work)()

    ended = in_child(to_full)
    return ended.result if ended.status else lost(f"{work}: status 0 though nothing could be written")


def read_only(ground: Ground, chance: random.Random) -> Result:
    """A folder that may not be written to."""
    place = ground.place()
    work = chance.choice(_writing_commands(ground, place))
    ground.folder.chmod(0o755)
    place.chmod(0o555)

    def without_rights() -> None:
        if os.getuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        command(*work)()

    ended = in_child(without_rights)
    place.chmod(0o755)
    if ended.status == 0:
        return lost(f"{work}: status 0 in a folder that may not be written to")
    return ended.result


def companion_outputs(ground: Ground, chance: random.Random) -> Result:
    """An output that is an input, contains one or belongs to one: refused, and every input is as it was."""
    assert ground.lines
    place = ground.place()
    shutil.copytree(ground.twin, place / "bench")
    shutil.copytree(ground.folder / "peace", place / "runs")
    shutil.copy(ground.videos[0], place / "film.mp4")
    (place / "film.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nwords\n")
    inputs = {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}
    owned = [path for path in inputs if path.parent.name in {"bench", "runs"}]
    saved = ("ask", place / "film.mp4", "Who?", "-o", "a", "-o", "b", "--backbone", "lab", "--save")
    work = chance.choice(
        [
            *(
                ("audit", place / "bench", place / "runs", f"--{form}", chance.choice(owned))
                for form in ("json", "csv")
            ),
            ("run", place / "bench", "--method", "uniform-8", "--backbone", "lab", "--out", place / "bench"),
            ("frames", place / "film.mp4", "--at", "1", place),
            *((*saved, place / name) for name in ("film.mp4", "film.srt", "film.en.vtt")),
        ]
    )
    ended = in_child(command(*work))
    changed = [path.name for path, data in inputs.items() if not path.is_file() or path.read_bytes() != data]
    return lost(f"{work}: {changed} changed\n{ended.text}") if changed else ended.result


def clock_jumps(ground: Ground, chance: random.Random) -> Result:
    """A run while the clock jumps by years, forwards and back."""
    out = ground.place() / "runs"
    true_time = time.time
    draw = chance.random() * 1e9

    def jumping() -> float:
        return true_time() + (draw if int(true_time() * 50) % 2 else -draw)

    def work() -> None:
        time.time = jumping
        ground.run(out)

    ended = in_child(work)
    if ended.status != 0:
        return lost(f"status {ended.status}\n{ended.text}")
    return SURVIVED if lines_of(out) == ground.lines else lost("other lines than an undisturbed run")


def _writing_commands(ground: Ground, place: Path) -> list[tuple[object, ...]]:
    """Commands of which each writes below the place."""
    assert ground.lines
    runs = ground.folder / "peace"
    return [
        ("audit", ground.twin, runs, "--json", place / "audit.json"),
        ("audit", ground.twin, runs, "--csv", place / "audit.csv"),
        ("audit", ground.twin, runs, "--markdown", place / "audit.md"),
        ("frames", ground.videos[0], "--at", "1", place / "pictures"),
        ("synth", place / "twin", "--questions", "2", "--no-videos"),
        ("run", ground.twin, "--method", "uniform-8", "--backbone", "lab", "--out", place / "runs"),
    ]


def _limited(work: Callable[[], None], limit: int) -> Callable[[], None]:
    """The work, in a process none of whose files may grow beyond this; its caches neither."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        work()

    return limited
