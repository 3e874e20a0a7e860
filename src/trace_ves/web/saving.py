"""`--save DIR`: an answer to take away: its clips, pictures of them, the record, a page, and `answer.md` with links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves.core import InputError
from trace_ves.core.files import refuse_inputs
from trace_ves.records.search import TraceRecord, read_search
from trace_ves.records.transcript import TRANSCRIPT
from trace_ves.web.search_view import answer_library, answer_words, clock_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from PIL import Image

    from trace_ves.core import Frame
    from trace_ves.runs.asking import AskResult
    from trace_ves.web.search_view import AnswerWords

TILE_WIDTH: Final = 240
MARGIN: Final = 8
LABEL_HEIGHT: Final = 20
COLUMNS: Final = 8
PREVIEW_MILLISECONDS: Final = 700
STORYBOARD_FRAMES: Final = 32

SheetRow = tuple[str, tuple["Frame", ...]]
"""A heading, and the frames under it."""


def sheet_rows(result: AskResult) -> list[SheetRow]:
    """The frames of each clip in order of time; where no clip was kept, what the search looked over at first."""
    clips = sorted(result.bundle, key=lambda clip: clip.span)
    rows: list[SheetRow] = [
        (f"{clock_words(clip.span.start)} - {clock_words(clip.span.end)}", clip.frames) for clip in clips if clip.frames
    ]
    if rows or not Path(result.question.video).is_file():
        return rows
    search = read_search(result.prediction.trajectory)
    moments = search.storyboard.timestamps if isinstance(search, TraceRecord) else result.log.timestamps
    if not len(moments):
        return []
    from trace_ves import video as videos

    with videos.open(result.question.video) as source:
        frames = source.frames_at([float(seconds) for seconds in moments][:STORYBOARD_FRAMES], height=180)
    heading = "no clip was kept; the video was looked over at these moments"
    return [("" if first else heading, frames[first : first + COLUMNS]) for first in range(0, len(frames), COLUMNS)]


def contact_sheet(rows: Sequence[SheetRow]) -> Image.Image:
    """One row for each clip, every frame with its timestamp."""
    from PIL import Image, ImageDraw, ImageFont

    tile_height = _tile_height(rows)
    columns = max(len(frames) for _, frames in rows)
    width = MARGIN + columns * (TILE_WIDTH + MARGIN)
    height = MARGIN + len(rows) * (tile_height + 2 * LABEL_HEIGHT + MARGIN)
    sheet = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=14)
    top = MARGIN
    for heading, frames in rows:
        draw.text((MARGIN, top), heading, fill="black", font=font)
        for column, frame in enumerate(frames):
            left = MARGIN + column * (TILE_WIDTH + MARGIN)
            sheet.paste(Image.fromarray(frame.rgb()).resize((TILE_WIDTH, tile_height)), (left, top + LABEL_HEIGHT))
            draw.text(
                (left, top + LABEL_HEIGHT + tile_height + 2), clock_words(frame.seconds), fill="dimgray", font=font
            )
        top += tile_height + 2 * LABEL_HEIGHT + MARGIN
    return sheet


def preview(rows: Sequence[SheetRow], file: Path) -> None:
    """The same frames one after another as a GIF, each with its timestamp."""
    from PIL import Image, ImageDraw, ImageFont

    tile_height, font = _tile_height(rows), ImageFont.load_default(size=14)
    pictures = []
    for _, frames in rows:
        for frame in frames:
            picture = Image.new("RGB", (TILE_WIDTH, tile_height + LABEL_HEIGHT), "white")
            picture.paste(Image.fromarray(frame.rgb()).resize((TILE_WIDTH, tile_height)), (0, 0))
            ImageDraw.Draw(picture).text((4, tile_height + 2), clock_words(frame.seconds), fill="black", font=font)
            pictures.append(picture)
    first, *others = pictures
    first.save(file, save_all=True, append_images=others, duration=PREVIEW_MILLISECONDS, loop=0)


def _tile_height(rows: Sequence[SheetRow]) -> int:
    """High enough for the shape of the first picture."""
    first = rows[0][1][0].picture
    return max(1, round(TILE_WIDTH * first.height / first.width))


RECORD: Final = "record.json"
ANSWER: Final = "answer.md"
STORY: Final = "story.html"
SHEET: Final = "contact-sheet.jpg"
PREVIEW: Final = "preview.gif"
FRAMES: Final = "frames"
CLIPS: Final = "clips"


def replaced_files(folder: Path) -> list[Path]:
    """What saving an answer to a folder replaces or takes away."""
    named = [folder / name for name in (RECORD, TRANSCRIPT, ANSWER, STORY, SHEET, PREVIEW)]
    return [*named, *(folder / FRAMES).glob("clip*.jpg"), *(folder / CLIPS).glob("clip*.mp4")]


def check_writable(folder: Path, *, overwrite: bool = False) -> None:
    """Make the folder before anything is paid for; what stands in the way is an `InputError`."""
    try:
        if not overwrite and folder.is_dir() and any(folder.iterdir()):
            raise InputError(
                f"{folder} is not empty; name another folder for --save, or give --overwrite to replace its answer."
            )
        for place in (folder, folder / FRAMES, folder / CLIPS):
            place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be written to: {error.strerror}; name another folder for --save.") from error


def save_answer(result: AskResult, folder: Path, *, overwrite: bool = False) -> Path:
    """Make the folder and write the answer there; the video that it is about is never replaced."""
    refuse_inputs(replaced_files(folder), inputs=[Path(result.question.video)])
    check_writable(folder, overwrite=overwrite)
    save_result(result, folder)
    return folder


def save_result(
    result: AskResult, folder: Path, *, on_progress: Callable[[int, int], None] = lambda _done, _total: None
) -> None:
    """Write the answer with its clips, frames, contact sheet, preview, record and page."""
    try:
        _clear(folder)
        record = json.dumps(result.to_json(), ensure_ascii=False, indent=1)
        (folder / RECORD).write_text(record, encoding="utf-8")
        if result.transcript is not None:
            said = json.dumps(result.transcript.to_json(), ensure_ascii=False, indent=1)
            (folder / TRANSCRIPT).write_text(said, encoding="utf-8")
        clips = _write_clips(result, folder, on_progress)
        rows = sheet_rows(result)
        if rows:
            contact_sheet(rows).save(folder / SHEET, quality=90)
            preview(rows, folder / PREVIEW)
        story = _write_story(result, folder)
        words = answer_words(result)
        (folder / ANSWER).write_text(
            answer_page(result, words, clips, pictures=bool(rows), story=story), encoding="utf-8"
        )
    except OSError as error:
        raise InputError(f"{folder}: the answer could not be saved whole: {error.strerror or error}.") from error


def _clear(folder: Path) -> None:
    """Take away what an earlier answer left, and nothing else."""
    for path in replaced_files(folder):
        path.unlink(missing_ok=True)


def _write_clips(result: AskResult, folder: Path, on_progress: Callable[[int, int], None]) -> list[str]:
    """The frames that the model was given, and each clip as a video; the names of the videos in order of time."""
    from trace_ves.video.clip_file import write_clip

    names = []
    for number, clip in enumerate(sorted(result.bundle, key=lambda clip: clip.span), 1):
        on_progress(number - 1, len(result.bundle) + 1)
        for frame in clip.frames:
            (folder / FRAMES / f"clip{number}-{frame.seconds:09.3f}s.jpg").write_bytes(frame.jpeg())
        names.append(f"{CLIPS}/clip{number}.mp4")
        if Path(result.question.video).is_file():  # a simulated video has nothing to cut
            write_clip(Path(result.question.video), clip.span, folder / names[-1])
    on_progress(len(result.bundle), len(result.bundle) + 1)
    return [name for name in names if (folder / name).is_file()]


def _write_story(result: AskResult, folder: Path) -> bool:
    """The page of the search in one file, where the extra for pages is installed."""
    try:
        from trace_ves.web.export import write_story
    except ModuleNotFoundError:
        return False
    with answer_library(result) as library:
        write_story(library, next(iter(library.runs)), next(iter(library.questions)), folder / STORY)
    return True


def answer_page(
    result: AskResult, words: AnswerWords, clips: Sequence[str], *, pictures: bool = True, story: bool = True
) -> str:
    """The answer as Markdown, with links to what lies beside it."""
    question = result.question
    letter = "" if question.is_open or result.answer is None else f"{result.answer}. "
    lines = [f"# {_plain(question.text)}", ""]
    lines += [f"- {name}. {_plain(text)}" for name, text in zip(question.letters, question.options, strict=True)]
    lines += ["", f"**{_plain(letter + (result.text or 'no answer'))}**", "", words.ending, ""]
    for number, seen in enumerate(words.clips, 1):
        name = f"{CLIPS}/clip{number}.mp4"
        time = f"{clock_words(seen.clip.span.start)} - {clock_words(seen.clip.span.end)}"
        told = "".join(f"\n   - {_plain(fact)}" for fact in seen.facts)
        lines.append(f"{number}. {f'[{time}]({name})' if name in clips else time}{told}")
    lines += [f"\nStill open: {'; '.join(map(_plain, words.still_open))}."] if words.still_open else []
    lines += [f"\n{words.remark}"] if words.remark else []
    lines += ["", f"![What was seen]({SHEET})"] if pictures else []
    beside = [("the search as a page", STORY)] if story else []
    beside += [("what was said in each call", TRANSCRIPT)] if result.transcript else []
    beside += [("preview", PREVIEW)] if pictures else []
    lines += ["", "; ".join(f"[{what}]({file})" for what, file in [*beside, ("the whole record", RECORD)])]
    cost = f"{result.log.frames_supplied} frames in {len(result.log.calls)} calls to {result.prediction.backbone}"
    lines += ["", f"{cost}, by the method {result.prediction.method}, on `{Path(question.video).name}`."]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Text from a person or a model that Markdown shall show as it is, on one line."""
    line = " ".join(text.split())
    return "".join(f"\\{character}" if character in "\\`*_[]<>#|!" else character for character in line)
