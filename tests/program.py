"""`trace-ves` in the process of the test: to import it anew takes most of a test.

What depends on how Python starts, on signals or on the console is tested with real starts, as in cli/test_process.py.
"""

import io
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trace_ves.cli import main


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object, stdin: str | bytes = "", cwd: Path | None = None, **environment: str) -> Done:
    """Run `trace-ves` with these arguments; modules of the working folder are forgotten afterwards."""
    typed = stdin.encode() if isinstance(stdin, str) else stdin
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for name in ("stdout", "stderr")}
    known = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd or Path.cwd())
        patch.setattr(sys, "path", [*sys.path])
        for name, stream in {**streams, "stdin": io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8")}.items():
            patch.setattr(sys, name, stream)
        for name, value in environment.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as caught:
            main([str(each) for each in arguments])
        for name in set(sys.modules) - known:
            if Path.cwd() == Path(getattr(sys.modules[name], "__file__", None) or "/").parent:
                del sys.modules[name]
    assert isinstance(caught.value.code, int)
    return Done(caught.value.code, *map(_text, streams.values()))


def _text(stream: Any) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8")
