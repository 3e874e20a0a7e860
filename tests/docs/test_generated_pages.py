"""What the docs site generates lists every command, every prompt and every public name."""

import runpy
from types import SimpleNamespace

import pytest

import trace_ves
from tests.docs import ROOT
from trace_ves.cli.main import group


@pytest.fixture(scope="module")
def pages():
    return SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "docs_pages.py")))


def test_every_prompt_is_shown(pages) -> None:
    prompts = [*(ROOT / "src/trace_ves").glob("*/prompts/*.md")]
    assert len(prompts) > 15
    page = pages.prompts()
    assert not [file for file in prompts if file.read_text(encoding="utf-8").rstrip() not in page]


def test_every_command_and_public_name_is_shown(pages) -> None:
    commands = pages.commands()
    assert all(f"## trace-ves {name}\n" in commands for name in group.list_commands(None))
    names = pages.python()
    public = {name for name in trace_ves.__all__ if not name.startswith("_")} - {"R"}  # a type variable
    assert not [name for name in public if f"heading: {name}," not in names]
