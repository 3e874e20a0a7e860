"""The command line as a person runs it: its output and its exit status."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from trace_ves.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[..., "Done"]


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run `trace-ves` in this process. What depends on how a process starts or ends is in test_process.py."""

    def run(*arguments: object, stdin: str | bytes = "", **environment: str) -> Done:
        typed = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8"))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        code = caught.value.code
        assert isinstance(code, int)
        return Done(code, *capsys.readouterr())

    return run
