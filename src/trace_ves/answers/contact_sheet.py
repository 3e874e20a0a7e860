"""Pictures of an answer: a contact sheet of its clips, and the same as a small animation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves.answers.words import clock
from trace_ves.records.search import read_search
from trace_ves.records.trace import TraceRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL import Image

    from trace_ves.asking import AskResult
    from trace_ves.core import Frame

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
        (f"{clock(clip.span.start)} - {clock(clip.span.end)}", clip.frames) for clip in clips if clip.frames
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
            draw.text((left, top + LABEL_HEIGHT + tile_height + 2), clock(frame.seconds), fill="dimgray", font=font)
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
            ImageDraw.Draw(picture).text((4, tile_height + 2), clock(frame.seconds), fill="black", font=font)
            pictures.append(picture)
    first, *others = pictures
    first.save(file, save_all=True, append_images=others, duration=PREVIEW_MILLISECONDS, loop=0)


def _tile_height(rows: Sequence[SheetRow]) -> int:
    """High enough for the shape of the first picture."""
    first = rows[0][1][0].picture
    return max(1, round(TILE_WIDTH * first.height / first.width))
