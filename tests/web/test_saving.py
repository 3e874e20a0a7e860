"""An answer in a notebook: the words of the answer, its evidence as small pictures, and no markup from outside."""

import base64
import hashlib
import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageFont

from tests.fakes import Still
from tests.films import write_film
from tests.ves.test_html import HOSTILE, Tags
from tests.web.test_search_view import results
from tests.web.web_bench import FACTS
from trace_ves.core import Frame, InputError, Interval, Question
from trace_ves.records.transcript import CallTranscript, Transcript
from trace_ves.runs.asking import AskResult
from trace_ves.web.saving import (
    MOST_CLIPS,
    PICTURES_OF_A_CLIP,
    answer_html,
    answer_page,
    contact_sheet,
    prepare_folder,
    save_line,
    save_result,
    sheet_rows,
    write_index,
    write_preview,
)
from trace_ves.web.search_view import EvidenceClip, view_answer


def test_what_a_person_or_a_model_wrote_stays_text(plain: AskResult) -> None:
    question = Question("ask", HOSTILE, HOSTILE, (HOSTILE, "y"))
    prediction = replace(plain.prediction, answer="A", method=HOSTILE, backbone=HOSTILE)
    page = Tags(replace(plain, question=question, prediction=prediction)._repr_html_())
    assert page.tags <= {"p", "b", "div", "ul", "li", "figure", "img", "figcaption"}
    assert page.attributes <= {"style", "src", "width", "height", "alt"}
    assert page.words.count("<script>alert(1)</script>") == 4


def test_an_answer_saves_itself_and_replaces_nothing_unasked(plain: AskResult, tmp_path: Path) -> None:
    said = Transcript("other", ("Wo ist Ä?",), (CallTranscript(plain.prediction.observations[0].stage, 0),))
    folder = (plain := replace(plain, transcript=said)).save(tmp_path / "answer")
    transcript = json.dumps(said.to_json(), ensure_ascii=False, indent=1)
    assert (folder / "transcript.json").read_text(encoding="utf-8") == transcript
    assert "<pre>Wo ist Ä?</pre>" in (folder / "story.html").read_text(encoding="utf-8")
    assert json.loads((folder / "record.json").read_text())["text"] == plain.text
    with pytest.raises(InputError, match="not empty"):
        plain.save(folder)
    assert plain.save(str(folder), overwrite=True) == folder
    (folder / "clips").rename(tmp_path / "others")
    (folder / "clips").symlink_to(tmp_path / "others")
    with pytest.raises(InputError, match=r"clips is a link to another folder; name another folder for --save\.$"):
        plain.save(folder, overwrite=True)


SPANS = ("0:21.0-0:26.0", "1:03.0-1:08.0", "1:37.0-1:43.0")


def frames(*moments: float) -> tuple[Frame, ...]:
    return tuple(Frame(number, moment, Still(90)) for number, moment in enumerate(moments))


def test_the_html_of_an_answer(plain: AskResult) -> None:
    question = Question("q", "v.mp4", "Which?", ("red", "blue"))
    clips = (replace(plain.bundle[0], frames=frames(*(21 + n / 10 for n in range(9)))), *plain.bundle[1:])
    shown = replace(plain, question=question, bundle=clips)._repr_html_()
    pictures = re.findall(r'base64,([^"]+)"', shown)
    expected = io.BytesIO()
    Image.new("RGB", (171, 96), (90, 90, 90)).save(expected, "JPEG", quality=70)
    assert {base64.b64decode(picture) for picture in pictures} == {expected.getvalue()}
    first = "".join(
        '<figure style="display:inline-block;margin:0 .4em .4em 0">'
        f'<img src="data:image/jpeg;base64,{pictures[0]}" width="171" height="96" alt="at {moment}">'
        f'<figcaption style="font-size:.8em;opacity:.7">{moment}</figcaption></figure>'
        for moment in ("0:21.0", "0:21.2", "0:21.4", "0:21.6")
    )
    assert shown.startswith(
        '<p><b>Which?</b></p><p style="font-size:1.25em;margin:.2em 0">A. red</p>'
        '<p style="border-left:4px solid seagreen;padding-left:.6em">'
        "One reading of all 3 clips settled every claim, and a second look agreed.</p>"
        f"<div><p><b>{SPANS[0]}</b></p><ul><li>{FACTS[0]}</li></ul>{first}</div>"
    )
    assert shown.endswith('</div><p style="opacity:.7">88 frames in 9 calls to scripted, by trace</p>')
    assert "darkorange" in answer_html(results("trace")["replay"])


