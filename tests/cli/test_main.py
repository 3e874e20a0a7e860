"""The shell around all commands: help, version, doctor, completion, the cost of importing; and the demo."""

import io
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from pydantic import ValidationError
from rich.console import Console
from tests.cli.conftest import Call
from tests.cli.test_golden import GOLDEN

import trace_ves as package
from trace_ves.agent.settings import DEFAULT_BUDGET
from trace_ves.backbone.protocol import ModelFault, ScriptedBackbone
from trace_ves.backbone.registry import default_spec
from trace_ves.cli import doctor, keys, main
from trace_ves.cli.build import COMMANDS as BUILD
from trace_ves.cli.dev import dev_command
from trace_ves.cli.main import COMMANDS, group
from trace_ves.cli.run_table import RunTable
from trace_ves.core import Interval, Question
from trace_ves.records import Item, Prediction
from trace_ves.runs.answering import Job
from trace_ves.runs.prices import Prices
from trace_ves.runs.run import Plan


def test_the_golden_help_has_every_command_and_the_list_fits_one_screen(cli: Call) -> None:
    shown = (GOLDEN / "help.txt").read_text(encoding="utf-8")
    everything = [*COMMANDS, *(f"build {name}" for name in BUILD), *(f"dev {name}" for name in dev_command.commands)]
    assert {f"$ {name} --help" for name in everything} <= {*shown.splitlines()}
    lines = shown.partition("\n\n$ ")[0].splitlines()
    assert len(lines) <= 32
    assert max(map(len, lines)) <= 80
    assert f"[default: {DEFAULT_BUDGET} for trace;" in shown
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


def test_a_test_call_shows_one_frame_and_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    replies = iter(
        ({"colour": "Red"}, {"colour": "g" * 40}, ModelFault("No JSON.", f"<{'x' * 200}>"), {"colour": "g" * 41})
    )

    def answer(request: Any) -> Any:
        [clip] = request.clips
        asked.append((request.prompt, clip.span, [frame.seconds for frame in clip.frames]))
        return next(replies)

    monkeypatch.setattr(doctor, "open_backbone", lambda *g, **n: asked.append((g, n)) or ScriptedBackbone(answer))
    note = "(0.0 s, 0 tokens in, 0 out)"
    assert doctor.try_backbone("a:b") == (True, f"a:b works: it saw that the square is Red. {note}")
    assert asked == [(("a:b",), {"cache": False}), (doctor.PROMPT, Interval(0, 1), [0.0])]
    blind = f"a:b called a red square '{'g' * 40}': this model may not see pictures. {note}"
    assert doctor.try_backbone("a:b") == (False, blind)
    unusable = f'a:b replied, but the reply cannot be used: No JSON. It said: "<{"x" * 199}". {note}'
    assert doctor.try_backbone("a:b") == (False, unusable)
    with pytest.raises(ValidationError):
        doctor.try_backbone("a:b")


