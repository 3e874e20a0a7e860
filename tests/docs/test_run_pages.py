"""docs/extend.md and docs/tutorial.md do what they show, and docs/run.md names what there is."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from inspect import signature
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
import pytest

from tests import program
from tests.cli.conftest import run_to
from tests.docs import ROOT, blocks, read
from tests.films import write_film
from trace_ves import TRACE, InputError, Request
from trace_ves.agent.ablations import VARIANTS
from trace_ves.benches import write_bench
from trace_ves.cli.main import group
from trace_ves.core import Interval, Question
from trace_ves.records import Item
from trace_ves.runs.methods import open_method

EXTEND, RUN, TUTORIAL = (read(f"docs/{name}.md") for name in ("extend", "run", "tutorial"))
STEPS = blocks(TUTORIAL, "console")
CAPTURED: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 120}
CSV = "id,video,seconds,question,a,b,answer,from,to\nr1,v.mp4,30,Which?,x,y,B,1,4\nr2,v.mp4,30,Which?,x,y,C,1,4\n"


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file of the page, a bench of two questions and an annotation file."""
    folder = tmp_path_factory.mktemp("extend")
    for code in blocks(EXTEND, "python"):
        (folder / code.splitlines()[0].removeprefix("# ")).write_text(code)
    (folder / "annotations.csv").write_text(CSV)
    (folder / "bench").mkdir()
    write_film(folder / "bench/v.mp4", range(150), fps=5)
    items = [Item(Question(f"q{n}", "v.mp4", "Which?", ("x", "y")), n, (Interval(1, 4),), 30.0) for n in "AB"]
    write_bench(items, folder / "bench")
    return folder


def test_every_command_of_the_page_runs_and_prints_what_it_shows(workplace: Path) -> None:
    failed = {}
    for block in blocks(EXTEND, "console"):
        line, *shown = block.splitlines()
        name, *words = shlex.split(line.removeprefix("$ "))
        if name == "trace-ves":
            done = program.run(*words, cwd=workplace)
        else:
            path = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{workplace}"}
            done = subprocess.run([sys.executable, *words], cwd=workplace, env=path, check=False, **CAPTURED)
        if done.returncode != 0 or not all(text in done.stdout for text in shown):
            failed[line] = done.stdout + done.stderr
    assert failed == {}
    [runs] = [block for block in blocks(EXTEND, "console") if "--backbone glance" in block]
    lines = (workplace / "twin-runs" / "first_and_last-look@glance.jsonl").read_text().splitlines()
    assert [json.loads(line)["answer"] in set("ABCD") for line in lines] == [True] * 2, runs


def test_the_method_of_the_page_is_short_and_audited(workplace: Path, tmp_path: Path) -> None:
    [block] = [block for block in blocks(EXTEND, "console") if "first_and_last" in block and "MyModel" in block]
    words = shlex.split(block.removeprefix("$ trace-ves").replace("--out runs", f"--out {tmp_path}"))
    done = program.run(*words, "--json", cwd=workplace)
    runs = {run["name"]: run for run in json.loads(done.stdout)["audit"]["runs"]}
    assert runs["first_and_last:look"]["metrics"]["Acc"] == 50
    assert runs["first_and_last:look"]["metrics"]["Fr"] == 16
    method = next(code for code in blocks(EXTEND, "python") if code.startswith("# first_and_last.py"))
    assert len([line for line in method.splitlines() if line.strip() and not line.startswith("#")]) <= 15
    assert method in read("README.md")


