"""The desk in a real browser: the loop, the keys that move edges, and hostile text that stays text."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.construction.histories import proposal
from tests.web.desk.conftest import EVIDENCE, NAME, READY, World
from tests.web.desk.test_server import XSS
from tests.web.test_browser import number_on_screen
from tests.web.web_bench import write_video
from trace_ves.construction.judged_item import ProposedItem
from trace_ves.core import Interval


def play_all(page: Any) -> None:
    """Play every interval to its end, four times as fast as it is, with the keyboard."""
    page.evaluate("document.querySelector('#player video').playbackRate = 4")
    for place in range(page.locator("#intervals .interval").count()):
        page.locator("#intervals .interval").nth(place).click()
        page.keyboard.press("Enter")
        page.wait_for_selector(".interval.chosen .played.done")
        page.keyboard.press("Enter")


def reject(page: Any, reason: str) -> None:
    """Reject the item with the keyboard."""
    page.keyboard.press("x")
    page.keyboard.type(reason)
    page.keyboard.press("Enter")  # in the reason's field, it rejects


def frame_shown(page: Any) -> int:
    """The number of the frame that the page says it shows."""
    return int(page.locator("#moment .number").inner_text().split()[1])


def edges(page: Any) -> tuple[float, float]:
    chosen = page.locator(".interval.chosen")
    return float(chosen.get_attribute("data-start")), float(chosen.get_attribute("data-end"))


def test_edges_move_by_frames_and_seconds_and_the_frame_is_shown(page: Any, world: World) -> None:
    assert number_on_screen(page) == 30
    for key, expected, frame in [
        ("q", (2.9, 6.0), 29),
        ("Q", (1.9, 6.0), 19),
        ("w", (2.0, 6.0), 20),
        ("W", (3.0, 6.0), 30),
        ("o", (3.0, 5.9), 59),
        ("P", (3.0, 6.9), 69),
        ("O", (3.0, 5.9), 59),
        ("p", (3.0, 6.0), 60),
    ]:
        page.keyboard.press(key)
        assert edges(page) == pytest.approx(expected)
        assert number_on_screen(page) == frame
    page.keyboard.press("n")
    assert edges(page) == (12, 15)
    page.keyboard.press("ArrowRight")
    assert number_on_screen(page) == 121
    page.keyboard.press("a")
    assert edges(page) == pytest.approx((12.1, 15))
    assert "moved from 0:12.000\u20130:15.000" in page.locator(".interval.chosen").inner_text()
    for _ in range(3):
        page.keyboard.press("W")
    assert edges(page) == pytest.approx((14.1, 15))
    assert "must end after its start" in page.locator("#notice").inner_text()
    page.get_by_role("button", name="Reject").click()
    assert "Say why" in page.locator("#notice").inner_text()
    page.keyboard.press("Escape")
    page.keyboard.press("y")
    page.get_by_text("interval 1 is not played yet").wait_for()
    play_all(page)
    page.keyboard.press("y")
    page.wait_for_url(world.address + "/")
    entry = world.written("verification/ann")
    assert entry.after["evidence"] == [[3.0, 6.0], [14.1, 15.0], [22.0, 26.0]]
    assert 0 < entry.seconds < 120


@pytest.mark.parametrize("mode", ["video", "stills"])
def test_nothing_asks_for_a_video_while_its_judgement_is_on_its_way(browser: Any, world: World, mode: str) -> None:
    """The server shows it only while the task is open. If the task stays open after all, so does the video."""
    page, ended = browser.new_page(), []
    if mode == "stills":
        page.route("**/video?*", lambda route: route.abort())
    strips: list[Any] = []
    page.route("**/strip?*", lambda route: strips.append(route))  # noqa: PLW0108  Playwright marks the handler
    page.on("requestfailed", lambda request: ended.append(request.url.partition("?")[0].removeprefix(world.address)))
    world.open_task(page, "ann")
    assert number_on_screen(page) == 30
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    held: list[Any] = []
    page.route("**/api/verification", lambda route: held.append(route))  # noqa: PLW0108  Playwright marks the handler
    reject(page, "not there")
    page.keyboard.press("Escape")
    page.keyboard.press("q")
    page.keyboard.press("+")  # the timeline would ask for a closer strip of pictures
    page.wait_for_timeout(2000)  # longer than the player waits for a seek before it asks for a picture
    assert [url.removeprefix(world.address) for url in asked] == ["/api/verification"]
    assert "/strip" in ended  # the one that was under way is called off
    held[0].abort()
    page.wait_for_selector("#notice:not([hidden])")
    assert "not saved yet" in page.locator("#notice").inner_text()
    page.keyboard.press("q")
    assert edges(page) == pytest.approx((2.8, 6.0))
    assert number_on_screen(page) == 28
    page.unroute("**/api/verification")
    page.get_by_role("button", name="Reject").click()
    page.wait_for_url(world.address + "/")
    page.context.close()


def test_a_judgement_does_not_overtake_a_report_of_what_was_played(page: Any, world: World) -> None:
    """The server would refuse the report: the task that it is about is closed."""
    held: list[Any] = []
    page.route("**/api/watched", lambda route: held.append(route))  # noqa: PLW0108  Playwright marks the handler
    page.keyboard.press("Enter")
    while not held:
        page.wait_for_timeout(50)
    page.locator("input[name=reason]").fill("not there")
    page.get_by_role("button", name="Skip").click()
    page.wait_for_timeout(500)
    assert not [each for each in world.store.ledger().entries if each.slot.startswith("skip/")]
    for route in held:
        route.continue_()
    page.get_by_text("You have no item open").wait_for()


def test_an_interval_plays_in_a_loop(page: Any, world: World) -> None:
    for _ in range(2):
        page.keyboard.press("O")  # 3-4 s: a short loop comes round soon
    page.keyboard.press("Enter")
    moments: list[int] = []
    rounds = 0
    while rounds < 2 and len(moments) < 400:
        page.wait_for_timeout(50)
        moments.append(frame_shown(page))
        rounds += moments[-1] < max(moments[-2:])
    assert page.locator("#intervals").get_attribute("data-looping") == "0"
    assert min(moments) >= 30
    assert max(moments) <= 100  # a busy browser turns back late, but it does
    assert rounds == 2
    page.keyboard.press("Enter")
    assert page.locator("#intervals").get_attribute("data-looping") == ""
    assert page.locator("#player video").evaluate("v => v.paused")


def test_hostile_words_do_nothing(new_page: Callable[..., Any], world: World) -> None:
    """Whatever would run would be an error of the page, and the fixture fails on those."""
    hostile = ProposedItem(NAME, 32.0, "x", XSS, (XSS, "b", "c", "d"), "A", EVIDENCE, (XSS,) * 3)
    world.propose("c0000", made=hostile)
    page = new_page()
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    world.open_task(page, "ann")
    assert page.locator("h1").inner_text() == XSS
    assert page.locator(".rationale").first.inner_text() == XSS
    assert page.locator("img[src=x]").count() == 0


def test_a_film_that_the_browser_cannot_play_loops_as_pictures(new_page: Callable[..., Any], world: World) -> None:
    write_video(world.project.folder / "videos" / "h.mp4", codec="libx265", seconds=8)
    world.propose("c0000", made=proposal("videos/h.mp4", (Interval(1, 2), Interval(4, 6))))
    page = new_page()
    world.open_task(page, "ann")
    page.wait_for_selector("#player[data-mode=stills]")
    page.keyboard.press("Enter")
    moments: list[int] = []
    while len(moments) < 400 and not (moments and moments[-1] < max(moments)):
        page.wait_for_timeout(50)
        moments.append(frame_shown(page))
    assert (min(moments), max(moments) <= 20) == (10, True)
    assert len(set(moments)) > 3
    page.goto("about:blank")  # it would report what it plays to a server that is gone


def test_edits_of_every_kind_and_they_survive_a_reload(page: Any, world: World) -> None:
    page.keyboard.press("n")
    page.keyboard.press("Delete")
    assert page.locator("#intervals .interval").count() == 2
    page.keyboard.press("z")
    assert page.locator("#intervals .interval").count() == 3
    page.evaluate("document.dispatchEvent(new CustomEvent('seek', { detail: 8 }))")
    page.keyboard.press("i")
    assert edges(page) == (8, 10)
    assert "added by you" in page.locator(".interval.chosen").inner_text()
    page.keyboard.press("3")
    assert page.locator(".options li.gold").inner_text().startswith("C")
    assert "your answer" in page.locator(".options li.gold").inner_text()
    page.keyboard.press("c")
    page.keyboard.type("the second one is short")
    page.keyboard.press("Escape")
    page.reload()
    page.wait_for_selector(READY)
    assert page.locator("#intervals .interval").count() == 4
    assert "your answer" in page.locator(".options li.gold").inner_text()
    play_all(page)
    page.reload()
    page.wait_for_selector("#intervals[data-ready]")
    assert page.locator("#intervals .played.done").count() == 4
    page.keyboard.press("y")
    page.wait_for_url(world.address + "/")
    entry = world.written("verification/ann")
    assert entry.after["evidence"] == [[3, 6], [8, 10], [12, 15], [22, 26]]
    assert (entry.after["answer"], entry.after["comment"]) == ("C", "the second one is short")
    assert entry.after["looking"]["watched_share"] >= 0.95


def test_every_key_is_in_the_help_and_unsure_and_skip_need_a_reason(page: Any, world: World) -> None:
    page.keyboard.press("?")
    told = set(page.locator("#help dd").all_inner_texts())
    assert {"Start one frame earlier", "End one second later", "Play the chosen interval in a loop"} <= told
    assert {"Accept the item with these intervals", "Reject: say why", "Next interval"} <= told
    page.keyboard.press("Escape")
    page.keyboard.press("h")
    assert "what are you unsure about" in page.locator("#notice").inner_text()
    page.keyboard.type("too dark")
    page.get_by_role("button", name="Skip").click()
    page.get_by_text("You have no item open").wait_for()
    assert "skipped" in page.locator("#recent").inner_text()
    page.wait_for_selector("[data-key=Z]:not([disabled])")  # a key is heard once the scripts are there
    page.keyboard.press("Z")
    page.wait_for_selector("#recent", state="detached")
    page.wait_for_selector("[data-key=n]:not([disabled])")
    page.keyboard.press("n")
    page.wait_for_selector("#intervals[data-ready]")
    page.locator("input[name=reason]").fill("too dark")
    page.get_by_role("button", name="Unsure").click()
    page.wait_for_url(world.address + "/")
    entry = world.written("verification/ann")
    assert (entry.after["unsure"], entry.after["reason"]) == (True, "too dark")


def test_two_browsers_on_one_item(browser: Any, new_page: Callable[..., Any], world: World) -> None:
    """Two people at once do not meet; the second window of one person cannot judge again what the first one has."""
    ann, bob, second = new_page(), new_page(), browser.new_page()
    for page, name in ((ann, "ann"), (bob, "bob")):
        world.open_task(page, name)
    world.sign_in(second, "ann")
    second.get_by_role("button", name="Continue").click()
    second.wait_for_selector("#intervals[data-ready]")
    ann.keyboard.press("q")
    play_all(ann)
    ann.keyboard.press("y")
    ann.wait_for_url(world.address + "/")
    assert edges(bob) == (3.0, 6.0)  # what ann moved is hers alone
    for page in (bob, second):
        reject(page, "not there")
    bob.wait_for_url(world.address + "/")
    second.get_by_text("this is not the assignment that you hold").wait_for()
    second.context.close()
    judged = [each for each in world.store.ledger().entries if each.slot.startswith("verification/")]
    assert [(each.who, (each.after or {})["accepted"]) for each in judged] == [("ann", True), ("bob", False)]
