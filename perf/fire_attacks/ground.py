"""What every attack needs: outcomes, children that may die or hang, and the files they are let loose on."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import struct
import sys
import time
import traceback
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

METHODS = "uniform-8,trace"
QUESTIONS = 8


class Outcome(StrEnum):
    """How an attack ended."""

    SURVIVED = "survived"
    """As if nothing had happened, or as a sequential reader of the damaged file would have it."""
    SENTENCE = "clear sentence"
    """Refused with one sentence, nothing lost."""
    LOST = "lost"
    """Something finished is gone or wrong, or the end was a traceback, a crash or a hang."""


@dataclass(frozen=True)
class Result:
    """An outcome, and what to know about it where something was lost."""

    outcome: Outcome
    note: str = ""


SURVIVED = Result(Outcome.SURVIVED)
SENTENCE = Result(Outcome.SENTENCE)


def lost(note: str) -> Result:
    """The attack won."""
    return Result(Outcome.LOST, note[-1500:])


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit status (minus the signal's number where one killed it), and what it wrote."""

    status: int
    text: str
    hung: bool = False

    @property
    def result(self) -> Result:
        """What that means for an attack that only had to end well."""
        if self.hung:
            return lost(f"still running at the deadline\n{self.text}")
        if self.status == 0:
            return SURVIVED
        return SENTENCE if self.status == 2 and _is_sentence(self.text) else lost(f"status {self.status}\n{self.text}")


def _is_sentence(text: str) -> bool:
    return "Traceback" not in text and 0 < len(text.strip().splitlines()) <= 12


def in_child(
    work: Callable[[], Any], *, deadline_seconds: float = 60, watch: Callable[[int], None] | None = None
) -> Ended:
    """Run this in a fork of the process; `watch` gets its process id and may kill it.

    A `TraceVesError` ends the child with status 2 and its sentence, any other exception with 1 and the traceback.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_the_child(work, writing)
    os.close(writing)
    if watch is not None:
        watch(child)
    text, hung = _read_until_end(reading, child, time.monotonic() + deadline_seconds)
    _, status = os.waitpid(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), text, hung)


def _be_the_child(work: Callable[[], Any], writing: int) -> None:
    from trace_ves.core import TraceVesError

    os.dup2(writing, 1)
    os.dup2(writing, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    status = 1
    try:
        work()
        status = 0
    except TraceVesError as error:
        os.write(2, f"trace-ves: {error}\n".encode())
        status = 2
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001  whatever it is, the parent sees it
        os.write(2, traceback.format_exc().encode())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)


def _read_until_end(reading: int, child: int, deadline: float) -> tuple[str, bool]:
    """All that the child writes; at the deadline it is killed."""
    parts: list[bytes] = []
    hung = False
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            hung = True
            os.kill(child, signal.SIGKILL)
            deadline = time.monotonic() + 5
            continue
        data = os.read(reading, 65536)
        if not data:
            break
        parts.append(data)
    os.close(reading)
    return b"".join(parts).decode(errors="replace"), hung


def command(*arguments: object) -> Callable[[], None]:
    """The command line, for a child."""

    def work() -> None:
        from trace_ves.cli.main import main

        main([str(argument) for argument in arguments])

    return work


@dataclass
class Ground:
    """Files to attack, made once, and a place for each attack."""

    folder: Path

    def warm_up(self) -> None:
        """Import what the attacks use, once for all children; without rights they could not even read it."""
        import importlib
        import pkgutil

        import trace_ves
        from trace_ves.cli.main import COMMANDS, main

        for module in pkgutil.walk_packages(trace_ves.__path__, "trace_ves."):
            if not module.name.endswith("__main__"):
                with suppress(ImportError):  # an extra that is not installed
                    importlib.import_module(module.name)
        assert COMMANDS
        assert self.lines
        for arguments in (
            ["audit", str(self.twin), str(self.folder / "peace"), "--json", str(self.folder / "warm.json")],
            ["frames", str(self.videos[0]), "--at", "1", str(self.folder / "warm")],
        ):
            with suppress(SystemExit), open(os.devnull, "w") as nothing, redirect_stdout(nothing):  # noqa: PTH123
                main(arguments)

    def place(self) -> Path:
        """An empty folder."""
        path = self.folder / "here"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    @cached_property
    def twin(self) -> Path:
        """A bench whose videos were never drawn, for `lab`."""
        from trace_ves.twin.synthetic.bench import make_twin, write_twin

        write_twin(self.folder / "twin", make_twin(QUESTIONS, 3), videos=False)
        return self.folder / "twin"

    def run(self, out: Path) -> None:
        """A run over that bench; continues what is there."""
        from trace_ves import evaluate

        evaluate(self.twin, METHODS, "lab", out=out, workers=2)

    @cached_property
    def lines(self) -> dict[str, dict[str, Any]]:
        """The lines of an undisturbed run."""
        out = self.folder / "peace"
        ended = in_child(lambda: self.run(out))
        assert ended.status == 0, ended.text
        return lines_of(out)

    @cached_property
    def drawn(self) -> Path:
        """A small bench with one real video, and a run on it."""
        from trace_ves.benches import write_bench
        from trace_ves.core import Interval, Question
        from trace_ves.records import Item

        folder = self.folder / "drawn"
        folder.mkdir()
        shutil.copy(self.videos[0], folder / "film.mp4")
        question = Question("q1", "film.mp4", "When?", ("now", "then"))
        write_bench([Item(question, "A", (Interval(0.5, 1.5),), 2.5)], folder)
        return folder

    @cached_property
    def videos(self) -> list[Path]:
        """Small videos of several kinds."""
        folder = self.folder / "videos"
        folder.mkdir()
        recipes = {
            "h264.mp4": ("libx264", {"x264-params": "keyint=12:bframes=2:threads=1"}),
            "h264.mkv": ("libx264", {"x264-params": "keyint=12:bframes=2:open-gop=1:threads=1"}),
            "cavlc.mp4": ("libx264", {"x264-params": "keyint=12:bframes=0:cabac=0:threads=1"}),
            "h264.ts": ("libx264", {"x264-params": "keyint=12:bframes=2:threads=1"}),
            "raw.h264": ("libx264", {"x264-params": "keyint=12:bframes=2:threads=1"}),
            "mpeg4.avi": ("mpeg4", {"g": "12", "bf": "2"}),
            "mpeg2.mpg": ("mpeg2video", {"g": "12", "bf": "2"}),
            "vp8.webm": ("libvpx", {"g": "12", "cpu-used": "8", "deadline": "realtime"}),
            "magicyuv.avi": ("magicyuv", {}),
            "msmpeg4.avi": ("msmpeg4", {"g": "12"}),
            "box.apng": ("apng", {"pred": "mixed"}),
            "box.gif": ("gif", {}),
            "exif.avi": ("mjpeg", {}),
        }
        for name, (codec, options) in recipes.items():
            ended = in_child(lambda name=name, codec=codec, options=options: _encode(folder / name, codec, options))
            assert ended.status == 0, ended.text
        return sorted(folder.iterdir())


def lines_of(out: Path) -> dict[str, dict[str, Any]]:
    """Every line of the run files of a folder, without the time it took; a part of a line counts as none."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(out.glob("*.jsonl")):
        for text in path.read_bytes().split(b"\n")[:-1]:
            line = json.loads(text)
            key = f"{path.stem}/{line['question_id']}"
            assert key not in found, f"{key} twice"
            found[key] = _timeless(line)
    return found


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(part) for key, part in value.items() if key != "seconds"}
    return [_timeless(part) for part in value] if isinstance(value, list) else value


