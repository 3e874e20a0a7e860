"""`tools/tables.py` on the first questions of a bench: every table and figure is of those alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests import program

pytest.importorskip("matplotlib")

TOOL = Path(__file__).parents[2] / "tools" / "tables.py"


def test_tables_of_the_first_questions(tmp_path: Path) -> None:
    made = program.run("synth", tmp_path / "twin", "--questions", 6, "--seed", 3, "--no-videos")
    assert made.returncode == 0, made.stderr
    arguments = [tmp_path / "twin", "--backbone", "lab", "--out", tmp_path / "out", "--limit", 3]
    words = map(str, [TOOL, *arguments, "--methods", "uniform-16,uniform-32", "--workers", 1])
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["bench"]["questions"] == 3
    assert (tmp_path / "out" / "figures" / "k-sweep.png").exists()
