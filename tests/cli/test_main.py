"""The shell around all commands: help, version, doctor, completion, the cost of importing; and the demo."""

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import pytest
from tests.cli.conftest import Call

import trace_ves as package
from trace_ves import Results, evaluate
from trace_ves.agent.settings import DEFAULT_BUDGET
from trace_ves.cli import doctor, main
from trace_ves.cli.main import COMMANDS, COMMON_OPTIONS, GROUPS, group


def test_help_names_every_command_by_group_on_one_screen(cli: Call) -> None:
    lines = cli("--help").stdout.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    listed = [name for title in GROUPS for name in GROUPS[title]]
    assert sorted(listed) == sorted(COMMANDS)
    assert [line.split()[0] for line in lines[lines.index("Ask:") :] if line.startswith("  ")] == listed


@pytest.mark.parametrize("name", COMMON_OPTIONS)
def test_common_options_come_first(cli: Call, name: str) -> None:
    first, _, rest = cli(name, "--help").stdout.partition("\nOptions:\n")[2].partition("\nAdvanced:\n")
    command = group.get_command(click.Context(group), name)
    assert command is not None
    options = {each.name: each.opts[-1] for each in command.params}
    assert all(options[each] in first for each in COMMON_OPTIONS[name])
    assert rest


def test_every_command_has_help_and_the_program_a_version(cli: Call) -> None:
    assert all(cli(name, "--help").stdout.startswith(f"Usage: trace-ves {name}") for name in COMMANDS)
    assert cli("--version") == (0, f"trace-ves {package.__version__}\n", "")


def test_doctor_says_which_keys_are_set_and_never_a_key(cli: Call) -> None:
    done = cli("doctor", "--json", OPENAI_API_KEY="sk-very-secret")
    found = json.loads(done.stdout)
    assert {"name": "openai:MODEL", "present": True, "detail": "ready"} in found["backbones"]
    assert {"name": "OPENAI_API_KEY", "present": True, "detail": "set"} in found["keys"]
    assert "secret" not in done.stdout + cli("doctor", OPENAI_API_KEY="sk-very-secret").stdout


def test_doctor_shows_a_red_square_on_white() -> None:
    picture = doctor._draw_red_square().rgb()
    assert (picture[24:72, 40:88] == [200, 30, 30]).all()
    assert int((picture == 255).all(axis=2).sum()) == 96 * 128 - 48 * 48


def test_doctor_survives_a_silent_driver(cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setattr(doctor, "SMI_SECONDS", 0.2)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    found = json.loads(cli("doctor", "--json", PATH=path).stdout)["machine"]
    assert {"name": "GPU", "present": False, "detail": "nvidia-smi does not respond; restart the driver"} in found


@pytest.mark.skipif(not hasattr(click.exceptions, "NoSuchCommand"), reason="an older click suggests no commands")
@pytest.mark.parametrize(("words", "meant"), [(("asks",), "ask"), (("build", "statu"), "status")])
def test_a_misspelt_command_gets_the_one_that_was_meant(cli: Call, words: tuple[str, ...], meant: str) -> None:
    assert f"No such command {words[-1]!r}. Did you mean {meant!r}?" in cli(*words, status=2).stderr


def test_a_fault_of_the_program_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "main", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["--version"])


def test_help_keeps_its_lines_and_tells_defaults(cli: Call) -> None:
    lines = [line.strip() for line in cli("dev", "completion", "--help").stdout.splitlines()]
    assert "bash: trace-ves dev completion bash >> ~/.bashrc" in lines
    assert "zsh:  trace-ves dev completion zsh >> ~/.zshrc" in lines
    told = " ".join(cli("ask", "--help").stdout.split())
    assert "[default: the first provider whose key is set]" in told
    assert f"[default: {DEFAULT_BUDGET} for trace;" in told


def test_a_demo_that_lacks_a_part_says_so_first(cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed, missing = metadata.version, {"onnxruntime", "matplotlib"}
    monkeypatch.setattr(metadata, "version", lambda name: installed("not-there" if name in missing else name))
    err = cli("demo", "--out", tmp_path / "demo", status=2).stderr
    assert err == "trace-ves: The demo needs an optional part: pip install '.[glance,figures]' in the checkout.\n"
    assert not (tmp_path / "demo").exists()


def test_the_demo_shows_methods_beside_the_paper(cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab answers like glance, from the same world, without looking at pictures."""
    drawn: list[Path] = []

    def evaluate_with_lab(bench: Any, methods: Any, backbone: str, **options: Any) -> Results:
        assert backbone == "glance"
        return evaluate(bench, methods, "lab", **options)

    monkeypatch.setattr("trace_ves.runs.evaluate.evaluate", evaluate_with_lab)
    monkeypatch.setattr("trace_ves.ves.figures.draw_figures", lambda _report, _items, folder: drawn.append(folder))
    monkeypatch.chdir(tmp_path)
    first = cli("demo", "--questions", 2, "--seed", 44).stdout
    before = {file.name: file.read_bytes() for file in Path("demo/runs").glob("*.jsonl")}
    assert cli("demo", "--questions", 2, "--seed", 44).stdout == first
    assert {
        file.name: file.read_bytes() for file in Path("demo/runs").glob("*.jsonl")
    } == before  # nothing new is asked
    for method in ("blind", "uniform-32", "uniform-128", "vca", "avp", "trace"):
        assert re.search(rf"^{method} .* / ", first, re.MULTILINE), method
    steps = ["1/4  generating a", "2/4  6 methods", "3/4  the audit", "4/4  figures and"]
    assert re.findall(r"^\d/4  \w+ \w+", first, re.MULTILINE) == steps
    assert "ours / the paper's" in first
    assert "glance is a small stand-in" in " ".join(first.split())
    assert f"file://{tmp_path}/demo/story.html" in first
    assert "<svg" in Path("demo/story.html").read_text(encoding="utf-8")
    assert drawn == [Path("demo/figures")] * 2


def test_completion_has_scripts_and_completes(cli: Call) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_TRACE_VES_COMPLETE" in cli("dev", "completion", shell).stdout
    done = cli(_TRACE_VES_COMPLETE="bash_complete", COMP_WORDS="trace-ves do", COMP_CWORD="1")
    assert done.stdout.split() == ["plain,doctor"]


HEAVY = ("av", "numpy", "pydantic", "rich", "matplotlib", "pyarrow", "openai", "anthropic", "google.genai", "torch")
OTHERS = tuple(f"trace_ves.{name}" for name in ("ves", "benches", "construction", "twin.lab", "twin.synthetic"))


@pytest.mark.parametrize(
    ("code", "unneeded"),
    [
        ("import trace_ves", HEAVY),
        ("from trace_ves.cli.main import group; group.get_help", HEAVY),
        ("import trace_ves.cli.ask, trace_ves.cli.answer_panel, trace_ves.runs.asking, trace_ves.runs.cost", OTHERS),
    ],
)
def test_importing_loads_only_what_is_needed(code: str, unneeded: tuple[str, ...]) -> None:
    program = f"import sys; {code}; print([name for name in {unneeded} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"


def test_every_public_name_is_there() -> None:
    assert not [name for name in package.__all__ if getattr(package, name, None) is None]
