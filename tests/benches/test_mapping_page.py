"""The commands about mapping files print what the page of formats shows, and it shows the example mappings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)[1:]
REAL_FILES = ("cgbench_mini.json", "avp_eval_lvbench.json")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    return tmp_path


def shown(block: str, place: Path) -> tuple[str, str]:
    """What a block's command prints here, and what the page says."""
    [(command, expected)] = re.findall(r"\A\$ ([^\n]*)\n(.*)\Z", block, flags=re.DOTALL)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, shell=True, cwd=place, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout + done.stderr, expected


@pytest.mark.parametrize("number", [0, 1])
def test_real_files_come_in_as_the_page_says(number: int, place: Path, shared: Path) -> None:
    for name in REAL_FILES:
        (place / name).symlink_to(shared / "annotations" / name)
    printed, expected = shown(BLOCKS[number], place)
    assert printed == expected


def test_the_table_of_moments_and_its_videos_are_as_the_page_says(place: Path) -> None:
    assert len(BLOCKS) == 4
    for block in BLOCKS[2:]:
        printed, expected = shown(block, place)
        assert printed == expected


@pytest.mark.parametrize("name", ["cg-bench", "lvbench", "moments"])
def test_the_page_shows_the_mappings_as_they_are(name: str) -> None:
    text = (ROOT / "docs" / "examples" / "mapping" / f"{name}.toml").read_text(encoding="utf-8")
    _, mapping = text.split("\n", 1)  # the first line says what it is
    assert f"```toml\n{mapping}```" in PAGE
