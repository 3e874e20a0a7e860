"""The page in a real browser: what is there, where a seek lands, what keys do, and how it looks.

It looks well at three widths, in light and dark; symbols explain themselves, and tables sort.
"""

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.web.conftest import library_in, serving
from tests.web.test_server import get, item, line, write
from tests.web.web_bench import BITS, BLOCK, HEIGHT, WIDTH, write_video

NUMBER_ON_SCREEN = """([bits, block, width, height]) => {
  const still = document.querySelector('#player .still');
  const source = still && !still.hidden ? still : document.querySelector('#player video');
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [width, height];
  const pen = canvas.getContext('2d');
  pen.drawImage(source, 0, 0, width, height);
  let number = 0;
  for (let bit = 0; bit < bits; bit++) {
    if (pen.getImageData((bit + 0.5) * block, block / 2, 1, 1).data[0] > 127) number |= 1 << bit;
  }
  return number;
}"""


def number_on_screen(page: Any) -> int:
    """The number that the picture on screen carries in its own pixels, once the seek is over."""
    page.wait_for_selector("#player[data-shown]:not([data-shown=''])")
    for _ in range(100):  # a busy browser paints the picture a little later; until then it is black
        if number := int(page.evaluate(NUMBER_ON_SCREEN, [BITS, BLOCK, WIDTH, HEIGHT])):
            break
        page.wait_for_timeout(100)
    return number


def open_question(page: Any, address: str, run: str, question: str, **more: str) -> None:
    query = "&".join(f"{key}={value}" for key, value in {"run": f"{run}@scripted", "id": question, **more}.items())
    page.goto(f"{address}/question?{query}")
    page.wait_for_selector("#player[data-ready]")


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def seek(page: Any, seconds: float) -> None:
    page.evaluate("t => document.dispatchEvent(new CustomEvent('seek', {detail: t}))", seconds)


def test_from_the_audit_to_a_story(page: Any, address: str) -> None:
    page.goto(address)
    rows = page.locator("table[data-table=main] tbody tr:not(.heading)")
    assert sorted(rows.locator("th").all_inner_texts()) == ["avp", "trace", "uniform-16", "vca"]
    assert page.locator("#buckets .bars tr").count() == 4
    assert page.locator("#frontier svg a").count() == 4
    assert {"families", "intervals", "comparisons"} <= {
        table.get_attribute("data-table") for table in page.locator("table.audit").all()
    }
    page.get_by_role("link", name="trace", exact=True).first.click()
    assert page.locator("#count").inner_text() == "12 of 12 questions"
    page.get_by_role("link", name="q002").click()
    assert page.locator("h1").inner_text().startswith("Which option names the scenes")


def test_frames_of_a_call_at_full_size(page: Any, address: str) -> None:
    open_question(page, address, "trace", "q000")
    call = page.locator("details.call").nth(1)
    call.locator("> summary").click()
    frames = call.locator(".frames li")
    frames.first.wait_for()
    assert frames.count() == 8
    assert call.locator(".in-evidence").count() == 3
    frames.first.locator("button").click()
    picture = page.locator("#full img")
    page.wait_for_selector("#full[data-loaded]")
    assert (picture.evaluate("i => i.naturalWidth"), picture.evaluate("i => i.naturalHeight")) == (WIDTH, HEIGHT)
    assert "frame 1 of 8 of anchor extraction" in page.locator("#full .caption").inner_text()
    page.keyboard.press("ArrowRight")
    assert "frame 2 of 8" in page.locator("#full .caption").inner_text()
    page.get_by_role("button", name="In the video").click()
    assert number_on_screen(page) == 187
    assert "supplied to" in page.locator("#moment .seen-by").inner_text()


@pytest.mark.parametrize("question", ["q000", "q001"])
def test_seeking_lands_on_the_exact_frame(page: Any, address: str, question: str) -> None:
    """Also in the second video, whose first frame is not at 0 in the file."""
    open_question(page, address, "trace", question)
    by_the_browser = 0
    for wanted in (437, 0, 1199, 1, 600, 599, 42, 1000):
        seek(page, wanted / 10)
        assert number_on_screen(page) == wanted
        by_the_browser += page.locator("#player .still").is_hidden()
    assert by_the_browser >= 4  # the others took long, and the server's frame covered them
    page.keyboard.press("ArrowRight")
    assert number_on_screen(page) == 1001
    press(page, "ArrowLeft", "ArrowLeft")
    assert number_on_screen(page) == 999


