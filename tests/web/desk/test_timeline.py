"""The desk's timeline and player in a real browser: dragging, marks, filmstrip, speeds, and two sides of a dispute."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from tests.web.desk.conftest import READY, SPANS, World
from tests.web.desk.test_browser import edges, play_all
from tests.web.desk.test_server import accept
from tests.web.test_browser import number_on_screen

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
    for key in ("m", "n", "m", "n", "m"):
        page.keyboard.press(key)
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
    for _ in range(3):
        page.keyboard.press("+")
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
    for name, later in (("ann", 0), ("bob", 2)):
        accept(world.with_task(name), spans=[[start + later, end + later] for start, end in SPANS])
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
    page.get_by_text("There is nothing to settle.").wait_for()
    entry = world.written("settlement/")
    assert entry.after["evidence"] == [[4, 6], *SPANS[1:]]


def test_strips_are_for_who_holds_the_video(world: World) -> None:
    ann, bob = world.with_task("ann"), world.client("bob")
    query = "/strip?id=c0001&start=0&end=32&count=8&height=54"
    response = ann.get(query)
    assert response.headers["content-type"] == "image/jpeg"
    picture = Image.open(BytesIO(response.content))
    assert picture.height == 54
    assert picture.width % 8 == 0
    assert bob.get(query).status_code == 403
    for start, end, count in ((-1, 3, 3), (0, "nan", 3), (0, 3, 61), (0, 3, 0)):
        assert ann.get(f"/strip?id=c0001&start={start}&end={end}&count={count}").status_code == 422
    assert ann.get("/strip?id=c0001&start=900&end=9&count=3").status_code == 200