def test_a_notebook_says_what_is_open_and_how_many_clips_are_left_out(plain: AskResult) -> None:
    record = plain.prediction.to_json()
    record["trajectory"] |= {"stable_prefix": None, "fallback": {"prefix": ["a1"], "answer": "A", "agrees": True}}
    record["trajectory"]["claims"][0]["kind"] = "count"
    record["trajectory"]["unexplored"] = [[3.0, 4.0]]
    changed = replace(plain, prediction=type(plain.prediction).from_json(record), bundle=())
    shown = answer_html(changed)
    assert "<p>Still open: a blue van passes; a yellow door opens.</p>" in shown
    assert "<p>Not looked at closely: 0:03.0-0:04.0.</p>" in shown
    page = answer_page(changed, view_answer(changed), [])
    assert "\nStill open: a blue van passes; a yellow door opens.\n\nNot looked at closely: 0:03.0-0:04.0.\n" in page
    many = frames(*(n / 10 for n in range(9)))
    clips = tuple(replace(plain.bundle[0], span=Interval(at, at + 1), frames=many) for at in range(MOST_CLIPS + 1))
    shown = answer_html(replace(plain, bundle=clips))
    assert "<p>… and 1 more clips</p>" in shown
    assert (shown.count("<img"), len(shown) < 300_000) == (MOST_CLIPS * PICTURES_OF_A_CLIP, True)
    assert "more clips" not in answer_html(replace(plain, bundle=clips[1:]))


def test_the_page_of_an_answer(plain: AskResult) -> None:
    result = replace(plain, question=Question("q", "/videos/one.mp4", "Which *one*?\n Say", ("red", "<b>", "c")))
    view = view_answer(result)
    head = [
        "# Which \\*one\\*? Say\n",
        "- A. red\n- B. \\<b\\>\n- C. c\n",
        "**A. red**\n",
        "One reading of all 3 clips settled every claim, and a second look agreed.\n",
        f"1. [{SPANS[0]}](clips/clip1.mp4)\n   - {FACTS[0]}",
        f"2. {SPANS[1]}\n   - {FACTS[1]}",
        f"3. [{SPANS[2]}](clips/clip3.mp4)\n   - {FACTS[2]}",
    ]
    tail = "88 frames in 9 calls to scripted, by trace, on `one.mp4`.\n"
    files = "[the search as a page](story.html); [preview](preview.gif); [the whole record](record.json)\n"
    clips = ["clips/clip1.mp4", "clips/clip3.mp4"]
    page = answer_page(result, view, clips)
    assert page == "\n".join([*head, "\n![The evidence](contact-sheet.jpg)\n", files, tail])
    bare = answer_page(result, view, clips, pictures=False, story=False)
    assert bare == "\n".join([*head, "\n[the whole record](record.json)\n", tail])
    other = replace(view, clips=(), others=(EvidenceClip(Interval(1, 2), seen="a _cow_"), EvidenceClip(Interval(3, 4))))
    without = answer_page(result, other, [])
    assert "\nAlso seen, not used: 0:01.0-0:02.0. a \\_cow\\_\n\nAlso seen, not used: 0:03.0-0:04.0.\n" in without
    assert "![Frames of the first look over the video; no evidence](contact-sheet.jpg)" in without


