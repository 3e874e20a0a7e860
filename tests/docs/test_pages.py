"""The pages of architecture and decisions, and those that the docs site generates, name all that is there."""

import re
import runpy
import tomllib
from collections import Counter
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

import trace_ves
from tests.docs import ROOT, read
from trace_ves.cli.main import group

SOURCE = ROOT / "src" / "trace_ves"
PAGE = read("docs/architecture.md")
FOLDER = ROOT / "docs" / "decisions"
DECISIONS = {file.name: file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("[0-9]*.md"))}


def test_every_module_of_the_page_and_the_picture_exists() -> None:
    words = " ".join(ET.fromstring(read("docs/images/architecture.svg")).itertext())
    assert "answer_question" in words
    assert "(images/architecture.svg)" in PAGE
    named = set(re.findall(r"`([\w/]+(?:\.py|/))`", PAGE)) | set(re.findall(r"[\w/]+\.py", words))
    assert len(named) > 35
    assert not {name for name in named if not (SOURCE / name).exists()}


def test_twenty_files_to_read_are_named() -> None:
    [table] = re.findall(r"to read first, in order\n\n(.*?)\n\n", PAGE, re.DOTALL)
    named = re.findall(r"^\| `([\w/]+\.py)` \| \S", table, re.MULTILINE)
    assert len(named) == len(set(named)) == 20


def test_the_layers_of_the_page_are_those_that_are_held() -> None:
    contracts = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    [contract] = [each for each in contracts if each["type"] == "layers"]
    [block] = re.findall(r"```\n(cli\n.*?)```", PAGE, re.DOTALL)
    held = [set(re.findall(r"trace_ves\.([\w.]+)", layer)) for layer in contract["layers"]]
    assert [set(re.findall(r"[\w.]+", line)) for line in block.splitlines()] == held


def test_the_tree_of_the_readme_names_every_package_and_no_other() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    [tree] = re.findall(r"```\n(src/trace_ves/\n.*?)```", read("README.md"), re.DOTALL)
    assert set(re.findall(r"^  (\w+)/ ", tree, re.MULTILINE)) == packages


def test_numbers_are_unique_and_match_the_titles() -> None:
    assert not [number for number, count in Counter(name[:4] for name in DECISIONS).items() if count > 1]
    assert not [name for name, text in DECISIONS.items() if not re.match(rf"# {int(name[:4])}\. \S", text)]


def test_a_decision_has_three_parts_on_half_a_page() -> None:
    parts = ["Context", "Decision", "Consequence"]
    found = {name: re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) for name, text in DECISIONS.items()}
    assert not [name for name, words in found.items() if words != parts]
    assert not [name for name, text in DECISIONS.items() if len(text.split()) > 220]


def test_the_index_lists_every_decision_once() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert Counter(re.findall(r"\]\((\d+-[\w-]+\.md)\)", index)) == Counter([*DECISIONS])


@pytest.fixture(scope="module")
def pages():
    return SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "docs_pages.py")))


def test_every_prompt_is_shown(pages) -> None:
    prompts = [*(ROOT / "src/trace_ves").glob("*/prompts/*.md")]
    assert len(prompts) > 15
    page = pages.prompts()
    assert not [file for file in prompts if file.read_text(encoding="utf-8").rstrip() not in page]


def test_every_command_and_public_name_is_shown(pages) -> None:
    commands = pages.commands()
    assert all(f"## trace-ves {name}\n" in commands for name in group.list_commands(None))
    names = pages.python()
    public = {name for name in trace_ves.__all__ if not name.startswith("_")} - {"R"}  # a type variable
    assert not [name for name in public if f"heading: {name}," not in names]
