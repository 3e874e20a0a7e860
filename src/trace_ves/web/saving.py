"""Saved answers: as HTML in a notebook, and as a folder with clips, pictures, record and pages."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves.core import Clip, Frame, InputError, Question, Termination
from trace_ves.core.files import refuse_inputs, write_output
from trace_ves.records import ClipRecord, ObservationLog, Prediction
from trace_ves.records.search import TraceRecord, read_search
from trace_ves.records.transcript import TRANSCRIPT, Transcript
from trace_ves.runs.asking import AskResult
from trace_ves.ves.renderers import escape_html
from trace_ves.web.open_library import RECORD, library_of_answer
from trace_ves.web.search_view import EvidenceClip, SearchView, clock, span_text, view_answer

if TYPE_CHECKING:
    from PIL import Image

    from trace_ves.web.library import Library

MOST_CLIPS: Final = 12
"""Clips in a notebook: about a quarter of a megabyte of pictures at most."""
PICTURES_OF_A_CLIP: Final = 4
PICTURE_HEIGHT_PX: Final = 96
JPEG_QUALITY: Final = 70


def answer_html(result: AskResult) -> str:
    """The answer as an HTML fragment; text from a user, a file or a model is escaped."""
    view = view_answer(result)
    colour = "seagreen" if result.stable else "darkorange"
    parts = [
        f"<p><b>{escape_html(result.question.text)}</b></p>",
        f'<p style="font-size:1.25em;margin:.2em 0">{escape_html(view.answer)}</p>',
        f'<p style="border-left:4px solid {colour};padding-left:.6em">{escape_html(view.ending)}</p>',
        *(_clip_html(clip) for clip in view.clips[:MOST_CLIPS]),
    ]
    if len(view.clips) > MOST_CLIPS:
        parts.append(f"<p>… and {len(view.clips) - MOST_CLIPS} more clips</p>")
    if view.still_open:
        parts.append(f"<p>Still open: {escape_html('; '.join(view.still_open))}.</p>")
    if view.remark:
        parts.append(f"<p>{escape_html(view.remark)}</p>")
    return "".join([*parts, f'<p style="opacity:.7">{escape_html(view.effort)}</p>'])


def _clip_html(clip: EvidenceClip) -> str:
    facts = "".join(f"<li>{escape_html(line)}</li>" for line in clip.caption)
    step = max(1, len(clip.frames) / PICTURES_OF_A_CLIP)
    spread = [clip.frames[int(at * step)] for at in range(min(len(clip.frames), PICTURES_OF_A_CLIP))]
    pictures = "".join(map(_picture_html, spread))
    return f"<div><p><b>{span_text(clip.span)}</b></p>{f'<ul>{facts}</ul>' if facts else ''}{pictures}</div>"


def _picture_html(frame: Frame) -> str:
    from PIL import Image

    picture = Image.fromarray(frame.rgb())
    width = max(1, round(picture.width * PICTURE_HEIGHT_PX / picture.height))
    jpeg = io.BytesIO()
    picture.resize((width, PICTURE_HEIGHT_PX)).save(jpeg, "JPEG", quality=JPEG_QUALITY)
    data = base64.b64encode(jpeg.getvalue()).decode("ascii")
    moment = clock(frame.seconds)
    return (
        '<figure style="display:inline-block;margin:0 .4em .4em 0">'
        f'<img src="data:image/jpeg;base64,{data}" width="{width}" height="{PICTURE_HEIGHT_PX}" alt="at {moment}">'
        f'<figcaption style="font-size:.8em;opacity:.7">{moment}</figcaption></figure>'
    )


TILE_WIDTH: Final = 240
MARGIN: Final = 8
LABEL_HEIGHT: Final = 20
COLUMNS: Final = 8
PREVIEW_MILLISECONDS: Final = 700
STORYBOARD_FRAMES: Final = 32

SheetRow = tuple[str, tuple["Frame", ...]]  # a heading, and the frames under it


def sheet_rows(result: AskResult) -> list[SheetRow]:
    """The frames of each clip in order of time; if there are no clips, the frames of the first look."""
    clips = view_answer(result).clips
    rows: list[SheetRow] = [(span_text(clip.span), clip.frames) for clip in clips if clip.frames]
    if rows or not Path(result.question.video).is_file():
        return rows
    search = read_search(result.prediction.trajectory)
    moments = search.storyboard.timestamps if isinstance(search, TraceRecord) else result.log.timestamps
    if not len(moments):
        return []
    from trace_ves import video as videos

    with videos.open(result.question.video) as source:
        frames = source.frames_at([float(seconds) for seconds in moments][:STORYBOARD_FRAMES], height=180)
    heading = "no evidence: frames of the first look over the whole video"
    return [("" if first else heading, frames[first : first + COLUMNS]) for first in range(0, len(frames), COLUMNS)]


def contact_sheet(rows: Sequence[SheetRow]) -> Image.Image:
    """Draw one row per clip, every frame with its timestamp."""
    from PIL import Image, ImageDraw, ImageFont

    tiles = _tiles(rows)
    row_height = LABEL_HEIGHT + tiles[0][0].height + MARGIN
    width = MARGIN + max(map(len, tiles)) * (TILE_WIDTH + MARGIN)
    sheet = Image.new("RGB", (width, MARGIN + len(rows) * row_height), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=14)
    for row, (heading, _) in enumerate(rows):
        top = MARGIN + row * row_height
        draw.text((MARGIN, top), heading, fill="black", font=font)
        for column, tile in enumerate(tiles[row]):
            sheet.paste(tile, (MARGIN + column * (TILE_WIDTH + MARGIN), top + LABEL_HEIGHT))
    return sheet


def write_preview(rows: Sequence[SheetRow], file: Path) -> None:
    """Write the same frames as an animated GIF."""
    first, *others = chain.from_iterable(_tiles(rows))
    first.save(file, save_all=True, append_images=others, duration=PREVIEW_MILLISECONDS, loop=0)


def _tiles(rows: Sequence[SheetRow]) -> list[list[Image.Image]]:
    """Draw the frames of each row with their timestamps, all in the aspect ratio of the first frame."""
    from PIL import Image, ImageDraw, ImageFont

    first, font = rows[0][1][0].picture, ImageFont.load_default(size=14)
    height = max(1, round(TILE_WIDTH * first.height / first.width))

    def tile(frame: Frame) -> Image.Image:
        image = Image.new("RGB", (TILE_WIDTH, height + LABEL_HEIGHT), "white")
        image.paste(Image.fromarray(frame.rgb()).resize((TILE_WIDTH, height)), (0, 0))
        ImageDraw.Draw(image).text((4, height + 2), clock(frame.seconds), fill="black", font=font)
        return image

    return [list(map(tile, frames)) for _, frames in rows]


ANSWER: Final = "answer.md"
STORY: Final = "story.html"
SHEET: Final = "contact-sheet.jpg"
PREVIEW: Final = "preview.gif"
FRAMES: Final = "frames"
CLIPS: Final = "clips"
ANSWERS: Final = "answers"  # the folder of many answers


def _answer_files(folder: Path) -> list[Path]:
    named = [folder / name for name in (RECORD, TRANSCRIPT, ANSWER, STORY, SHEET, PREVIEW)]
    return [*named, *(folder / FRAMES).glob("clip*.jpg"), *(folder / CLIPS).glob("clip*.mp4")]


def prepare_folder(folder: Path, video: Path, *, overwrite: bool = False) -> None:
    """Make the folder of an answer; an `InputError` if that fails or if it is not empty."""
    refuse_inputs([folder, *_answer_files(folder)], inputs=[video])
    make_folder(folder)
    if not overwrite and any(folder.iterdir()):
        raise InputError(
            f"{folder} is not empty; name another folder for --save, or give --overwrite to replace its answer."
        )
    for inner in (folder / FRAMES, folder / CLIPS):
        if inner.is_symlink():
            raise InputError(f"{inner} is a link to another folder; name another folder for --save.")
        make_folder(inner)


def make_folder(folder: Path) -> None:
    """Make a folder for --save; an `InputError` if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be written to: {error.strerror}; name another folder for --save.") from error


