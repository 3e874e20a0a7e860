"""`tools/tables.py` on the first questions of a bench: every table and figure is of those alone."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from trace_ves.twin.synthetic.bench import make_twin, write_twin

pytest.importorskip("matplotlib")

TOOL = Path(__file__).parents[2] / "tools" / "tables.py"


def test_tables_of_the_first_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_twin(tmp_path / "twin", make_twin(6, 3), videos=False)
    words = ["tables.py", tmp_path / "twin", "--backbone", "lab", "--out", tmp_path / "out", "--limit", 3]
    monkeypatch.setattr("trace_ves.ves.figures.METADATA", {"svg": {}})  # the others take longer
    monkeypatch.setattr(sys, "argv", [*map(str, words), "--methods", "uniform-16,uniform-32", "--workers", "1"])
    assert runpy.run_path(str(TOOL))["main"]() == 0
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["bench"]["questions"] == 3
    assert (tmp_path / "out" / "figures" / "k-sweep.svg").exists()
