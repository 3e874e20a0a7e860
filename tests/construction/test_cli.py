"""`trace-ves build` as a person runs it: sentences for mistakes, warnings, costs, and the page that describes it."""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tests import program
from tests.web.web_bench import write_video
from trace_ves.cli.build import COMMANDS
from trace_ves.cli.build import build_command as command
from trace_ves.core import InputError

if TYPE_CHECKING:
    from click.testing import Result

PAGE = (Path(__file__).parents[2] / "docs" / "build.md").read_text(encoding="utf-8")
SHORT_FILM_SECONDS = 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b" / "videos").mkdir(parents=True)
    write_video(tmp_path / "b" / "videos" / "a.mp4", seconds=SHORT_FILM_SECONDS)
    return tmp_path / "b"


def build(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(each) for each in arguments])


def test_stages_of_a_build_without_items(folder: Path, tmp_path: Path) -> None:
    assert "over 1 video." in build("init", folder, "--audited", "glance").output
    proposed = build("propose", folder, "--captioner", "glance", "--proposer", "glance")
    assert proposed.exit_code == 0, proposed.output
    assert "0 new items from 1 video." in proposed.output
    assert proposed.output.count("audited too (glance)") == 2
    assert "dense-caption" in proposed.output
    assert "$0.0000" in proposed.output
    probed = build("probe", folder, "--backbone", "glance")
    assert "should be an independent model" in probed.output
    assert "0 items" in build("shortcut", folder, "--language", "glance", "--gist", "glance").output
    prices = tmp_path / "prices.toml"
    prices.write_text('["glance*"]\ninput = 0\ncached = 0\noutput = 0\ndate = 2026-05-01\n')
    status = build("status", folder, "--prices", prices).output
    assert "nothing is guaranteed yet" in status
    assert "List prices of 2026-05-01." in " ".join(status.split())
    costs = json.loads(build("status", folder, "--json").stdout)["cost"]
    assert ("dense-caption", "glance", 0.0) in {(cost["stage"], cost["backbone"], cost["dollars"]) for cost in costs}
    exported = build("export", folder, tmp_path / "out")
    assert isinstance(exported.exception, InputError)
    assert not (tmp_path / "out").exists()


def test_tokens_are_printed_once_for_each_name(folder: Path) -> None:
    build("init", folder)
    lines = build("invite", folder, "ann", "bob").output.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["ann", "bob"]
    assert len({line.split("\t")[1] for line in lines}) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "nowhere"],
        ["init", "nowhere"],
        ["export", "nowhere", "out"],
        ["probe", "nowhere", "--backbone", "glance"],
        ["init", "{b}", "--database", "mysql://x/y"],
        ["invite", "{b}", "a b"],
    ],
)
def test_a_mistake_is_one_sentence_and_exit_2(folder: Path, arguments: list[str]) -> None:
    words = [each.format(b=folder) for each in arguments]
    done = program.run("build", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("trace-ves: ")
    assert done.stderr.count("\n") == 1


def test_every_command_and_option_of_the_page_is_there() -> None:
    lines = re.findall(r"^\$ trace-ves build (.+)$", PAGE, re.MULTILINE)
    assert {line.split()[0] for line in lines} == set(COMMANDS)
    for line in lines:
        name, *words = shlex.split(line)
        told = build(name, "--help").output
        for option in [word for word in words if word.startswith("--")]:
            assert option in told, line


def test_the_page_says_the_keys_that_are_there() -> None:
    templates = Path(__file__).parents[2] / "src" / "trace_ves" / "web" / "templates" / "desk"
    pages = "".join(page.read_text(encoding="utf-8") for page in templates.glob("*.html"))
    keys = {html.unescape(key) for key in re.findall(r'data-key="([^"{]+)"', pages)} - {"s", "u"}
    table = PAGE[PAGE.index("| Key |") : PAGE.index("In stage 3")]
    assert keys <= set(re.findall(r"`([^`]+)`", table))
