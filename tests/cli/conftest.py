"""The command line as a person runs it: a process, its output, its exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests import program

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable


@pytest.fixture
def trace_ves() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `trace-ves` in a process of its own."""
    return program.run
