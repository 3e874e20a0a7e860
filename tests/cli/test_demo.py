"""`trace-ves demo` on a world of two questions."""

import re
from pathlib import Path

import pytest
from tests.cli.conftest import Call

from trace_ves.ves import figures


def test_it_shows_every_method_beside_the_paper_and_where_to_look_and_asks_nothing_again(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "draw_figures", lambda *_: None)  # they take long; the second time draws them
        first = cli("demo", "--questions", 2, "--seed", 3).stdout
    before = {file.name: file.read_bytes() for file in Path("demo/runs").glob("*.jsonl")}
    printed = cli("demo", "--questions", 2, "--seed", 3).stdout
    assert {file.name: file.read_bytes() for file in Path("demo/runs").glob("*.jsonl")} == before
    assert printed == first
    for method in ("blind", "uniform-32", "uniform-128", "vca", "avp", "trace"):
        assert re.search(rf"^{method} .* / ", printed, re.MULTILINE), method
    assert "ours / the paper's" in printed
    assert "glance is a small stand-in" in " ".join(printed.split())
    assert f"file://{tmp_path}/demo/story.html" in printed
    assert "<svg" in Path("demo/story.html").read_text(encoding="utf-8")
    drawn = {file.name for file in Path("demo/figures").iterdir()}
    assert {"frontier.png", "frontier.svg", "buckets.png", "bench.png"} <= drawn
