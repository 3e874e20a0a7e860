"""Every decision has a unique number, the same in its name and its title, is short, and is in the index once."""

import re
from collections import Counter

from tests.docs import ROOT

FOLDER = ROOT / "docs" / "decisions"
DECISIONS = {file.name: file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("[0-9]*.md"))}


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
