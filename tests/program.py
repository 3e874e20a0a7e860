"""`trace-ves` in a process of its own, forked from one that has imported it: to import it anew takes most of a test.

What depends on how Python starts, on signals or on the console is tested with real starts, as in cli/test_process.py.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import NoReturn

IMPORTED = ["trace_ves.cli.main", "trace_ves.cli.ask", "trace_ves.agent", "trace_ves.video.video", "openai"]

ROOT = str(Path(__file__).parents[1])
if ROOT not in sys.path:
    sys.path.append(ROOT)  # where the forked process finds this module

_SERVER: ForkServerContext = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(IMPORTED)


def run(
    *arguments: object, stdin: str = "", cwd: Path | None = None, timeout: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `trace-ves` with these arguments, as `subprocess.run` would."""
    words = [str(each) for each in arguments]
    with tempfile.TemporaryDirectory() as folder:
        streams = Path(folder)
        (streams / "stdin").write_text(stdin, encoding="utf-8")
        process = _SERVER.Process(target=_program, args=(words, folder, cwd or Path.cwd(), os.environ | environment))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, timeout)
        said = [(streams / name).read_text(encoding="utf-8") for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(words, process.exitcode, *said)


def _program(words: list[str], streams: str, cwd: Path, environment: dict[str, str]) -> NoReturn:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.dup2(os.open(Path(streams, name), os.O_RDWR | os.O_CREAT, 0o600), number)
        setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))
    sys.argv = ["trace-ves", *words]
    from trace_ves.cli.main import main

    main()
    raise SystemExit(0)
