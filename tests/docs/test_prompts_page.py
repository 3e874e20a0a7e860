"""The page of prompts says what the prompt files say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_files_are() -> None:
    spec = importlib.util.spec_from_file_location("prompts_page", ROOT / "tools" / "prompts_page.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert (ROOT / "docs" / "prompts.md").read_text(encoding="utf-8") == tool.page()
