"""An answer in a notebook: the question, the answer, why the search stopped, and the evidence as small pictures."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Final

from trace_ves.ves.renderers import text
from trace_ves.web.search_view import answer_words, clock_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.core import Frame
    from trace_ves.runs.asking import AskResult
    from trace_ves.web.search_view import SeenClip

PICTURE_HEIGHT_PX: Final = 96
PICTURES_OF_A_CLIP: Final = 4
MOST_CLIPS: Final = 12
"""A notebook is kept and sent around: about a quarter of a megabyte of pictures at the most."""
JPEG_QUALITY: Final = 70


def answer_html(result: AskResult) -> str:
    """The answer as a part of a page; everything that a person, a file or a model wrote is escaped."""
    words = answer_words(result)
    question = result.question
    letter = "" if question.is_open or result.answer is None else f"{result.answer}. "
    colour = "seagreen" if result.stable else "darkorange"
    parts = [
        f"<p><b>{text(question.text)}</b></p>",
        f'<p style="font-size:1.25em;margin:.2em 0">{text(letter + (result.text or "no answer"))}</p>',
        f'<p style="border-left:4px solid {colour};padding-left:.6em">{text(words.ending)}</p>',
        *(_clip(seen) for seen in words.clips[:MOST_CLIPS]),
    ]
    if len(words.clips) > MOST_CLIPS:
        parts.append(f"<p>… and {len(words.clips) - MOST_CLIPS} more clips</p>")
    if words.still_open:
        parts.append(f"<p>Still open: {text('; '.join(words.still_open))}.</p>")
    if words.remark:
        parts.append(f"<p>{text(words.remark)}</p>")
    made = result.prediction
    cost = f"{result.log.frames_supplied} frames in {len(result.log.calls)} calls to {made.backbone}, by {made.method}"
    return "".join([*parts, f'<p style="opacity:.7">{text(cost)}</p>'])


def _clip(seen: SeenClip) -> str:
    span = seen.clip.span
    facts = "".join(f"<li>{text(fact)}</li>" for fact in seen.facts)
    pictures = "".join(_picture(frame) for frame in _spread(seen.clip.frames))
    told = f"<ul>{facts}</ul>" if facts else ""
    return f"<div><p><b>{clock_words(span.start)} - {clock_words(span.end)}</b></p>{told}{pictures}</div>"


def _spread(frames: Sequence[Frame]) -> Sequence[Frame]:
    """A few of the frames, spread evenly."""
    if len(frames) <= PICTURES_OF_A_CLIP:
        return frames
    return [frames[at * len(frames) // PICTURES_OF_A_CLIP] for at in range(PICTURES_OF_A_CLIP)]


def _picture(frame: Frame) -> str:
    from PIL import Image

    picture = Image.fromarray(frame.rgb())
    width = max(1, round(picture.width * PICTURE_HEIGHT_PX / picture.height))
    written = io.BytesIO()
    picture.resize((width, PICTURE_HEIGHT_PX)).save(written, "JPEG", quality=JPEG_QUALITY)
    data = base64.b64encode(written.getvalue()).decode("ascii")
    moment = clock_words(frame.seconds)
    return (
        '<figure style="display:inline-block;margin:0 .4em .4em 0">'
        f'<img src="data:image/jpeg;base64,{data}" width="{width}" height="{PICTURE_HEIGHT_PX}" alt="at {moment}">'
        f'<figcaption style="font-size:.8em;opacity:.7">{moment}</figcaption></figure>'
    )
