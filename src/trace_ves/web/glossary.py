"""The glossary of the pages, read from `glossary.md`, which is also a page of the docs."""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

_ALIASES: Final = {
    "±": "half-width",
    "± by video": "half-width",
    "frames": "fr",
    "input": "input-tokens",
    "cached": "cached-tokens",
    "output": "output-tokens",
    "seconds": "seconds-of-calls",
}
"""The terms of column headings that have a shorter name."""


@dataclass(frozen=True, slots=True)
class Term:
    """One entry of the glossary, as plain text."""

    id: str  # its anchor, also on the docs site
    name: str
    group: str
    text: str

    @property
    def short(self) -> str:
        """The first sentence, for a tooltip."""
        return re.split(r"(?<=[.?]) (?=[A-Z])", self.text)[0]


@cache
def glossary() -> dict[str, Term]:
    """Every term by its id, in the order of the page."""
    page = (resources.files("trace_ves.web") / "glossary.md").read_text(encoding="utf-8")
    terms = {}
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        group, *entries = re.split(r"^### ", section, flags=re.MULTILINE)
        for entry in entries:
            name, _, text = entry.partition("\n")
            plain = " ".join(re.sub(r"\[([^]]+)\]\([^)]*\)|[*`]", r"\1", text).split())  # no links and no emphasis
            terms[anchor(name)] = Term(anchor(name), name, group.strip(), plain)
    return terms


def anchor(name: str) -> str:
    """The anchor of a heading, as GitHub and the docs site make it."""
    return re.sub(r"[^\w\s-]", "", name).strip().lower().replace(" ", "-")


def term_of(heading: str) -> str:
    """The id of the term for a column's heading, or an empty string: `Cov@2 ↑` is `covk`."""
    name = re.sub(r"@\d+", "@k", heading.removesuffix(" ↑")).lower()
    term = _ALIASES.get(name) or anchor(name)
    return term if term in glossary() else ""
