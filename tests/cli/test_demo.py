"""`trace-ves demo` on a world of two questions."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call

from trace_ves import Results, evaluate


def evaluate_with(other: str, bench: Any, methods: Any, backbone: str, **options: Any) -> Results:
    assert backbone == "glance"
    return evaluate(bench, methods, other, **options)


def test_it_shows_every_method_beside_the_paper_and_where_to_look_and_asks_nothing_again(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Path] = []
    quickly = partial(evaluate_with, "lab")  # answers like glance, from the same world, without looking at pictures
    monkeypatch.setattr("trace_ves.runs.evaluate.evaluate", quickly)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("trace_ves.ves.figures.draw_figures", lambda _report, _items, folder: drawn.append(folder))
    first = cli("demo", "--questions", 2, "--seed", 44).stdout
    before = {file.name: file.read_bytes() for file in Path("demo/runs").glob("*.jsonl")}
    assert cli("demo", "--questions", 2, "--seed", 44).stdout == first
    assert {file.name: file.read_bytes() for file in Path("demo/runs").glob("*.jsonl")} == before
    for method in ("blind", "uniform-32", "uniform-128", "vca", "avp", "trace"):
        assert re.search(rf"^{method} .* / ", first, re.MULTILINE), method
    assert re.findall(r"^\d/4  \w+ \w+", first, re.MULTILINE) == [
        *("1/4  generating a", "2/4  6 methods", "3/4  the audit", "4/4  figures and")
    ]
    assert "ours / the paper's" in first
    assert "glance is a small stand-in" in " ".join(first.split())
    assert f"file://{tmp_path}/demo/story.html" in first
    assert "<svg" in Path("demo/story.html").read_text(encoding="utf-8")
    assert drawn == [Path("demo/figures")] * 2