def test_the_importer_of_the_page(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trace_ves.benches.importers import import_bench

    monkeypatch.syspath_prepend(workplace)
    bench = import_bench("my_bench:read", workplace / "annotations.csv")
    assert [(item.question.id, item.answer, item.evidence) for item in bench.items] == [("r1", "B", (Interval(1, 4),))]
    assert bench.left_out == {"r2"}  # its answer is none of its options


def check_or_search(witness: Callable[[Any], Any], checked: dict[str, bool], request: Request[Any]) -> Any:
    return checked if request.stage == "answer-check" else witness(request)


def test_the_check_after_replay_has_its_frames(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.web.web_bench import Witness, items, write_video
    from trace_ves import ask
    from trace_ves.backbone.protocol import ScriptedBackbone
    from trace_ves.core.plugins import import_callable

    write_video(workplace / "long.mp4")
    [item] = items(["long.mp4"], 1)
    monkeypatch.syspath_prepend(workplace)
    method = import_callable("checked_trace:method", takes=2)
    for contradicted in (False, True):
        backbone = ScriptedBackbone(partial(check_or_search, Witness(), {"contradicted": contradicted}))
        asked = (workplace / "long.mp4", item.question.text, item.question.options)
        result = ask(*asked, backbone=backbone, method=method, budget=80)
        *search, check = result.log.calls
        assert check.stage == "answer-check"
        assert sum(len(call.timestamps) for call in search) <= 80 - method.check_frames
        assert 1 <= len(check.timestamps) <= method.check_frames
        assert (result.answer is None) == contradicted


def test_the_page_lists_the_functions_of_trace_and_a_wrong_one_is_refused() -> None:
    functions = {each.name: each.default for each in fields(TRACE) if callable(each.default)}
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", EXTEND, re.MULTILINE))
    assert {name: len(signature(function).parameters) for name, function in functions.items()} == {
        name: len(arguments.split(", ")) for name, arguments in rows.items()
    }
    for name, function in functions.items():
        assert replace(TRACE, **{name: lambda *arguments: None}) != TRACE
        arguments = ", ".join(signature(function).parameters)
        with pytest.raises(InputError, match=rf"Trace\.{name} must take the arguments {arguments}: "):
            replace(TRACE, **{name: lambda: None})


def test_every_method_of_the_page_opens() -> None:
    rows = re.findall(r"^\| (`.*?) \|", RUN, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    for name in named:
        if ":" not in name:
            open_method(name.replace("SEED", "3").replace("-N", "-8"))
    assert {name for name in VARIANTS if "chronological" not in name and "resupply" not in name} <= set(named)


def unknown_words(line: str) -> list[str]:
    """The command of a line, if there is none of that name, or its unknown options."""
    words = list(takewhile(lambda word: word not in {"|", ">", "&&"}, shlex.split(line, comments=True)[2:]))
    command: click.Command | None = group
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        command = command.get_command(click.Context(command), words.pop(0))
    if command is None:
        return [line]
    known = {"--help", "--version"}.union(*((*each.opts, *each.secondary_opts) for each in command.params))
    return [f"{line}: {word}" for word in words if word.startswith("--") and word.partition("=")[0] not in known]


def test_every_command_and_option_of_every_page_is_there() -> None:
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
    lines = [line for page in pages for block in blocks(page, "console") for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("$ trace-ves ")]
    assert len(commands) > 50
    assert not [word for line in commands for word in unknown_words(line)]


def test_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    targets = [(page, target) for page in pages for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8"))]
    assert len(targets) > 100
    assert not [pair for pair in targets if "://" not in pair[1] and not (pair[0].parent / pair[1]).exists()]


def test_every_section_of_the_measurements_names_a_command_that_is_there() -> None:
    page = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    named = re.findall(r"(?:python -m perf\.|(?:python|bash) (?:perf|tools)/)([\w.]+)", page)
    there = {path.name for folder in ("perf", "tools") for path in (ROOT / folder).iterdir()}
    assert {name if "." in name else f"{name}.py" for name in named} <= there
    command = re.compile(r"`(?:python|bash|trace-ves|pytest) |\$ trace-ves ")
    assert not [part[:40] for part in page.split("\n## ")[1:] if not command.search(part)]


def test_the_prices_on_the_page_can_be_read(tmp_path: Path) -> None:
    from trace_ves.runs.prices import load_prices

    [toml] = blocks(RUN, "toml")
    (tmp_path / "prices.toml").write_text(toml)
    price = load_prices(tmp_path / "prices.toml").of("openai:my-model@http://localhost:8000/v1")
    assert price is not None
    assert price.output == 0.40


# --- the tutorial, on a film of the same length: what needs no model prints what the page shows --------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the page has after its steps 1, 4 and 6, with a grey film of 139.4 seconds."""
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "hall").mkdir()
    for name, lines in zip(("hall/questions.jsonl", "mine.jsonl"), blocks(TUTORIAL, "json"), strict=True):
        (folder / name).write_text(lines, encoding="utf-8")
    write_film(folder / "hall.mp4", [90] * 1394, fps=10)
    return folder


def trace_ves(line: str, place: Path) -> str:
    """What a line of the page prints; what stands behind a pipe is left to the test."""
    return run_to(*shlex.split(line.removeprefix("$ trace-ves ").partition(" | ")[0]), cwd=place).stdout


def test_the_audits_print_what_the_page_shows(place: Path) -> None:
    shown = [block.splitlines() for block in STEPS if block.startswith("$ trace-ves audit")]
    assert len(shown) == 2
    for command, *expected in shown:
        assert trace_ves(command, place).splitlines()[: len(expected)] == expected


def test_the_frames_are_written(place: Path) -> None:
    [command] = [line for block in STEPS for line in block.splitlines() if line.startswith("$ trace-ves frames")]
    printed = trace_ves(command, place).splitlines()
    assert [line.partition(":")[0] for line in printed] == ["15 s", "60 s", "125 s"]
    assert len([*(place / "pictures").glob("*.jpg")]) == 3
