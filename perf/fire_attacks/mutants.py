"""Files with something wrong in them: frames, rows or a sentence; never a crash, a hang or a wrong answer."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fire_attacks.ground import SENTENCE, SURVIVED, Ended, Outcome, Result, in_child, lines_of, lost, mutated

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from fire_attacks.ground import Ground
    from trace_ves.video import Video

AT_ONCE = 20
"""Mutants that one child looks at; a fork for each would cost more than the mutant."""
INTACT = 0.05
"""The share of videos that are left as they are: they too have the pictures of a sequential decode."""


def videos(ground: Ground, chance: random.Random) -> list[Result]:
    """Open a damaged video and ask for frames, in one request and one by one: the same pictures."""
    seeds = [chance.randrange(2**31) for _ in range(AT_ONCE)]
    return _many(ground, seeds, _look_at_video, deadline_seconds=600)


def _look_at_video(ground: Ground, chance: random.Random) -> str | None:
    from trace_ves import video
    from trace_ves.core import VideoError

    source = chance.choice(ground.videos)
    path = ground.folder / f"mutant-{os.getpid()}{source.suffix}"
    is_intact = chance.random() < INTACT
    path.write_bytes(source.read_bytes() if is_intact else mutated(source.read_bytes(), chance))
    try:
        with video.open(path, deadline_seconds=20) as opened:
            moments = [opened.duration * chance.random() for _ in range(5)]
            together = opened.frames_at(moments, height=32)
            if len(together) != len(moments):
                return "fewer frames than moments"
            if any(frame.seconds > moment + 1e-6 for frame, moment in zip(together, moments, strict=True)):
                return "a frame from the future"
            return _compare(opened, chance)
    except VideoError as error:
        if "\n" in str(error) or not str(error).startswith(str(path)):
            return f"not a sentence: {error}"
        raise
    finally:
        path.unlink(missing_ok=True)


def _compare(opened: Video, chance: random.Random) -> str | None:
    """What is wrong without a warning: pictures decoded singly, together and in sequence must agree.

    After damage, FFmpeg's sequential decode may spoil intact pictures, so those of new decoders are accepted, too.
    """
    if opened.warnings:
        return None  # of the whole file
    times = [float(seconds) for seconds in opened.timestamps[:200]]
    alone = [opened.frames_at([seconds], height=32)[0] for seconds in chance.sample(times, min(3, len(times)))]
    found = {frame.seconds: frame for frame in opened.frames_at(times, height=32)}
    expected = _sequential(opened.path)
    if opened.warnings and opened.codec in {"msmpeg4v3", "vp8"}:  # exceptions in docs/reliability.md
        return None
    warned = {float(opened.timestamps[row]) for row in opened._damaged | opened._undecodable}
    alone = [frame for frame in alone if frame.seconds not in warned]
    found = {seconds: frame for seconds, frame in found.items() if seconds not in warned}
    if any(_luma(found[frame.seconds]) != _luma(frame) for frame in alone):
        return "a single frame differs from the batch, without a warning"
    shown = [found[seconds] for seconds in sorted(found)]
    in_order = [_luma(frame) for frame in shown] == [luma for _, luma in expected]
    by_time = dict(expected)
    by_new = dict(_sequential(opened.path, restart=True)) if warned else {}
    wrong = [
        frame.pts
        for frame in shown
        if _luma(frame) not in {by_time.get(frame.pts, _luma(frame)), by_new.get(frame.pts)}
    ]
    return f"no warning, but {wrong[:5]} are not as in a sequential decode" if wrong and not in_order else None


def _luma(frame: Any) -> bytes:
    return bytes(frame.picture.luma.tobytes())


def _sequential(path: Path, *, restart: bool = False) -> list[tuple[int | None, bytes]]:
    """Timestamps and pictures of a plain decode from the first packet on; packets with errors are skipped.

    With `restart`, each keyframe gets a new decoder.
    """
    import av

    from trace_ves.video.picture import Orientation, Scaler, orientation_of

    shown: list[tuple[int | None, bytes]] = []
    scaler: Scaler | None = None  # turns all frames like the first
    broken_off = (av.FFmpegError, OSError, IndexError)  # the last from PyAV, where damage makes a stream appear
    with suppress(*broken_off), av.open(str(path), metadata_errors="replace") as container:
        stream = container.streams.video[0]
        codec = stream.codec_context
        codec.thread_count = 1
        for packet in container.demux(stream):
            with suppress(av.FFmpegError):
                frames = []
                if restart and packet.is_keyframe:
                    frames = codec.decode(None) if codec.is_open else []
                    extradata = codec.extradata
                    codec = av.CodecContext.create(codec.codec, "r")
                    codec.extradata = extradata
                for frame in [*frames, *codec.decode(packet if packet.size else None)]:
                    scaler = scaler or Scaler(orientation_of(frame) or Orientation())
                    shown.append((frame.pts, bytes(scaler.picture(frame, 32).luma.tobytes())))
    return shown


def annotations(ground: Ground, chance: random.Random) -> list[Result]:
    """Read a damaged bench."""
    seeds = [chance.randrange(2**31) for _ in range(AT_ONCE)]
    return _many(ground, seeds, _read_bench, deadline_seconds=60)


def _read_bench(ground: Ground, chance: random.Random) -> str | None:
    from trace_ves.benches import load_bench

    path = ground.folder / f"mutant-{os.getpid()}.jsonl"
    path.write_bytes(mutated((ground.twin / "questions.jsonl").read_bytes(), chance))
    try:
        bench = load_bench(path)
        return None if len(bench.items) <= 2 * 8 else "more questions than there are"
    finally:
        path.unlink(missing_ok=True)


def run_files(ground: Ground, chance: random.Random) -> list[Result]:
    """Read and audit a damaged run."""
    assert ground.lines
    seeds = [chance.randrange(2**31) for _ in range(AT_ONCE)]
    return _many(ground, seeds, _audit_run, deadline_seconds=60)


def _audit_run(ground: Ground, chance: random.Random) -> str | None:
    from trace_ves.benches import load_bench
    from trace_ves.ves import audit, load_run

    path = ground.folder / f"mutant-{os.getpid()}.jsonl"
    source = chance.choice(sorted((ground.folder / "peace").glob("*.jsonl")))
    path.write_bytes(mutated(source.read_bytes(), chance))
    try:
        audit(load_bench(ground.twin).items, [load_run(path)])
        return None
    finally:
        path.unlink(missing_ok=True)


def continued_runs(ground: Ground, chance: random.Random) -> Result:
    """Continue a run whose file was cut at a random byte, as a kill leaves it: the lines of an undisturbed run."""
    assert ground.lines
    out = ground.place() / "runs"
    shutil.copytree(ground.folder / "peace", out)
    path = chance.choice(sorted(out.glob("*.jsonl")))
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])
    ended = in_child(lambda: ground.run(out))
    if ended.status != 0:
        return lost(f"status {ended.status}\n{ended.text}")
    return SURVIVED if lines_of(out) == ground.lines else lost("other lines than an undisturbed run")


def survey_caches(ground: Ground, chance: random.Random) -> Result:
    """Damage the stored survey of a video, and open it again: the same frames."""
    return _same_after_damage(ground, chance, _digest_of_video, "video-index/*")


def reply_caches(ground: Ground, chance: random.Random) -> Result:
    """Damage the stored replies, and ask again: the same reply."""
    return _same_after_damage(ground, chance, _ask_cached, "replies.sqlite*")


def _same_after_damage(ground: Ground, chance: random.Random, work: Callable[[Ground], None], pattern: str) -> Result:
    place = ground.place()
    os.environ["TRACE_VES_CACHE_DIR"] = str(place / "cache")
    try:
        before = in_child(lambda: work(ground))
        if before.status != 0:
            return lost(before.text)
        files = [path for path in (place / "cache").rglob(pattern) if path.is_file() and path.stat().st_size]
        if not files:
            return lost(f"nothing is stored under {pattern}")
        victim = chance.choice(sorted(files))
        victim.write_bytes(mutated(victim.read_bytes(), chance))
        after = in_child(lambda: work(ground))
    finally:
        os.environ["TRACE_VES_CACHE_DIR"] = str(ground.folder / "cache")
    if after.status == 0 and after.text.endswith(before.text):
        return SURVIVED if after.text == before.text else SENTENCE
    return after.result if after.status == 2 else lost(f"{before.text!r} became {after.text!r}")


def _digest_of_video(ground: Ground) -> None:
    import hashlib

    from trace_ves import video
    from trace_ves.video import video as implementation

    implementation._SLOW_SURVEY_SECONDS = 0.0  # type: ignore[misc]  small files are otherwise surveyed each time
    total = hashlib.sha256()
    for path in ground.videos:
        with video.open(path) as opened:
            for frame in opened.frames_at([0.1, 1.3, 0.7], height=32):
                total.update(frame.jpeg())
    os.write(1, total.hexdigest().encode())


def _ask_cached(_: Ground) -> None:
    from pydantic import BaseModel

    from trace_ves.backbone.protocol import Generation, Prompt, Request
    from trace_ves.backbone.registry import add_cache

    class Reply(BaseModel):
        answer: str

    class Says:
        name = "says"
        answer_settings = ()

        def generate_as_completed(self, batch: object) -> object:
            return enumerate(Generation(Reply(answer=request.variables["word"])) for request in batch)  # type: ignore[attr-defined]

    backbone = add_cache(Says())  # type: ignore[arg-type]
    batch = [Request(Prompt("say", "Say $word."), {"word": f"word {number}"}, Reply) for number in range(20)]
    found = [generation.reply for generation in backbone.generate(batch)]
    os.write(1, json.dumps([getattr(reply, "answer", repr(reply)) for reply in found]).encode())


def _many(
    ground: Ground, seeds: list[int], work: Callable[[Ground, random.Random], str | None], *, deadline_seconds: float
) -> list[Result]:
    """Several mutants in one child, which says after each how it went; if it dies, the next one continues after it."""
    import random as randomness

    from trace_ves.core import TraceVesError

    def look() -> None:
        for seed in seeds:
            os.write(1, f"\n@{seed} ".encode())
            try:
                wrong = work(ground, randomness.Random(seed))
            except TraceVesError:
                os.write(1, b"sentence")
            else:
                os.write(1, f"wrong {wrong}".encode() if wrong else b"fine")

    ended = in_child(look, deadline_seconds=deadline_seconds)
    results = [_result(line, ended) for line in ended.text.split("\n@")[1:]]
    if len(results) < len(seeds) and results:
        return results + _many(ground, seeds[len(results) :], work, deadline_seconds=deadline_seconds)
    return results or [Result(Outcome.LOST, ended.text)]


def _result(line: str, ended: Ended) -> Result:
    seed, _, said = line.partition(" ")
    if said == "fine":
        return SURVIVED
    if said == "sentence":
        return SENTENCE
    return lost(f"mutant {seed}: {said or f'status {ended.status}, hung: {ended.hung}'}")
