"""A bench of real little videos, and backbones by name that answer by rule, slowly, badly, or not at all."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.films import write_film
from trace_ves.benches import Bench, load_bench, write_bench
from trace_ves.core import Interval, Question
from trace_ves.records import Item

MODELS = '''
"""Backbones for the tests of runs; each is named on the command line as models:NAME."""
import hashlib, os, signal, time
from pathlib import Path
from trace_ves.backbone.protocol import Generation, ModelFault
from trace_ves.core import BackboneError
from trace_ves.records import Usage

class Steady:
    """Answers by a rule of the question and the frames, so that two runs can be compared."""
    name = "models:Steady"
    def generate(self, batch):
        return [self.answer(request) for request in batch]
    def answer(self, request):
        if set(request.reply.model_fields) != {"answer"}:
            return Generation(ModelFault("this model only answers"), Usage(10, 0, 1))
        seen = [frame.seconds for clip in request.clips for frame in clip.frames]
        letters = list(request.variables["options"])
        rule = hashlib.sha256(repr((request.stage, request.variables["question"], seen)).encode()).digest()[0]
        reply = request.reply(answer=letters[rule % len(letters)])
        return Generation(reply, Usage(100 * len(seen), 10 * len(seen), 5))

class Slow(Steady):
    name = "models:Slow"
    def generate(self, batch):
        time.sleep(float(os.environ.get("MODEL_SECONDS", "0.05")))
        return super().generate(batch)

class Held(Steady):
    """Waits before the third question until the file `go` is there."""
    name = "models:Held"
    def generate(self, batch):
        number = int(batch[0].variables["question"].split("#")[1])
        while number >= 2 and not Path("go").exists():
            time.sleep(0.02)
        return super().generate(batch)

class Failing(Steady):
    """Fails on every third question until the file `mended` is there."""
    name = "models:Failing"
    def answer(self, request):
        number = int(request.variables["question"].split("#")[1])
        if number % 3 == 0 and not Path("mended").exists():
            raise BackboneError("the service is down")
        if number % 3 == 1 and not Path("mended").exists():
            raise RuntimeError("a bug")
        return super().answer(request)

class Deadly(Steady):
    """Kills its own process once, in the middle of question 5, and notes how its cluster is closed to others."""
    name = "models:Deadly"
    def answer(self, request):
        if "#5" in request.variables["question"] and not Path("killed").exists():
            import ray
            mode, token = os.environ.get("RAY_AUTH_MODE"), os.environ.get("RAY_AUTH_TOKEN", "")
            Path("killed").write_text(f"{ray.get_runtime_context().gcs_address} {mode} {len(token)}")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().answer(request)

def first_letter(question, observer):
    from trace_ves.core import Answer
    return Answer("A")

def liar(question, observer):
    from trace_ves.core import Answer
    return {"q00": "A", "q01": Answer("Z"), "q02": Answer(3)}.get(question.id, Answer(None))
'''


@pytest.fixture(scope="session")
def bench_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve questions on three videos of a minute."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "videos").mkdir()
    for name in ("a", "b", "c"):
        write_film(folder / "videos" / f"{name}.mp4", (n % 200 for n in range(5 * 60)), fps=5)
    evidence = (Interval(5, 10), Interval(30, 42))
    items = []
    for n in range(12):
        question = Question(f"q{n:02d}", f"videos/{'abc'[n % 3]}.mp4", f"Which? #{n}", ("w", "x", "y", "z"))
        items.append(Item(question, "ABCD"[n % 4], evidence, 60.0))
    write_bench(items, folder)
    return folder


@pytest.fixture
def bench(bench_folder: Path) -> Bench:
    return load_bench(bench_folder)


@contextmanager
def models_in(folder: Path) -> Iterator[None]:
    """Work in a folder with `models.py` in it."""
    (folder / "models.py").write_text(MODELS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        patch.delitem(sys.modules, "models", raising=False)
        yield


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Path]:
    """A working folder with `models.py` in it."""
    with models_in(tmp_path):
        yield tmp_path


@pytest.fixture(scope="session")
def ray_folder() -> Iterator[Path]:
    """Ray's own temporary folder, beside no other cluster's files; its sockets need a short name."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def command(workplace: Path, ray_folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`trace-ves …` in a process of its own, in the working folder."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "trace_ves", *map(str, arguments)]
        env = os.environ | {"RAY_TMPDIR": str(ray_folder)} | environment
        pipe = subprocess.PIPE
        process = subprocess.Popen(words, cwd=workplace, env=env, stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        with process:  # closes its pipes
            process.kill()
