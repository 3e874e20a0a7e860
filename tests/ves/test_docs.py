"""The commands on the audit page, and those of the audit on the page of measurements, print what the pages show."""

import json
import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import program

from trace_ves.twin.synthetic.bench import make_twin, write_twin

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


def run_line(line: str, place: Path) -> tuple[int, str]:
    """Run a line of the page: `[cd FOLDER &&] trace-ves … [| head -n N] [> FILE]`; its status and output."""
    folder, line = re.fullmatch(r"(?:cd (\S+) && )?(.*)", line).groups()  # type: ignore[union-attr]
    line, _, file = line.partition(" > ")
    command, *filters = line.split(" | ")
    done = program.run(*shlex.split(command)[1:], cwd=place / (folder or ""))
    lines = done.stdout.splitlines(keepends=True)
    for name, _, count in map(str.split, filters):
        lines = lines[: int(count)] if name == "head" else lines[-int(count) :]
    return done.returncode, done.stderr + ("" if file else "".join(lines))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[-2][:40])
def test_commands_print_what_the_page_shows(block: Any, place: Any, request: pytest.FixtureRequest) -> None:
    if any(name in block for name in REAL_FILES):
        annotations = request.getfixturevalue("shared") / "annotations"
        for name in REAL_FILES:
            (place / name).symlink_to(annotations / name)
    for command, expected in steps(block):
        if command.startswith("pip "):
            continue
        status, printed = run_line(command, place)
        # A command without its output on the page is there for what it leaves behind.
        assert status == 0 or expected, printed
        assert without_version(printed) == without_version(expected) or not expected


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


def test_tables_of_the_first_questions_are_of_those_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    write_twin(tmp_path / "twin", make_twin(6, 3), videos=False)
    words = ["tables.py", tmp_path / "twin", "--backbone", "lab", "--out", tmp_path / "out", "--limit", 3]
    monkeypatch.setattr("trace_ves.ves.figures.METADATA", {"svg": {}})  # the others take longer
    monkeypatch.setattr(sys, "argv", [*map(str, words), "--methods", "uniform-16,uniform-32", "--workers", "1"])
    assert runpy.run_path(str(ROOT / "tools/tables.py"))["main"]() == 0
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["bench"]["questions"] == 3
    assert (tmp_path / "out" / "figures" / "k-sweep.svg").exists()
