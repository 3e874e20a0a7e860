"""A day's work at the desk: what waits, what was done, the guidelines, and undo from wherever one is."""

from collections.abc import Callable
from typing import Any

from tests.web.desk.conftest import READY, SPANS, World
from tests.web.desk.test_server import XSS, accept, to_leave_one_out
from trace_ves.construction.desk.pages import today, verdict_text
from trace_ves.construction.ledger import Change


def test_the_first_page_tells_what_waits_and_what_was_done(world: World) -> None:
    world.propose("c0002", "c0003", "c0004")
    ann = world.client("ann")
    assert '<dd id="left">4 items</dd>' in ann.get("/").text
    ann.post("/api/next")
    page = ann.get("/").text
    assert '<dd id="left">4 items</dd>' in page
    assert "It stays yours, with your edits, for 24 hours" in page
    accept(ann)
    page = ann.get("/").text
    assert '<dd id="left">3 items</dd>' in page
    assert '<dd id="today">1</dd>' in page
    assert "accepted with 3 intervals" in page
    assert "accepted with 3 intervals" in ann.get("/judgements").text
    assert "c0001" not in world.client("bob").get("/judgements").text


def test_verdicts_in_words() -> None:
    assert verdict_text("verification", {"accepted": True, "evidence": SPANS, "reason": "", "answer": "C"}) == (
        "accepted with 3 intervals, answer C"
    )
    assert verdict_text("verification", {"accepted": False, "evidence": [], "reason": "no"}) == "rejected: no"
    doubt = {"accepted": False, "evidence": [], "reason": "dark", "unsure": True}
    assert verdict_text("verification", doubt) == "unsure: dark"
    assert [verdict_text("without", {"answer": each}) for each in ("B", None)] == ["decide B", "do not decide"]
    assert verdict_text("skip", {"reason": "I know them"}) == "I know them"
    assert verdict_text("settlement", {"keep": True, "evidence": [], "reason": ""}) == "kept"


def test_today_begins_at_midnight(world: World) -> None:
    now = world.clock()
    world.store.append([Change("c0001", "verification/ann", "ann", {}, seconds=1800)])
    assert (today(world.store.ledger(), "ann", now).judged, today(world.store.ledger(), "ann", now).pace) == (1, 2)
    assert today(world.store.ledger(), "ann", now + 86400).judged == 0
    assert today(world.store.ledger(), "bob", now).pace is None


def test_guidelines_are_the_projects_own_and_run_nothing(world: World) -> None:
    ann = world.client("ann")
    assert "Leave-one-out" in ann.get("/guidelines").text
    text = f"# Ours\n\n{XSS}\n\n[a](javascript:alert(1))\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    (world.project.folder / "guidelines.md").write_text(text)
    page = ann.get("/guidelines").text
    assert "<h1>Ours</h1>" in page
    assert "<td>1</td>" in page
    assert "<img src=x" not in page
    assert 'href="javascript' not in page
    (world.project.folder / "guidelines.md").unlink()
    assert "Visual verification" in ann.get("/guidelines").text
    assert world.client().get("/guidelines").status_code == 401


def test_sign_in_speaks_to_annotators(world: World) -> None:
    page = world.client().get("/sign-in").text
    assert "build invite" not in page
    assert "that the operator of this desk sent you" in page


def test_pause_keeps_the_place_and_undo_is_everywhere(new_page: Callable[..., Any], world: World) -> None:
    world.propose("c0002")
    page = new_page()
    world.open_task(page, "ann")
    page.keyboard.press("n")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("e")
    page.get_by_text("You have c0001 open").wait_for()
    page.get_by_role("button", name="Continue").click()
    page.wait_for_selector(READY)
    page.get_by_text("0:12.100").first.wait_for()
    assert page.locator(".interval.chosen .ordinal").inner_text() == "2"
    page.locator("input[name=reason]").fill("not there")
    page.get_by_role("button", name="Reject").click()
    page.get_by_text("c0002 · visual verification").wait_for()
    page.wait_for_selector("[data-key=Z]:not([disabled])")
    page.keyboard.press("Z")
    page.get_by_text("You have c0001 open").wait_for()


def test_a_partial_set_can_be_skipped(world: World) -> None:
    cat, _ = to_leave_one_out(world)
    assert cat.post("/api/skip", item="c0001", reason="").status_code == 422
    assert cat.post("/api/skip", item="c0001", reason="the clips do not play").json() == {"go": "/"}
    assert world.client("dan").post("/api/next").json() == {"go": "/task"}
