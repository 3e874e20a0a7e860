"""docs/glossary.md explains every symbol that tables show, under anchors that pages can link to."""

from __future__ import annotations

import re
from pathlib import Path

from trace_ves.agent.ablations import VARIANTS
from trace_ves.runs.estimate import cost_table
from trace_ves.ves.metrics import Columns
from trace_ves.web.search_view import TERMINATIONS

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub and the docs site make it."""
    return re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-")


TERMS = re.findall(r"^### (.+)$", GLOSSARY, re.MULTILINE)
ANCHORS = {anchor(term) for term in re.findall(r"^#{1,3} (.+)$", GLOSSARY, re.MULTILINE)}


def test_every_term_has_an_anchor_of_its_own() -> None:
    assert len({anchor(term) for term in TERMS}) == len(TERMS) > 60


def test_every_term_is_explained() -> None:
    for term, text in re.findall(r"^### (.+)\n\n(.*)$", GLOSSARY, re.MULTILINE):
        assert len(text.split()) > 2, term


def test_everything_that_tables_show_is_explained() -> None:
    metrics = {re.sub(r"@\d+$", "@k", symbol) for symbol in Columns([], ep_ref=None, k=2).metrics}
    rows = {*VARIANTS, *TERMINATIONS, "Rejected", "Left", "Waiting", "Changed", "No answer"}
    assert (metrics | rows) - set(TERMS) == set()
    columns = cost_table([]).columns
    assert not [each for each in columns if not {each.title, f"{each.title} {each.unit}"} & set(TERMS)]


def test_every_link_within_the_page_leads_to_a_term() -> None:
    links = set(re.findall(r"\]\(#([^)]+)\)", GLOSSARY))
    assert links
    assert links <= ANCHORS
