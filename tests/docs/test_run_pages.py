"""The code of docs/extend.md runs as it stands there, and docs/run.md names what there is."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from trace_ves.agent.ablations import VARIANTS
from trace_ves.benchmarks import write_bench
from trace_ves.core import Interval, Item, Question
from trace_ves.methods import open_method

ROOT = Path(__file__).parents[2]
EXTEND = (ROOT / "docs/extend.md").read_text(encoding="utf-8")
RUN = (ROOT / "docs/run.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_ones_own_method_and_backbone_run_as_the_page_shows_them(tmp_path: Path) -> None:
    import av
    import numpy as np

    for code in blocks(EXTEND, "python"):
        name = code.splitlines()[0].removeprefix("# ")
        (tmp_path / name).write_text(code)
    (tmp_path / "bench").mkdir()
    with av.open(str(tmp_path / "bench/v.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=5)
        stream.width, stream.height = 64, 48
        for shade in range(150):
            picture = np.full((48, 64, 3), shade, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    items = [Item(Question(f"q{n}", "v.mp4", "Which?", ("x", "y")), n, (Interval(1, 4),), 30.0) for n in "AB"]
    write_bench(items, tmp_path / "bench")
    [console] = blocks(EXTEND, "console")
    command = shlex.split(console.removeprefix("$ trace-ves"))
    done = subprocess.run(
        [sys.executable, "-m", "trace_ves", *command, "--json"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONSAFEPATH": "1"},  # as an installed command: the working folder is not on the path
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    runs = {run["name"]: run for run in json.loads(done.stdout)["audit"]["runs"]}
    assert runs["first_and_last:look"]["metrics"]["Acc"] == 50
    assert runs["first_and_last:look"]["metrics"]["Fr"] == 16
    method = next(code for code in blocks(EXTEND, "python") if "def look" in code)
    assert len([line for line in method.splitlines() if line.strip() and not line.startswith("#")]) <= 15


def test_every_method_of_the_page_opens() -> None:
    rows = re.findall(r"^\| (`.*?) \|", RUN, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    for name in named:
        if ":" not in name:
            open_method(name.replace("SEED", "3").replace("-N", "-8"))
    assert {name for name in VARIANTS if "chronological" not in name and "resupply" not in name} <= set(named)


@pytest.mark.parametrize("page", [RUN, EXTEND])
def test_every_command_and_option_of_the_pages_is_there(page: str) -> None:
    for line in [
        line for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ trace-ves")
    ]:
        name, *words = shlex.split(line.removeprefix("$ trace-ves "))
        done = subprocess.run(
            [sys.executable, "-m", "trace_ves", name, "--help"], capture_output=True, text=True, check=True, timeout=60
        )
        for option in [word for word in words if word.startswith("--")]:
            assert option in done.stdout, line


def test_the_prices_on_the_page_can_be_read(tmp_path: Path) -> None:
    from trace_ves.cost.prices import load_prices

    [toml] = blocks(RUN, "toml")
    (tmp_path / "prices.toml").write_text(toml)
    price = load_prices(tmp_path / "prices.toml").of("openai:my-model@http://localhost:8000/v1")
    assert price is not None
    assert price.output == 0.40
