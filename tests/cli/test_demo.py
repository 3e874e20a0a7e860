"""`trace-ves demo` on a world of two questions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests import program


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo")
    done = program.run("demo", "--questions", 2, "--seed", 3, cwd=folder, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder / "demo", done.stdout


def test_it_shows_every_method_beside_the_paper_what_glance_is_and_where_to_look(demo: tuple[Path, str]) -> None:
    folder, printed = demo
    for method in ("blind", "uniform-32", "uniform-128", "vca", "avp", "trace"):
        assert re.search(rf"^{method} .* / ", printed, re.MULTILINE), method
    assert "ours / the paper's" in printed
    assert "glance is a small stand-in" in " ".join(printed.split())
    story = re.search(r"file://(\S+story\.html)", printed)
    assert story is not None
    assert Path(story[1]) == folder / "story.html"
    assert "<svg" in (folder / "story.html").read_text(encoding="utf-8")
    assert {"frontier.png", "frontier.svg", "buckets.png", "bench.png"} <= {
        f.name for f in (folder / "figures").iterdir()
    }


def test_again_it_asks_nothing_again(demo: tuple[Path, str]) -> None:
    folder, printed = demo
    before = {file.name: file.read_bytes() for file in (folder / "runs").glob("*.jsonl")}
    done = program.run("demo", "--questions", 2, "--seed", 3, cwd=folder.parent, timeout=600)
    assert done.returncode == 0, done.stderr
    assert {file.name: file.read_bytes() for file in (folder / "runs").glob("*.jsonl")} == before
    table = re.search(r"Main audit.*?backbone named above", printed, re.DOTALL)
    assert table is not None
    assert table[0] in done.stdout
