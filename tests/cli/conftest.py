"""The command line as a person runs it: a process, its output, its exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests import program

from trace_ves.cli import main

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run `trace-ves` in this process: exit status, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        code = caught.value.code
        assert isinstance(code, int)
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def trace_ves() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `trace-ves` in a process of its own."""
    return program.run
