"""Every page of the desk, as each person sees it: axe-core finds no serious fault in light and dark, and it fits."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.web.desk.conftest import World

SERIOUS = {"serious", "critical"}
READY = {"/task": "#intervals[data-ready], #clips video", "/dispute?id=c0002": "#intervals[data-ready]"}
"""What a page shows when its scripts have done their work."""
PAGES = {
    "": ("/sign-in",),
    "ann": ("/", "/task", "/guidelines", "/judgements", "/nothing-here"),
    "cat": ("/", "/task"),
    "dora": ("/", "/dispute?id=c0002"),
    "olga": ("/", "/status"),
}
"""By person, nobody first: the pages that they see."""


FITS = """() => {
  const covered = [...document.querySelectorAll("main button, main input")].filter((each) => {
    if (!each.offsetWidth) return false;
    each.scrollIntoView({ block: "center" });
    const { left, top, width, height } = each.getBoundingClientRect();
    return !each.contains(document.elementFromPoint(left + width / 2, top + height / 2));
  });
  const top = (selector) => document.querySelector(selector)?.getBoundingClientRect().top ?? 0;
  const isLate = innerWidth < 1000 && top("#desk-timeline") > top(".verdict") && top("#desk-timeline") !== 0;
  return [document.documentElement.scrollWidth > innerWidth, covered.map((each) => each.outerHTML), isLate];
}"""
"""Whether the page is too wide, which controls are behind others, and whether a narrow one has its timeline last."""


CONTRAST = "axe.run({ runOnly: ['color-contrast'], resultTypes: ['violations'] })"
"""The one rule that dark colours can break, once axe is in the page."""


def fill(world: World) -> None:
    """Work of every kind: an item in leave-one-out, a disagreement, one to verify, one that is held."""
    world.to_leave_one_out()
    world.propose("c0002")
    world.disagree("c0002")
    world.propose("c0003")
    world.with_task("ann")


def shown_pages(new_page: Callable[..., Any], world: World) -> Iterator[tuple[str, Any]]:
    """Every page of the desk in a browser, each with a name."""
    for name, paths in PAGES.items():
        page = new_page()
        # One page is meant to be missing: its status is no error of the page.
        page.route("**/nothing-here", lambda route: route.fulfill(response=route.fetch(), status=200))
        if name:
            world.sign_in(page, name)
        for path in paths:
            page.goto(world.address + path, wait_until="domcontentloaded")
            if path in READY:
                page.wait_for_selector(READY[path])
            yield f"{name or 'nobody'}{path}", page
        page.goto("about:blank")


def test_no_page_has_a_serious_fault(new_page: Callable[..., Any], world: World) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    fill(world)
    faults, looked_at = [], 0
    for name, page in shown_pages(new_page, world):
        for width in (1440, 768, 390):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(FITS) == [False, [], False], (name, width)
        for colours in ("light", "dark"):
            page.emulate_media(color_scheme=colours)
            found = axe.run(page).response if colours == "light" else page.evaluate(CONTRAST)
            looked_at += len(found["passes"])
            faults += [
                f"{name}, {colours}: {fault['id']}: {fault['help']}: {node['html'][:160]}"
                for fault in found["violations"]
                if fault["impact"] in SERIOUS
                for node in fault["nodes"]
            ]
    assert faults == []
    assert looked_at > 100


def test_axe_would_notice(browser: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = browser.new_page()
    page.set_content("<html><body><img src='x'><p style='color:#eee;background:#fff'>pale</p></body></html>")
    found = {fault["id"]: fault["impact"] for fault in axe.run(page).response["violations"]}
    page.close()
    assert {found["image-alt"], found["color-contrast"]} <= SERIOUS