def _encode(path: Path, codec: str, options: dict[str, str]) -> None:
    import av

    with av.open(str(path), "w", options={"movflags": "faststart"} if path.suffix == ".mp4" else {}) as container:
        stream = container.add_stream(codec, rate=30, options=options)
        pixels = {"apng": "rgb24", "gif": "rgb8", "mjpeg": "yuvj420p"}.get(codec, "yuv420p")
        stream.width, stream.height, stream.pix_fmt = 96, 64, pixels
        stream.codec_context.thread_count = 1
        noise = np.random.default_rng(7).integers(0, 255, (64, 96, 3), dtype=np.uint8)
        for number in range(75):
            frame = av.VideoFrame.from_ndarray(np.roll(noise, 3 * number, axis=1), format="rgb24")
            if codec in {"apng", "gif"}:  # frames that are drawn on the one before them
                still = noise.copy()
                still[20:40, number : number + 20] = 255
                frame = av.VideoFrame.from_ndarray(still, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 30)
            container.mux([_turned(packet) if codec == "mjpeg" else packet for packet in stream.encode(frame)])
        container.mux(stream.encode(None))


def _turned(packet: Any) -> Any:
    """A JPEG with an EXIF orientation, which decoders give as side data that PyAV has no name for."""
    import av

    exif = b"Exif\0\0II*\0" + struct.pack("<IHHHIHH", 8, 1, 0x112, 3, 1, 3, 0) + bytes(4)
    data = bytes(packet)
    made = av.Packet(data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:])
    made.stream, made.pts, made.dts, made.time_base = packet.stream, packet.pts, packet.dts, packet.time_base
    made.duration, made.is_keyframe = packet.duration, True
    return made


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The bytes with one kind of damage: flipped, zeroed, cut, doubled or swapped; text gets nasty values too."""
    changed = bytearray(data)
    at = chance.randrange(len(changed))
    length = min(chance.choice((1, 4, 32, 512, 8192)), len(changed) - at)
    kind = chance.randrange(7)
    if kind == 0:
        for _ in range(chance.choice((1, 8, 100))):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    elif kind == 1:
        changed[at : at + length] = bytes(length)
    elif kind == 2:
        del changed[at:]
    elif kind == 3:
        del changed[at : at + length]
    elif kind == 4:
        changed[at:at] = changed[at : at + length]
    elif kind == 5:
        changed[at : at + length] = chance.randbytes(length)
    else:
        changed[at : at + length] = _nasty(chance)
    return bytes(changed)


def _nasty(chance: random.Random) -> bytes:
    values: Sequence[bytes] = (
        b"NaN",
        b"-1e999",
        b"9" * 400,
        b"null",
        b'"\\ud800"',
        b"[[[[[[[[",
        b"{}",
        b"\xff\xfe",
        b'"a": 1, "a": 2',
        b"\x00",
        b"1e-400",
        b"true",
    )
    return chance.choice(values)
