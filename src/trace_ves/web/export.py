"""The page of one question as a single HTML file with its styles, scripts and frames; it fetches nothing."""

from __future__ import annotations

import base64
import hashlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves.core import InputError, MissingExtraError, VideoError
from trace_ves.core.files import write_atomic
from trace_ves.web import views
from trace_ves.web.footage import Footage

if TYPE_CHECKING:
    from trace_ves.web.library import Library

MOST_FRAMES: Final = 400  # of more, the file keeps an even selection and says so
FRAME_HEIGHT: Final = 360
QUALITY: Final = 75
CLASSIC_SCRIPT: Final = "theme.js"
MODULES: Final = ("keys.js", "player.js", "timeline.js", "frames.js")


def write_story(library: Library, key: str, question_id: str, file: Path) -> tuple[int, int]:
    """Write the page of a question to a file; returns the number of its frames and bytes."""
    if key not in library.runs:
        raise InputError(f"there is no run {key!r} in this folder; the runs are {', '.join(library.runs)}.")
    if question_id not in library.listing(key):
        raise InputError(f"there is no question {question_id!r} in run {key!r}.")
    info = library.info(question_id)
    answer = views.answer_view(library, key, info)
    data = views.page_data(info, [answer], has_video=False)
    moments: list[float] = data["supplied"]
    frames = _frames(library.video_of(info), moments)
    count = sum(frame is not None for frame in frames)
    page = views.render(
        "export.html",
        info=info,
        answers=[answer],
        data=data,
        has_video=False,
        exported=True,
        name=answer.name,
        frames=frames,
        left_out=len(moments) - count,
        **_inline_assets(),
    )
    write_atomic(file, page)
    return count, len(page.encode())


def thin_moments(moments: list[float]) -> list[float]:
    """Select at most `MOST_FRAMES` of these moments, evenly."""
    if len(moments) <= MOST_FRAMES:
        return moments
    return [moments[round(at * (len(moments) - 1) / (MOST_FRAMES - 1))] for at in range(MOST_FRAMES)]


def _frames(video: Path | None, moments: list[float]) -> list[str | None]:
    """The frame of each moment as a data URL; None if it is not selected or cannot be decoded."""
    if video is None:
        return [None] * len(moments)
    footage, urls = Footage(), dict[float, str]()
    for moment in thin_moments(moments):
        with suppress(VideoError, MissingExtraError):
            picture = footage.frames_at(video, [moment], FRAME_HEIGHT)[0].jpeg(QUALITY)
            urls[moment] = "data:image/jpeg;base64," + base64.b64encode(picture).decode()
    return [urls.get(moment) for moment in moments]


def _inline_assets() -> dict[str, object]:
    """Styles, scripts, and the content security policy that allows only these."""
    style = views.static_text("page.css")
    classic = views.static_text(CLASSIC_SCRIPT)
    modules = [views.static_text(name) for name in MODULES]
    policy = "; ".join(
        (
            "default-src 'none'",
            "img-src data:",
            f"style-src {_hash(style)}",
            "script-src " + " ".join(map(_hash, (classic, *modules))),
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return {"policy": policy, "style": style, "classic": classic, "modules": modules}


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
