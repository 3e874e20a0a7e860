"""The notebooks of the docs run from the first cell to the last, and are kept without outputs."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nbclient", reason="needs the environment of tools/test_integrations.sh")

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SHOWN = {
    "ask": ("text/html", "data:image/jpeg;base64,"),
    "audit": ("text/html", "ECA@k"),
    "own_method": ("text/html", "first-and-last"),
}
"""What the last cell that shows a page shows, in part."""


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def test_every_notebook_is_run_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == set(SHOWN)


@pytest.mark.filterwarnings("default")  # of the kernel's own packages
@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_runs_to_its_end(name: str, twin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert outputs(notebook) == []
    shutil.copytree(EXAMPLES / "audit", tmp_path / "audit")
    shutil.copytree(twin, tmp_path / "twin")  # what is drawn already is not drawn again
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    client = NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    client.execute()
    kind, words = SHOWN[name]
    assert any(words in output.get("data", {}).get(kind, "") for output in outputs(notebook))
    assert not [output for output in outputs(notebook) if output.output_type == "error"]
    nbformat.write(notebook, tmp_path / "run.ipynb")
    assert (tmp_path / "run.ipynb").stat().st_size < 500_000