def test_every_supplied_frame_is_shown_exactly(page: Any, address: str, world: Path) -> None:
    supplied = json.loads((world / "runs" / "vca@scripted.jsonl").read_text().splitlines()[0])["timestamps"]
    open_question(page, address, "vca", "q000")
    page.keyboard.press("0")
    for seconds in supplied[supplied[0] == 0 :]:
        page.keyboard.press("]")
        assert number_on_screen(page) == round(10 * seconds)
    page.keyboard.press("[")
    assert number_on_screen(page) == round(10 * supplied[-2])


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_odd_videos_are_exact_too(page: Any, tmp_path: Path, codec: str) -> None:
    """Frames of varying length in the browser's player, and a codec it lacks as pictures from the server."""
    (tmp_path / "bench").mkdir()
    moments = write_video(tmp_path / "bench" / "odd.mp4", codec=codec, seconds=12, variable=True)
    write(tmp_path, [item("odd.mp4", seconds=moments[-1] + 0.1)], [line("q")], run="mine@scripted")
    with serving(library_in(tmp_path)) as address:
        open_question(page, address, "mine", "q")
        if codec == "libx265":
            page.wait_for_selector("#player[data-mode=stills]")
        for wanted in (60, 3, 118, 119, 0, 61):
            seek(page, moments[wanted])
            assert number_on_screen(page) == wanted


def test_a_moment_sought_while_the_page_loads_is_shown(page: Any, address: str) -> None:
    """The first frame says where the file's clock starts: before it is there, no other may be sought."""
    films: list[Any] = []
    times: list[Any] = []
    page.route("**/video?*", lambda route: films.append(route))  # noqa: PLW0108  Playwright marks the handler
    page.route("**/times?*", lambda route: times.append(route))  # noqa: PLW0108
    page.goto(f"{address}/question?run=trace%40scripted&id=q000")
    seek(page, 43.7)
    while not (films and times):
        page.wait_for_timeout(50)
    page.unroute("**/video?*")
    films[0].continue_()
    while not page.evaluate("(v => v.readyState > 1 && !v.seeking)(document.querySelector('#player video'))"):
        page.wait_for_timeout(50)
    times[0].continue_()
    assert number_on_screen(page) == 437
    assert page.locator("#moment .time").inner_text() == "0:43.700"


def test_frames_are_exact_where_the_browser_tells_of_its_first_while_it_plays(page: Any, address: str) -> None:
    page.add_init_script("""
        const told = HTMLVideoElement.prototype.requestVideoFrameCallback;
        HTMLVideoElement.prototype.requestVideoFrameCallback = function (hears) {
          if (this.currentTime > 1 || this.paused && this.played.length) told.call(this, hears);
          else setTimeout(() => this.requestVideoFrameCallback(hears), 50);
        };
    """)
    open_question(page, address, "trace", "q000")
    page.keyboard.press(" ")
    while page.evaluate("document.querySelector('#player video').currentTime") < 1.5:
        page.wait_for_timeout(50)
    page.keyboard.press(" ")
    for wanted in (437, 42):
        seek(page, wanted / 10)
        assert number_on_screen(page) == wanted


def test_a_link_opens_a_question_at_a_moment(page: Any, address: str) -> None:
    page.goto(f"{address}/question?run=trace%40scripted&id=q000#t=63.04")
    page.wait_for_selector("#player[data-ready]")
    assert page.locator("#moment .time").inner_text() == "1:03.000"
    assert page.locator("#here").get_attribute("href") == "#t=63"
    page.evaluate("location.hash = '#t=21'")
    page.wait_for_function("document.querySelector('#moment .time').textContent === '0:21.000'")


def test_a_click_on_the_timeline_and_on_a_moment(page: Any, address: str) -> None:
    open_question(page, address, "trace", "q000")
    box = page.locator(".track").bounding_box()
    page.locator(".track").click(position={"x": box["width"] / 2, "y": box["height"] - 4})
    assert abs(number_on_screen(page) - 600) <= 2
    page.locator(".span.answer rect").first.click()
    assert number_on_screen(page) == 210
    page.get_by_role("button", name="1:32.0-1:48.0").first.click()
    assert number_on_screen(page) == 920


def test_zoom_keeps_the_moment_in_view(page: Any, address: str) -> None:
    open_question(page, address, "trace", "q000")
    press(page, "E", "e", "e", "+", "+", "+")
    assert number_on_screen(page) == 630
    head, track = page.locator(".playhead").bounding_box(), page.locator(".track").bounding_box()
    assert track["x"] <= head["x"] <= track["x"] + track["width"]
    assert page.locator(".lanes").bounding_box()["width"] == pytest.approx(8 * track["width"], rel=0.01)
    page.keyboard.press("0")
    assert page.locator(".lanes").bounding_box()["width"] == pytest.approx(track["width"], rel=0.01)


def test_evidence_is_walked_by_its_first_frames(page: Any, own_world: Path) -> None:
    """Intervals that begin between two frames: the frame before them is not evidence, and no key gets stuck on it."""
    questions = own_world / "bench" / "questions.jsonl"
    text = questions.read_text().replace("[21.0, 26.0]", "[21.05, 26.0]").replace("[63.0, 68.0]", "[63.01, 68.0]")
    questions.unlink()
    questions.write_text(text)
    with serving(library_in(own_world)) as address:
        open_question(page, address, "trace", "q000")
        for wanted in (211, 631, 970):
            page.keyboard.press("e")
            assert number_on_screen(page) == wanted
        page.keyboard.press("E")
        assert number_on_screen(page) == 631


