"""The desk in a real browser: keys, the loop, the timeline and its marks, two sides of a dispute, hostile text."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.construction.histories import proposal
from tests.web.desk.conftest import HOSTILE, READY, SPANS, XSS, World
from tests.web.test_browser import number_on_screen
from tests.web.web_bench import write_video
from trace_ves.core import Interval


def play_all(page: Any) -> None:
    """Play every interval to its end, four times as fast as it is, with the keyboard."""
    page.evaluate("document.querySelector('#player video').playbackRate = 4")
    for place in range(page.locator("#intervals .interval").count()):
        page.locator("#intervals .interval").nth(place).click()
        page.keyboard.press("Enter")
        page.wait_for_selector(".interval.chosen .played.done")
        page.keyboard.press("Enter")


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def reject(page: Any, reason: str) -> None:
    """Reject the item with the keyboard."""
    page.keyboard.press("x")
    page.keyboard.type(reason)
    page.keyboard.press("Enter")  # in the reason's field, it rejects


def frames_shown(page: Any, rounds: int) -> list[int]:
    """The numbers of the frames that the page says it shows, until it has gone back so often; 400 at most."""
    numbers: list[int] = []
    while len(numbers) < 400 and sum(later < earlier for earlier, later in pairwise(numbers)) < rounds:
        page.wait_for_timeout(50)
        numbers.append(int(page.locator("#moment .number").inner_text().split()[1]))
    assert len(numbers) < 400
    return numbers


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
    press(page, "W", "W", "W")
    assert edges(page) == pytest.approx((14.1, 15))
    assert "must end after its start" in page.locator("#notice").inner_text()
    page.get_by_role("button", name="Reject").click()
    assert "Say why" in page.locator("#notice").inner_text()
    press(page, "Escape", "y")
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
    press(page, "Escape", "q", "+")
    # The timeline would ask for a closer strip of pictures, and the player for a picture when a seek takes as long.
    page.wait_for_timeout(2000)
    assert [url.removeprefix(world.address) for url in asked] == ["/api/verification"]
    assert "/strip" in ended  # the one that was under way is called off
    held[0].abort()
    page.get_by_text("not saved yet").wait_for()
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
    press(page, "O", "O", "Enter")  # 3-4 s: a short loop comes round soon
    moments = frames_shown(page, rounds=2)
    assert page.locator("#intervals").get_attribute("data-looping") == "0"
    assert min(moments) >= 30
    assert max(moments) <= 100  # a busy browser turns back late, but it does
    page.keyboard.press("Enter")
    assert page.locator("#intervals").get_attribute("data-looping") == ""
    assert page.locator("#player video").evaluate("v => v.paused")


def test_hostile_words_do_nothing(new_page: Callable[..., Any], world: World) -> None:
    """Whatever would run would be an error of the page, and the fixture fails on those."""
    world.propose("c0000", made=HOSTILE)
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
    moments = frames_shown(page, rounds=1)
    assert (min(moments), max(moments) <= 20) == (10, True)
    assert len(set(moments)) > 3
    page.goto("about:blank")  # it would report what it plays to a server that is gone


def test_edits_of_every_kind_and_they_survive_a_reload(page: Any, world: World) -> None:
    press(page, "n", "Delete")
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
    press(page, "Escape", "h")
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


def test_pause_keeps_the_place_and_undo_is_everywhere(page: Any, world: World) -> None:
    world.propose("c0002")
    press(page, "n", "ArrowRight", "e")
    page.get_by_text("You have c0001 open").wait_for()
    page.get_by_role("button", name="Continue").click()
    page.wait_for_selector(READY)
    page.get_by_text("0:12.100").first.wait_for()
    assert page.locator(".interval.chosen .ordinal").inner_text() == "2"
    page.locator("input[name=reason]").fill("not there")
    page.get_by_role("button", name="Reject").click()
    page.get_by_text("c0002 · visual verification").wait_for()
    page.wait_for_selector(READY)  # what the page still asks for would be refused once its task is closed
    page.wait_for_selector("[data-key=Z]:not([disabled])")
    page.keyboard.press("Z")
    page.get_by_text("You have c0001 open").wait_for()


# --- the timeline and the player ---

DURATION = 120.0
"""What the proposal says; the file is shorter."""
TIMES = "\u00d7"
MINUS = "\u2212"


def place(page: Any, seconds: float, *, above: float = 76) -> tuple[float, float]:
    """Where a moment is on the timeline's lane of intervals."""
    box = page.locator("#desk-timeline .zoomed").bounding_box()
    return box["x"] + box["width"] * seconds / DURATION, box["y"] + above + 10


def drag(page: Any, start: float, end: float) -> None:
    page.mouse.move(*place(page, start))
    page.mouse.down()
    page.mouse.move(*place(page, end), steps=6)
    page.mouse.up()