def test_doctor_survives_a_silent_driver(cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setattr(doctor, "SMI_SECONDS", 0.2)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    found = json.loads(cli("doctor", "--json", PATH=path).stdout)["machine"]
    assert {"name": "GPU", "present": False, "detail": "nvidia-smi does not respond; restart the driver"} in found


def test_a_run_is_reported_every_thirty_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now, out, job = [100.0], io.StringIO(), Job("trace", "lab")
    monkeypatch.setattr("trace_ves.cli.run_table.time", SimpleNamespace(monotonic=lambda: now[0]))
    items = tuple(Item(Question(f"q{number}", "v", "?", ("a", "b")), "A", (), 9.0) for number in range(5))
    with RunTable(Prices({}), Console(file=out, width=120)) as table:
        for done, seconds in enumerate((29.9, 0.1, 29.9)):
            now[0] += seconds
            table.checking(done, 9)
        now[0] += 5
        took, errors = (10.0, 20.0, 29.9, 0.1, 1.0), (None, "down", "off", None, None)
        table.begin(Plan(items, (job,), {job: {}}))
        for each, seconds, error in zip(items, took, errors, strict=True):
            now[0] += seconds
            table.finished(job, each, Prediction(each.question.id, "A", seconds=seconds, error=error))
        table.console.print(table)
    assert [" ".join(line.split()) for line in out.getvalue().splitlines() if line.strip(" ─")] == [
        "checked the durations of 1 of 9 videos",
        "trace@lab: first error, question 'q1': down",
        "trace@lab: Done 2/5, Errors 1, Rate 4.0/min, Cost ?, Acc so far 100.0%, Left 45 s",
        "trace@lab: Done 4/5, Errors 2, Rate 4.0/min, Cost ?, Acc so far 100.0%, Left 15 s",
        "trace@lab: Done 5/5, Errors 2, Rate 4.9/min, Cost ?, Acc so far 100.0%",
        "Run Done Errors Rate Cost Acc so far Left",
        "trace@lab 5/5 2 4.9/min ? 100.0%",
    ]


def test_a_key_is_typed_unseen(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(keys, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setattr(click, "prompt", lambda *words, **options: given.append((words, options)) or " a-key\n")
    monkeypatch.setattr(keys, "store_key", lambda *words, **options: given.append((words, options)))
    assert cli("keys", "set", "gemini", "--keyring").stdout == "GEMINI_API_KEY is stored in the system keyring.\n"
    assert given == [
        (("GEMINI_API_KEY",), {"hide_input": True}),
        (("GEMINI_API_KEY", "a-key"), {"keyring": True}),
    ]
    stored = {"GEMINI_API_KEY": True, "MINE": False}
    monkeypatch.setattr(keys, "read_stored_keys", lambda: stored)
    listed = cli("keys", "list", OPENAI_API_KEY="x", GROQ_API_KEY=" ").stdout.splitlines()
    assert listed == ["GEMINI_API_KEY  file", "OPENAI_API_KEY  environment", "MINE  keyring"]


def test_doctor_on_other_machines(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: name)
    for status, printed, finding in (
        (0, "A, 9 MiB\nB, 9 MiB\n", (True, "A, 9 MiB; B, 9 MiB")),
        (0, "\n", (False, "nvidia-smi reports no GPU")),
        (9, "A\n", (False, "A")),
    ):
        done = SimpleNamespace(returncode=status, stdout=printed)
        monkeypatch.setattr(doctor.subprocess, "run", lambda *_, done=done, **__: done)
        assert doctor._machine()[1] == ("GPU", *finding)
    monkeypatch.setattr(doctor.shutil, "which", lambda _: None)
    assert doctor._machine()[1] == ("GPU", False, "none found; only local models (hf:, vllm:) need one")
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    cache = doctor.cache_dir()
    assert doctor._package()[2] == ("cache", False, f"{cache} cannot be written; set TRACE_VES_CACHE_DIR")
    monkeypatch.setitem(sys.modules, "av", None)
    missing = ("ffmpeg libraries", False, "come with the extra video; no ffmpeg program is needed")
    assert doctor._decoders() == [missing]
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    ready = cli("doctor").stdout.splitlines()[-1]
    spec = default_spec()
    assert ready == f"Next: trace-ves doctor --try {spec}, then trace-ves ask VIDEO QUESTION; it will use {spec}."
    monkeypatch.setattr(doctor, "missing_extras", lambda *_: ["video"])
    assert doctor._next_step().endswith(", without which no video can be opened.")


def test_a_fault_of_the_program_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "main", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["--version"])


def test_a_demo_that_lacks_a_part_says_so_first(cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed, missing = metadata.version, {"onnxruntime", "matplotlib"}
    monkeypatch.setattr(metadata, "version", lambda name: installed("not-there" if name in missing else name))
    err = cli("demo", "--out", tmp_path / "demo", status=2).stderr
    assert err == "trace-ves: The demo needs an optional part: pip install '.[glance,figures]' in the checkout.\n"
    assert not (tmp_path / "demo").exists()


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