def save_answer(result: AskResult, folder: Path, *, overwrite: bool = False) -> Path:
    """Make the folder and write the answer there."""
    prepare_folder(folder, Path(result.question.video), overwrite=overwrite)
    save_result(result, folder)
    return folder


def save_result(
    result: AskResult, folder: Path, *, on_progress: Callable[[int, int], None] = lambda _done, _total: None
) -> None:
    """Write the answer to a prepared folder: clips, frames, contact sheet, preview, record and pages."""
    try:
        for path in _answer_files(folder):
            path.unlink(missing_ok=True)
        record = json.dumps(result.to_json(), ensure_ascii=False, indent=1)
        (folder / RECORD).write_text(record, encoding="utf-8")
        if result.transcript is not None:
            transcript = json.dumps(result.transcript.to_json(), ensure_ascii=False, indent=1)
            (folder / TRANSCRIPT).write_text(transcript, encoding="utf-8")
        clips = _write_clips(result, folder, on_progress)
        rows = sheet_rows(result)
        if rows:
            contact_sheet(rows).save(folder / SHEET, quality=90)
            write_preview(rows, folder / PREVIEW)
        story = _write_story(result, folder)
        page = answer_page(result, view_answer(result), clips, pictures=bool(rows), story=story)
        (folder / ANSWER).write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: the answer could not be saved completely: {error.strerror or error}.") from error


