"""Every decision has a number of its own, the same in its name and its title."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

DECISIONS = sorted((Path(__file__).parents[2] / "docs/decisions").glob("[0-9]*.md"))


def number(file: Path) -> int:
    return int(file.name.partition("-")[0])


def test_no_number_is_given_twice() -> None:
    assert not [found for found, count in Counter(map(number, DECISIONS)).items() if count > 1]


def test_titles_say_the_number() -> None:
    titles = {file.name: file.read_text(encoding="utf-8").splitlines()[0] for file in DECISIONS}
    assert not [name for name, title in titles.items() if not re.match(rf"# {int(name[:4])}\. \S", title)]
