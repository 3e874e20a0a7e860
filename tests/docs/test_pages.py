"""The pages of architecture, decisions and terms, and those that the docs site generates, name all that is there."""

import re
import runpy
import tomllib
from collections import Counter
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

import trace_ves
from tests.docs import ROOT, read
from trace_ves.agent.ablations import VARIANTS
from trace_ves.cli.main import group
from trace_ves.runs.cost import cost_table
from trace_ves.ves.metrics import Columns
from trace_ves.web.glossary import anchor, glossary, term_of
from trace_ves.web.listing import BUCKETS
from trace_ves.web.search_view import ENDINGS

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


def test_decisions_are_numbered_listed_and_short() -> None:
    assert not [number for number, count in Counter(name[:4] for name in DECISIONS).items() if count > 1]
    assert not [name for name, text in DECISIONS.items() if not re.match(rf"# {int(name[:4])}\. \S", text)]
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert Counter(re.findall(r"\]\((\d+-[\w-]+\.md)\)", index)) == Counter([*DECISIONS])
    parts = ["Context", "Decision", "Consequence"]
    found = {name: re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) for name, text in DECISIONS.items()}
    assert not [name for name, words in found.items() if words != parts]
    assert not [name for name, text in DECISIONS.items() if len(text.split()) > 220]


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


# --- the glossary explains every symbol that tables show, under anchors that pages can link to ------------


GLOSSARY = read("docs/glossary.md")
TERMS = re.findall(r"^### (.+)$", GLOSSARY, re.MULTILINE)
ANCHORS = {anchor(term) for term in re.findall(r"^#{1,3} (.+)$", GLOSSARY, re.MULTILINE)}


def test_the_pages_and_the_docs_have_the_same_glossary() -> None:
    assert read("src/trace_ves/web/glossary.md") == GLOSSARY, "edit the file in src, and copy it to docs"
    assert [term.name for term in glossary().values()] == TERMS
    assert not [term.id for term in glossary().values() if re.search(r"[*`\]]|\(#", term.text)]


def test_every_symbol_of_the_pages_is_explained() -> None:
    markup = "".join(path.read_text() for path in (ROOT / "src/trace_ves/web/templates").glob("*.html"))
    named = set(re.findall(r'(?:named|sign)\("([^"]+)"', markup))
    assert named | {*(bucket.term for bucket in BUCKETS.values()), *ENDINGS} <= glossary().keys()
    symbols = {"Cov@2 ↑": "covk", "± by video": "half-width", "Seconds": "seconds-of-calls", "Fr": "fr", "no such": ""}
    assert {heading: term_of(heading) for heading in symbols} == symbols


def test_every_term_is_explained_and_has_an_anchor_of_its_own() -> None:
    assert len({anchor(term) for term in TERMS}) == len(TERMS) > 60
    for term, text in re.findall(r"^### (.+)\n\n(.*)$", GLOSSARY, re.MULTILINE):
        assert len(text.split()) > 2, term


def test_everything_that_tables_show_is_explained() -> None:
    metrics = {re.sub(r"@\d+$", "@k", symbol) for symbol in Columns([], ep_ref=None, k=2, frames_known=True).metrics}
    rows = {*VARIANTS, *ENDINGS, "Rejected", "Left", "Waiting", "Changed", "No answer"}
    assert (metrics | rows) - set(TERMS) == set()
    columns = cost_table([]).columns
    assert not [each for each in columns if not {each.title, f"{each.title} {each.unit}"} & set(TERMS)]


def test_every_link_within_the_page_leads_to_a_term() -> None:
    links = set(re.findall(r"\]\(#([^)]+)\)", GLOSSARY))
    assert links
    assert links <= ANCHORS
