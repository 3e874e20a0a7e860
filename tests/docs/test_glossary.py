"""docs/glossary.md explains every symbol that tables show, under anchors that pages can link to."""

import re

from tests.docs import ROOT, read
from trace_ves.agent.ablations import VARIANTS
from trace_ves.runs.cost import cost_table
from trace_ves.ves.metrics import Columns
from trace_ves.web.glossary import anchor, glossary, term_of
from trace_ves.web.listing import BUCKETS
from trace_ves.web.search_view import ENDINGS

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
