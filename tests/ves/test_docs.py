"""The commands on the audit page, and those of the audit on the page of measurements, print what the pages show."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
MEASURED = (ROOT / "docs/measurements.md").read_text(encoding="utf-8").partition("\n## Video")[0]
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE + MEASURED, flags=re.DOTALL)
REAL_FILES = ("cgbench_mini.json", "nextgqa_val.csv", "nextgqa_val.json")


def steps(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with the output that the page shows."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def without_version(text: str) -> str:
    return re.sub(r"version:\S+", "version:", text.strip())


@pytest.fixture
def place(tmp_path: Path):
    """A folder that looks like the root of a checkout, where commands may leave files."""
    folder = tmp_path / "docs/examples/audit"
    folder.mkdir(parents=True)
    for file in (ROOT / "docs/examples/audit").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return tmp_path


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[-2][:40])
def test_commands_print_what_the_page_shows(block: Any, place: Any, request: pytest.FixtureRequest) -> None:
    if any(name in block for name in REAL_FILES):
        annotations = request.getfixturevalue("shared") / "annotations"
        for name in REAL_FILES:
            (place / name).symlink_to(annotations / name)
    search_path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # A page shows what a terminal would: warnings and results in the order in which they were printed.
    environment = os.environ | {"PATH": search_path, "PYTHONUNBUFFERED": "1"}
    for command, expected in steps(block):
        if command.startswith("pip "):
            continue
        result = subprocess.run(
            command,
            shell=True,
            cwd=place,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        # A command without its output on the page is there for what it leaves behind.
        assert result.returncode == 0 or expected, result.stdout
        assert without_version(result.stdout) == without_version(expected) or not expected


def test_the_python_of_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    for code in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(code, "docs/audit.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "always A" in printed
    assert "AuditRow(question_id='q01'" in printed


def test_the_table_of_benchmarks_is_what_its_tool_prints(shared: Path) -> None:
    tool = runpy.run_path(str(ROOT / "tools/demand.py"))
    folders = {"ReXTime val": [shared / "annotations"], "EG-VQA test": [ROOT]}
    lines = [tool["measure"](source, folders[source.title]) for source in tool["SOURCES"] if source.title in folders]
    assert len(lines) == 2
    assert [line for line in lines if line not in MEASURED] == []
