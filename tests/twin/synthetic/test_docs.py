"""docs/synthetic.md shows what the tools print and counts what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from trace_ves.twin.synthetic.vocabulary import vocabulary

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/synthetic.md").read_text(encoding="utf-8")


def test_the_layout_table_is_what_the_tool_prints() -> None:
    shown = re.search(r"^\$ python (tools/layout_table\.py .*)\n((?:.*\n)*?)```", PAGE, re.MULTILINE)
    assert shown is not None
    printed = subprocess.run(
        [sys.executable, *shown[1].split()], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert shown[2].strip() == printed.strip()


def test_the_vocabulary_is_counted_right() -> None:
    words = vocabulary()
    counts = f"{len(words.events)} events with the words for them, {len(words.lookalikes)} look-alikes"
    assert counts in PAGE
    assert f"{len(words.props)} props, {len(words.scenes)} scenes" in " ".join(PAGE.split())