def test_edges_are_dragged_to_true_frames(page: Any, world: World) -> None:
    page.locator("#desk-timeline").scroll_into_view_if_needed()
    drag(page, 3.2, 1.53)  # from just inside the first interval
    start, end = edges(page)
    assert end == 6
    assert start == pytest.approx(1.5, abs=0.11)
    assert round(start * 10) == pytest.approx(start * 10)  # frames are at tenths of a second
    assert number_on_screen(page) == round(start * 10)
    page.keyboard.press("z")
    assert edges(page) == (3, 6)


def test_a_click_goes_there_and_shift_and_drag_make_an_interval(page: Any, world: World) -> None:
    page.locator("#desk-timeline").scroll_into_view_if_needed()
    page.mouse.click(*place(page, 20, above=10))
    assert abs(number_on_screen(page) - 200) <= 2
    page.keyboard.down("Shift")
    drag(page, 17, 19)
    page.keyboard.up("Shift")
    assert page.locator("#intervals .interval").count() == 4
    assert edges(page) == pytest.approx((17, 19), abs=0.11)
    drag(page, 5, 13)  # on a bar, it chooses and drags nothing
    assert page.locator("#intervals .interval").count() == 4
    page.mouse.move(*place(page, 25, above=10))
    page.wait_for_selector("#desk-timeline .hover:not([hidden])")
    assert page.locator("#desk-timeline .hover output").inner_text().startswith("0:2")


def test_marks_are_set_while_watching_and_stay(page: Any, world: World) -> None:
    press(page, "m", "n", "m", "n", "m")
    assert page.locator("#mark-count").inner_text() == "3 marks"
    page.keyboard.press("[")
    assert number_on_screen(page) == 120
    page.keyboard.press("M")
    page.reload()
    page.wait_for_selector("#player[data-ready]")
    assert page.locator("#mark-count").inner_text() == "2 marks"
    assert page.locator("#desk-timeline .mark").count() == 2


def test_the_filmstrip_shows_the_whole_video_and_zoom_keeps_the_moment_in_view(page: Any, world: World) -> None:
    page.keyboard.press("f")
    cells = page.locator("#filmstrip .cell")
    assert cells.count() == 30
    assert page.locator("#filmstrip .cell.inside").count() == 5
    cells.nth(7).click()
    assert number_on_screen(page) == 280
    assert "now" in cells.nth(7).get_attribute("class")
    page.keyboard.press("f")
    assert page.locator("#filmstrip").is_hidden()
    press(page, "+", "+", "+")
    box = page.locator("#desk-timeline .track").bounding_box()
    head = page.locator("#desk-timeline .playhead").bounding_box()
    assert box["x"] <= head["x"] <= box["x"] + box["width"]
    assert page.locator("#desk-timeline .zoomed").bounding_box()["width"] == pytest.approx(8 * box["width"], rel=0.01)
    page.keyboard.press("=")
    assert page.locator("#desk-timeline .zoomed").bounding_box()["width"] == pytest.approx(box["width"], rel=0.01)


def test_playing_goes_back_and_on_at_any_speed(page: Any, world: World) -> None:
    assert number_on_screen(page) == 30
    speed = page.locator("#speed")
    for key, expected in zip("<<>>>>>>", ("0.5", "0.25", "0.5", "1", "1.5", "2", "4", "4"), strict=True):
        page.keyboard.press(key)
        assert speed.inner_text() == expected + TIMES
    assert page.locator("#player video").evaluate("v => v.playbackRate") == 4
    page.keyboard.press("l")
    assert speed.inner_text() == "1" + TIMES
    assert not page.locator("#player video").evaluate("v => v.paused")
    page.keyboard.press("l")
    assert speed.inner_text() == "2" + TIMES
    page.keyboard.press("k")
    assert page.locator("#player video").evaluate("v => v.paused")
    page.keyboard.press("j")
    assert speed.inner_text() == MINUS + "1" + TIMES
    page.get_by_text("0:02.", exact=False).first.wait_for()  # back over the second that it began at
    page.keyboard.press("k")
    assert number_on_screen(page) < 30


def test_two_sides_on_one_timeline_and_a_key_for_each(new_page: Callable[..., Any], world: World) -> None:
    world.disagree()
    page = new_page()
    world.sign_in(page, "dora")
    page.wait_for_selector("#disputes")
    page.keyboard.press("n")
    page.wait_for_selector(READY)
    assert page.locator("#iou").inner_text() == "0.24"
    assert page.locator("#desk-timeline .side0 .piece").count() == 3
    page.keyboard.press("B")
    assert edges(page) == (5, 8)
    page.keyboard.press("U")
    assert edges(page) == (3, 8)
    page.keyboard.press("A")
    assert edges(page) == (3, 6)
    page.keyboard.press("W")
    play_all(page)
    page.keyboard.press("y")
    page.get_by_text("There are no disagreements to settle.").wait_for()
    entry = world.written("settlement/")
    assert entry.after["evidence"] == [[4, 6], *SPANS[1:]]
