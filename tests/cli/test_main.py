"""The shell around all commands: help, version, doctor, completion, and the cost of importing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import trace_ves as package
from trace_ves.agent.settings import DEFAULT_BUDGET
from trace_ves.cli.main import COMMANDS, group

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]


EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "audit"


def test_help_names_every_command(trace_ves: Run) -> None:
    text = trace_ves("--help").stdout
    assert all(name in text for name in COMMANDS)


def test_every_command_has_help() -> None:
    for name in COMMANDS:
        done = CliRunner().invoke(group, [name, "--help"], prog_name="trace-ves")
        assert done.exit_code == 0, done.output
        assert done.output.startswith(f"Usage: trace-ves {name}")


def test_version(trace_ves: Run) -> None:
    assert trace_ves("--version").stdout == f"trace-ves {package.__version__}\n"


def test_doctor_says_what_is_there_and_never_a_key(trace_ves: Run) -> None:
    done = trace_ves("doctor", "--json", OPENAI_API_KEY="sk-very-secret")
    found = json.loads(done.stdout)
    assert {"package", "extras", "keys", "backbones", "decoders", "machine"} == set(found)
    assert {"name": "openai:MODEL", "present": True, "detail": "ready"} in found["backbones"]
    assert {"name": "OPENAI_API_KEY", "present": True, "detail": "set"} in found["keys"]
    assert "secret" not in done.stdout + trace_ves("doctor", OPENAI_API_KEY="sk-very-secret").stdout


@pytest.mark.parametrize(
    ("words", "meant"), [(("asks",), "ask"), (("Audit",), "audit"), (("build", "statu"), "status"), (("zzz",), None)]
)
def test_a_misspelt_command_gets_the_one_that_was_meant(
    trace_ves: Run, words: tuple[str, ...], meant: str | None
) -> None:
    done = trace_ves(*words)
    assert done.returncode == 2
    assert f"No such command {words[-1]!r}" in done.stderr
    assert done.stderr.count("did you mean") == (meant is not None)
    assert meant is None or f"did you mean {meant!r}?" in done.stderr


def test_help_keeps_its_lines_and_tells_defaults(trace_ves: Run) -> None:
    lines = [line.strip() for line in trace_ves("dev", "completion", "--help").stdout.splitlines()]
    assert "bash: trace-ves dev completion bash >> ~/.bashrc" in lines
    assert "zsh:  trace-ves dev completion zsh >> ~/.zshrc" in lines
    told = " ".join(trace_ves("ask", "--help").stdout.split())
    assert "[default: the first provider whose key is set]" in told
    assert f"[default: {DEFAULT_BUDGET} for trace;" in told


def test_json_alone_is_standard_output(trace_ves: Run) -> None:
    audited = trace_ves("audit", EXAMPLE, EXAMPLE / "mine.jsonl", "--resamples", "1", "--json")
    found = json.loads(audited.stdout)
    assert found["bench"]["questions"] == 24
    assert "resamples:1|" in found["signature"]  # the least that can be asked for


def test_a_demo_that_lacks_a_part_says_so_before_it_begins(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['onnxruntime'] = None; sys.modules['matplotlib'] = None;"
        "from trace_ves.cli.main import main; main(['demo', '--out', sys.argv[1]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "demo")], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == "trace-ves: The demo needs an optional part: pip install 'trace-ves[glance,figures]'.\n"
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(trace_ves: Run, shell: str) -> None:
    assert "_TRACE_VES_COMPLETE" in trace_ves("dev", "completion", shell).stdout


def test_completion_completes(trace_ves: Run) -> None:
    done = trace_ves(_TRACE_VES_COMPLETE="bash_complete", COMP_WORDS="trace-ves do", COMP_CWORD="1")
    assert done.stdout.split() == ["plain,doctor"]


HEAVY = ("av", "numpy", "pydantic", "rich", "matplotlib", "pyarrow", "openai", "anthropic", "google.genai", "torch")


@pytest.mark.parametrize("code", ["import trace_ves", "from trace_ves.cli.main import group; group.get_help"])
def test_importing_loads_nothing_heavy(code: str) -> None:
    program = f"import sys; {code}; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"


def test_every_public_name_is_there() -> None:
    assert not [name for name in package.__all__ if getattr(package, name, None) is None]
