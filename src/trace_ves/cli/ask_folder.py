"""`--save DIR`: the record, the frames of the answer's clips as JPEG, and a contact sheet of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from trace_ves.core import InputError, MissingExtraError

if TYPE_CHECKING:
    from pathlib import Path

    from PIL import Image

    from trace_ves.asking import AskResult

TILE_WIDTH: Final = 240
MARGIN: Final = 8
LABEL_HEIGHT: Final = 20


def check_writable(folder: Path) -> None:
    """Make the folder before anything is paid for; what stands in the way is an `InputError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "frames").mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be written to: {error.strerror}; name another folder for --save.") from error


def save_result(result: AskResult, folder: Path) -> None:
    """Write `record.json`, `frames/` and `contact-sheet.jpg`."""
    from trace_ves.cli.ask import as_record

    (folder / "record.json").write_text(json.dumps(as_record(result), ensure_ascii=False, indent=1), encoding="utf-8")
    for number, clip in enumerate(result.bundle, 1):
        for frame in clip.frames:
            name = f"clip{number}-{frame.seconds:09.3f}s.jpg"
            (folder / "frames" / name).write_bytes(frame.jpeg())
    if result.bundle:
        contact_sheet(result).save(folder / "contact-sheet.jpg", quality=90)


def contact_sheet(result: AskResult) -> Image.Image:
    """One row for each clip of the answer, in order of time, every frame with its timestamp."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ModuleNotFoundError:
        raise MissingExtraError("A contact sheet", "video") from None
    from trace_ves.cli.answer_words import clock

    clips = sorted(result.bundle, key=lambda clip: clip.span)
    first = clips[0].frames[0].picture
    tile_height = max(1, round(TILE_WIDTH * first.height / first.width))
    columns = max(len(clip.frames) for clip in clips)
    width = MARGIN + columns * (TILE_WIDTH + MARGIN)
    height = MARGIN + len(clips) * (tile_height + 2 * LABEL_HEIGHT + MARGIN)
    sheet = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=14)
    top = MARGIN
    for clip in clips:
        draw.text((MARGIN, top), f"{clock(clip.span.start)} - {clock(clip.span.end)}", fill="black", font=font)
        for column, frame in enumerate(clip.frames):
            left = MARGIN + column * (TILE_WIDTH + MARGIN)
            picture = Image.fromarray(frame.rgb()).resize((TILE_WIDTH, tile_height))
            sheet.paste(picture, (left, top + LABEL_HEIGHT))
            draw.text((left, top + LABEL_HEIGHT + tile_height + 2), clock(frame.seconds), fill="dimgray", font=font)
        top += tile_height + 2 * LABEL_HEIGHT + MARGIN
    return sheet
