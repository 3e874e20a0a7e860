"""The command line as a person runs it: a process, its output, its exit status."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def trace_ves() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `trace-ves` in a process of its own."""

    def run(*arguments: object, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        import os

        return subprocess.run(
            [sys.executable, "-m", "trace_ves", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            env=os.environ | environment,
            check=False,
        )

    return run