def save_line(line: Prediction, question: Question, folder: Path, transcript: Transcript | None) -> str:
    """Save the answer of one run line in its folder, unless it is already there; returns that folder's name."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", question.id).strip("-")[:60]
    name = slug if slug == question.id else f"{slug}-{hashlib.sha256(question.id.encode()).hexdigest()[:6]}".strip("-")
    target = folder / ANSWERS / name
    clips: list[Clip] = []
    duration = line.extra.get("duration")
    if Path(question.video).is_file():  # a simulated video has no frames
        from trace_ves import video as videos

        with videos.open(question.video) as source:
            for clip in line.bundle:
                if isinstance(clip, ClipRecord):
                    frames = tuple(source.frames_at(list(clip.timestamps), height=clip.height))
                    clips.append(Clip(clip.span, clip.strategy, frames))
    result = AskResult(
        question,
        line.answer,
        Termination(line.termination or Termination.SINGLE_PASS),
        tuple(clips),
        ObservationLog(line.observations),
        replace(line, extra={key: line.extra[key] for key in ("video", "subtitles") if key in line.extra}),
        duration if isinstance(duration, float) else 0.0,
        transcript,
    )
    try:
        is_saved = json.loads((target / RECORD).read_bytes()) == json.loads(json.dumps(result.to_json()))
    except (OSError, ValueError):
        is_saved = False
    if not (is_saved and (target / ANSWER).is_file()):  # this page is written last
        save_answer(result, target, overwrite=True)
    return f"{ANSWERS}/{name}"


def write_index(file: Path, title: str, rows: Sequence[tuple[str, SearchView, str]]) -> None:
    """Write a page that lists answers, if the extra `web` is installed. A row is title, view and folder."""
    with suppress(ModuleNotFoundError):
        from trace_ves.web import views

        write_output(file, views.render("answers.html", title=title, rows=rows))


def _write_clips(result: AskResult, folder: Path, on_progress: Callable[[int, int], None]) -> list[str]:
    """Write the frames that the model saw and each clip as a video; returns the names of the videos."""
    from trace_ves.video.clip_file import write_clip

    names = []
    clips = view_answer(result).clips
    for number, clip in enumerate(clips, 1):
        on_progress(number - 1, len(clips) + 1)
        for frame in clip.frames:
            (folder / FRAMES / f"clip{number}-{frame.seconds:09.3f}s.jpg").write_bytes(frame.jpeg())
        names.append(f"{CLIPS}/clip{number}.mp4")
        if Path(result.question.video).is_file():  # a simulated video has no file
            write_clip(Path(result.question.video), clip.span, folder / names[-1])
    on_progress(len(clips), len(clips) + 1)
    return [name for name in names if (folder / name).is_file()]


def _write_story(result: AskResult, folder: Path) -> bool:
    """Write the page of the search, if the extra `web` is installed."""
    try:
        from trace_ves.web.export import write_story
    except ModuleNotFoundError:
        return False
    with answer_library(result) as library:
        write_story(library, next(iter(library.runs)), next(iter(library.questions)), folder / STORY)
    return True


@contextmanager
def answer_library(result: AskResult) -> Iterator[Library]:
    """Open the answer as a library, with its video."""
    with tempfile.TemporaryDirectory() as scratch:
        yield library_of_answer(
            result.question,
            result.duration,
            result.prediction,
            Path(scratch),
            videos=Path(result.question.video).resolve().parent,
            transcript=result.transcript,
        )


def answer_page(
    result: AskResult, view: SearchView, clip_files: Sequence[str], *, pictures: bool = True, story: bool = True
) -> str:
    """The answer as Markdown, with links to the files of its folder."""
    question = result.question
    lines = [f"# {_plain(question.text)}", ""]
    lines += [f"- {name}. {_plain(option)}" for name, option in zip(question.letters, question.options, strict=True)]
    lines += ["", f"**{_plain(view.answer)}**", "", view.ending, ""]
    for number, clip in enumerate(view.clips, 1):
        name, time = f"{CLIPS}/clip{number}.mp4", span_text(clip.span)
        facts = "".join(f"\n   - {_plain(line)}" for line in clip.caption)
        lines.append(f"{number}. {f'[{time}]({name})' if name in clip_files else time}{facts}")
    for clip in view.others:
        lines.append(f"\nAlso seen, not used: {span_text(clip.span)}. {_plain(' '.join(clip.caption))}".rstrip())
    lines += [f"\nStill open: {'; '.join(map(_plain, view.still_open))}."] if view.still_open else []
    lines += [f"\n{view.remark}"] if view.remark else []
    caption = "The evidence" if view.clips else "Frames of the first look over the video; no evidence"
    lines += ["", f"![{caption}]({SHEET})"] if pictures else []
    links = [("the search as a page", STORY)] if story else []
    links += [("prompts and replies", TRANSCRIPT)] if result.transcript else []
    links += [("preview", PREVIEW)] if pictures else []
    lines += ["", "; ".join(f"[{label}]({file})" for label, file in [*links, ("the whole record", RECORD)])]
    return "\n".join([*lines, "", f"{view.effort}, on `{Path(question.video).name}`."]) + "\n"


def _plain(value: str) -> str:
    """Escape text from a user or a model for Markdown, on one line."""
    line = " ".join(value.split())
    return "".join(f"\\{character}" if character in "\\`*_[]<>#|!" else character for character in line)