def test_without_the_extra_web_an_answer_has_no_pages(
    plain: AskResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("export", "views"):
        monkeypatch.delattr(f"trace_ves.web.{name}")
        monkeypatch.delitem(sys.modules, f"trace_ves.web.{name}")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    plain.save(tmp_path / "a")
    write_index(tmp_path / "index.html", "", [])
    assert not [*tmp_path.rglob("*.html")]
    assert "story.html" not in (tmp_path / "a" / "answer.md").read_text(encoding="utf-8")
    bare = replace(plain, bundle=()).save(tmp_path / "b")
    assert "contact-sheet" not in (bare / "answer.md").read_text(encoding="utf-8")


def dark(picture: Image.Image) -> tuple[int, int, int, int] | None:
    """The box of what is not white."""
    return ImageChops.invert(picture).getbbox()


def test_a_contact_sheet_has_a_row_for_each_clip() -> None:
    sheet = contact_sheet([("first", frames(1, 2)), ("", frames(3))])
    assert sheet.size == (8 + 2 * (240 + 8), 8 + 2 * (20 + 135 + 20 + 8))
    font = ImageFont.load_default(size=14)
    left, top, _, bottom = font.getbbox("first")
    assert dark(sheet.crop((0, 0, 504, 28)))[:2] == (8 + left, 8 + top)  # type: ignore[index]
    assert dark(sheet.crop((0, 0, 504, 28)))[3] == 8 + bottom  # type: ignore[index]
    assert dark(sheet.crop((0, 28, 252, 163))) == (8, 0, 248, 135)
    assert dark(sheet.crop((252, 28, 504, 163))) == (4, 0, 244, 135)
    assert dark(sheet.crop((0, 183, 504, 346))) == (8, 28, 248, 163)
    left, top, _, _ = font.getbbox("0:01.0")
    assert dark(sheet.crop((8, 163, 248, 183)))[:2] == (4 + left, 2 + top)  # type: ignore[index]
    low = contact_sheet([("", (Frame(0, 1.0, Still(90, height=8)), *frames(2)))])  # all in the shape of the first
    assert low.size == (504, 8 + 20 + 30 + 20 + 8)
    assert contact_sheet([("one frame", frames(1))]).size == (256, 8 + 20 + 135 + 20 + 8)


def test_frames_are_decoded_at_the_height_they_need(plain: AskResult, tmp_path: Path) -> None:
    film = write_film(tmp_path / "tall.mp4", range(120), fps=1, size=(640, 480))
    asked = replace(plain.question, video=str(film))
    moments = plain.prediction.trajectory["storyboard"]["timestamps"]
    expected = [[(float(int(seconds)), 180) for seconds in moments[first : first + 8]] for first in (0, 8, 16, 24)]
    texts, rows = zip(*sheet_rows(replace(plain, question=asked, bundle=())), strict=True)
    shown = [[(frame.seconds, frame.picture.height) for frame in row] for row in rows]
    assert ([*texts], shown) == (["no evidence: frames of the first look over the whole video", "", "", ""], expected)
    save_line(plain.prediction, asked, tmp_path, None)
    written = {path.name: Image.open(io.BytesIO(path.read_bytes())).size for path in tmp_path.rglob("clip*.jpg")}
    seen = [(n, int(at)) for n, clip in enumerate(plain.prediction.bundle, 1) for at in clip.timestamps]
    assert written == {f"clip{n}-{at:09.3f}s.jpg": (480, 360) for n, at in seen}


def test_a_preview_shows_each_frame(tmp_path: Path) -> None:
    write_preview([("first", frames(1, 2)), ("second", frames(3))], tmp_path / "p.gif")
    with Image.open(tmp_path / "p.gif") as made:
        shown = (getattr(made, "n_frames", 1), made.info["duration"], made.info["loop"], made.size)
    assert shown == (3, 700, 0, (240, 155))


def test_what_a_folder_holds_is_replaced_and_nothing_else(plain: AskResult, tmp_path: Path) -> None:
    result = replace(plain, question=replace(plain.question, text="Où?"))
    prepare_folder(tmp_path / "a", tmp_path / "no.mp4")
    names = ["frames/clip9-1.jpg", "clips/clip9.mp4", "transcript.json", "preview.gif", "frames/mine.jpg", "mine.txt"]
    for name in names:
        (tmp_path / "a" / name).write_text("old")
    steps: list[tuple[int, int]] = []
    save_result(result, tmp_path / "a", on_progress=lambda done, total: steps.append((done, total)))
    assert steps == [(0, 4), (1, 4), (2, 4), (3, 4)]
    left = {path.relative_to(tmp_path / "a").as_posix() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    pictures = {
        f"frames/clip{n}-{frame.seconds:09.3f}s.jpg" for n, clip in enumerate(result.bundle, 1) for frame in clip.frames
    }
    written = {"record.json", "answer.md", "story.html", "contact-sheet.jpg", "preview.gif"}
    assert left == pictures | written | {"frames/mine.jpg", "mine.txt"}
    record = json.dumps(result.to_json(), ensure_ascii=False, indent=1)
    assert (tmp_path / "a" / "record.json").read_text(encoding="utf-8") == record
    expected = io.BytesIO()
    Image.new("RGB", (8, 8)).save(expected, "JPEG", quality=90)
    with Image.open(tmp_path / "a" / "contact-sheet.jpg") as sheet, Image.open(expected) as same:
        assert sheet.quantization == same.quantization  # type: ignore[attr-defined]  # of a JPEG


@pytest.mark.parametrize(
    ("name", "slug"), [("q-1_A", "q-1_A"), ("a b/c", "a-b-c"), ("x" * 60, "x" * 60), ("x" * 61, "x" * 60), ("é", "")]
)
def test_a_folder_is_named_by_its_question(plain: AskResult, tmp_path: Path, name: str, slug: str) -> None:
    line = replace(plain.prediction, question_id=name, extra={"duration": 9.5, "video": "v.mp4", "mine": 1})
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    expected = f"answers/{slug}" if slug == name else f"answers/{slug}-{digest}".replace("/-", "/")
    question = replace(plain.question, id=name)
    assert save_line(line, question, tmp_path, None) == expected
    place = tmp_path / expected
    saved = json.loads((place / "record.json").read_text())
    assert (saved["duration"], saved["video"], "mine" in saved) == (9.5, "videos/one.mp4", False)
    (place / "story.html").write_text("left")
    save_line(line, question, tmp_path, None)
    assert (place / "story.html").read_text() == "left"
    for part in ("answer.md", "record.json"):  # it was not written completely
        (place / part).unlink()
        save_line(line, question, tmp_path, None)
        assert (place / part).is_file()
    save_line(replace(line, answer="B"), question, tmp_path, None)
    assert json.loads((place / "record.json").read_text())["answer"] == "B"
