"""The page as it looks: at three widths, in light and dark; symbols explain themselves, and tables sort."""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.web.test_browser import CONTRAST, open_question
from tests.web.test_server import get

PAGES = {
    "runs": "/",
    "run": "/run?name=trace@scripted",
    "question": "/question?run=trace@scripted&id=q003",
    "two": "/question?run=trace@scripted&id=q003&beside=vca@scripted",
    "glossary": "/glossary",
    "costs": "/costs?by=stage",
}
WIDER = "document.documentElement.scrollWidth - window.innerWidth"
OUTSIDE = """() => [...document.querySelectorAll('main *')].filter((each) => {
  const box = each.getBoundingClientRect();
  if (!box.width || !box.height || box.right <= window.innerWidth + 1) return false;
  for (let up = each.parentElement; up; up = up.parentElement)
    if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(up).overflowX)) return false;
  return true;
}).map((each) => each.outerHTML.slice(0, 80))"""
"""What sticks out of the window and of everything that scrolls."""
CUT_NAMES = """() => [...document.querySelectorAll('.names text')].filter((each) =>
  each.getBoundingClientRect().left < each.ownerSVGElement.getBoundingClientRect().left).map((e) => e.textContent)"""


NARROW_WORDS = """() => [...document.querySelectorAll('#questions .words')].filter((each) => {
  const text = each.querySelector('span');
  const isCut = text.scrollWidth > (text.clientWidth || text.offsetWidth) + 1;
  return each.getBoundingClientRect().width < 130 || (isCut && window.innerWidth < 1440);
}).map((each) => each.textContent.trim().slice(0, 80))"""
"""Questions of a run's page in too narrow a column, or cut where they can have several lines."""

PARTS = ["body", ".quiet", ".term", "thead th", ".with", ".terms dd", ".action", ".agrees", ".disagrees", ".facts dt"]
PARTS += [".crumbs a", ".badge.gold", ".what", ".anchor"]


@pytest.mark.parametrize("name", PAGES)
def test_nothing_sticks_out_at_any_width_and_text_stands_out(
    new_page: Callable[..., Any], address: str, name: str
) -> None:
    page = new_page(color_scheme="light")
    page.goto(address + PAGES[name])
    grounds = set()
    for width in (390, 768, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate(WIDER) <= 0, width
        assert page.evaluate(OUTSIDE) == [], width
        assert page.evaluate(CUT_NAMES) == [], width
        assert page.evaluate(CONTRAST, PARTS) == [], width
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert page.evaluate(NARROW_WORDS) == [], width
        page.keyboard.press("t")  # light, dark, light
    assert len(grounds) == 2


def test_every_symbol_has_a_tooltip_and_leads_to_the_glossary(page: Any, address: str) -> None:
    open_question(page, address, "trace", "q002")
    symbols = ".sign, .mark-conflict, .mark-stable, .mark-fact, .mark-open, .status, .action"
    shown = page.locator(symbols).evaluate_all(
        "all => all.map((e) => e.matches('a') ? e : e.querySelector('a')).map((a) => [a.title, a.getAttribute('href')])"
    )
    assert len(shown) > 20
    assert all(title and href.startswith("/glossary#") for title, href in shown)
    page.locator(".mark-conflict").first.click()
    page.wait_for_url("**/glossary#conflict")
    assert "unsettles" in page.locator(":target").inner_text()
    anchors = set(page.locator(".terms [id]").evaluate_all("all => all.map((e) => e.id)"))
    for path in PAGES.values():
        assert set(re.findall(r"/glossary#([\w-]+)", get(address, path).text)) <= anchors


def test_evidence_boxes_tell_covered_from_missed(page: Any, address: str) -> None:
    open_question(page, address, "vca", "q003")
    states = page.locator(".interval").evaluate_all("all => all.map((e) => e.getAttribute('class'))")
    assert states == ["interval covered", "interval covered", "interval missed"]
    assert page.locator(".interval .count").all_text_contents() == ["×2", "×3", "×0"]  # noqa: RUF001  as the page has it
    looks = page.locator(".interval .gold").evaluate_all(
        "all => all.map((e) => { const s = getComputedStyle(e); return s.fill + s.stroke + s.strokeDasharray; })"
    )
    assert looks[0] == looks[1] != looks[2]


def test_a_zoomed_timeline_keeps_labels_in_view(page: Any, address: str) -> None:
    open_question(page, address, "trace", "q000")
    page.keyboard.press("e")
    for times in range(7):
        track = page.locator(".track").bounding_box()
        boxes = [each.bounding_box() for each in page.locator(".lanes .axis").all()]
        seen = [
            box for box in boxes if track["x"] <= box["x"] and box["x"] + box["width"] <= track["x"] + track["width"]
        ]
        assert len(seen) >= 3, times
        ordered = sorted(seen, key=lambda box: box["x"])
        assert all(a["x"] + a["width"] < b["x"] for a, b in pairwise(ordered))
        page.keyboard.press("+")
    assert re.fullmatch(r"\d:\d\d\.\d", page.locator(".lanes .axis").first.text_content())


def test_tables_sort_by_any_column_and_back(page: Any, address: str) -> None:
    page.goto(address)
    table = page.locator("table[data-table=main]")
    names = table.locator("tbody tr:not(.heading) th")
    before = names.all_inner_texts()
    button = table.get_by_role("button", name="Sort by Fr", exact=True)
    head = table.locator("th[data-sort=Fr]")
    button.click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert names.all_inner_texts() == ["uniform-16", "avp", "vca", "trace"]
    button.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert names.all_inner_texts() == ["trace", "vca", "avp", "uniform-16"]
    button.press("Enter")
    assert names.all_inner_texts() == before
    assert table.locator("tr.heading").count() == 2


def test_questions_sort_over_all_their_pages(page: Any, address: str) -> None:
    page.goto(f"{address}/run?name=trace@scripted&family=temporal-ordering")
    page.locator("#questions thead").get_by_role("link", name="Frames").click()
    page.wait_for_url("**sort=frames*")
    assert "family=temporal-ordering" in page.url
    frames = [int(each) for each in page.locator("#questions [data-label=frames]").all_inner_texts()]
    assert len(frames) == 8
    assert frames == sorted(frames)
    page.locator("#questions thead").get_by_role("link", name="Frames").click()
    page.wait_for_url("**sort=-frames*")
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Frames")
    page.locator("a[data-row]").first.click()
    assert page.locator(".place").inner_text() == "1 / 8"  # the order of the list is that of the steps
