"""docs/architecture.md and its picture name modules that exist, and the layers that import-linter holds."""

import re
import tomllib
from xml.etree import ElementTree as ET

from tests.docs import ROOT, read

SOURCE = ROOT / "src" / "trace_ves"
PAGE = read("docs/architecture.md")


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