def test_two_runs_side_by_side(page: Any, address: str) -> None:
    open_question(page, address, "trace", "q000")
    page.keyboard.press("b")
    page.locator("select[name=beside]").select_option("vca@scripted")
    page.wait_for_url("**beside=vca*")
    assert (page.locator(".timeline").count(), page.locator(".column").count()) == (2, 2)
    assert page.locator(".story.vca .round").count() >= 2
    left, right = (page.locator(".column").nth(at).bounding_box() for at in (0, 1))
    assert left["x"] + left["width"] <= right["x"]


def test_keys_alone_lead_everywhere(page: Any, address: str) -> None:
    page.goto(address)
    press(page, "j", "j")
    assert page.evaluate("document.activeElement.textContent") == "trace@scripted"
    page.keyboard.press("Enter")
    page.wait_for_url("**/run?*")
    page.keyboard.press("/")
    page.keyboard.type("q00")
    press(page, "Escape", "j", "Enter")
    for key, question in (("j", "q000"), ("k", "q001")):
        page.wait_for_url(f"**id={question}*")
        page.keyboard.press(key)
    page.wait_for_url("**id=q000*")
    page.keyboard.press("?")
    listed = page.locator("#help dd").all_inner_texts()
    assert {"Next question", "One frame forward", "Next evidence interval", "Zoom the timeline in"} <= set(listed)
    press(page, "Escape", "u")
    page.wait_for_url("**/run?*")


def test_filters_apply_while_one_types_and_count_right(page: Any, address: str) -> None:
    page.goto(f"{address}/run?name=trace@scripted")
    page.locator("#filter-bucket").select_option("wrong")
    page.wait_for_selector("#count[data-total='3']")
    assert page.locator("tbody tr[data-bucket=wrong]").count() == 3
    endings = page.locator("#filter-termination option").all_inner_texts()
    assert endings == ["all", "no stable prefix (1)", "stable prefix found (2)"]
    page.locator("#filter-termination").select_option("no-stable-prefix")
    page.wait_for_selector("#count[data-total='1']")
    assert page.locator("a[data-row]").all_inner_texts() == ["q003"]
    assert "bucket=wrong" in page.url
    page.keyboard.press("Escape")
    page.locator("a[data-row]").click()
    assert page.locator(".place").inner_text() == "1 / 1"


def test_a_growing_run_is_followed(page: Any, own_world: Path) -> None:
    run = own_world / "runs" / "trace@scripted.jsonl"
    whole = run.read_bytes().splitlines(keepends=True)
    run.unlink()
    run.write_bytes(b"".join(whole[:5]))
    with serving(library_in(own_world)) as address:
        page.goto(address)
        row = page.locator("#files tr", has_text="trace@scripted")
        assert "5 of 12" in row.inner_text()
        with run.open("ab") as file:
            file.write(whole[5] + whole[6][:100])
        page.locator("#files").get_by_text("6 of 12").wait_for()
        page.get_by_text("The last line is incomplete").wait_for()
        with run.open("ab") as file:
            file.write(whole[6][100:])
        page.locator("#files").get_by_text("7 of 12").wait_for()
        assert page.get_by_text("The last line is incomplete").count() == 0
        page.get_by_role("link", name="Only questions that every run has answered").click()
        assert "Only the 7 questions" in page.locator("#partial").inner_text()


def test_nothing_jumps_while_a_question_loads(page: Any, address: str) -> None:
    page.add_init_script(
        "window.jumped = 0; new PerformanceObserver((list) => { for (const e of list.getEntries())"
        " if (!e.hadRecentInput) window.jumped += e.value; }).observe({type: 'layout-shift', buffered: true});"
    )
    page.goto(f"{address}/run?name=trace@scripted")
    assert page.evaluate("window.jumped") < 0.01
    open_question(page, address, "trace", "q002")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate("window.jumped") < 0.01


# --- how it looks ------------------------------------------------------------------

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

CONTRAST = """(selectors) => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const found = parts(getComputedStyle(each).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const selector of selectors) for (const element of document.querySelectorAll(selector)) {
    if (element.closest('.old')) continue;
    const [a, b] = [light(parts(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.push([selector, element.textContent.slice(0, 20), Number(ratio.toFixed(2))]);
  }
  return faint;
}"""
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
        assert [page.evaluate(each) for each in (OUTSIDE, CUT_NAMES, NARROW_WORDS)] == [[], [], []], width
        assert page.evaluate(CONTRAST, PARTS) == [], width
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
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
    states = [each.get_attribute("class") for each in page.locator(".interval").all()]
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
        end = track["x"] + track["width"]
        seen = [box for box in boxes if track["x"] <= box["x"] and box["x"] + box["width"] <= end]
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
