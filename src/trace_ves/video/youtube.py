"""Download YouTube videos with yt-dlp (extra `youtube`), without sound, so that nothing has to be merged.

yt-dlp runs with its YouTube extractor only, without configuration files, cookies or post-processing.
"""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from trace_ves.core.errors import InputError, MissingExtraError
from trace_ves.video.download import FetchRules, Version, too_large

_HOSTS: Final = frozenset({"youtube.com", "www.youtube.com", "m.youtube.com", "music.youtube.com", "youtu.be"})
_ID: Final = re.compile(r"[\w-]{11}", re.ASCII)
_LONGEST_WORDS: Final = 300
HEIGHT: Final = 720
FORMATS: Final = f"bv[height<={HEIGHT}][ext=mp4]/bv[height<={HEIGHT}]/b[height<={HEIGHT}]/bv/b"
"""The best video stream up to 720 rows, preferably in MP4."""


def find_film(url: str) -> str | None:
    """The canonical address of a YouTube video; None for other addresses."""
    parts = urlsplit(url)
    if (parts.hostname or "") not in _HOSTS or parts.scheme not in {"http", "https"}:
        return None
    segments = [part for part in parts.path.split("/") if part]
    if parts.hostname == "youtu.be" and segments:
        name = segments[0]
    elif len(segments) == 2 and segments[0] in {"shorts", "embed", "live", "v"}:
        name = segments[1]
    else:
        name = parse_qs(parts.query).get("v", [""])[0]
    if not _ID.fullmatch(name):
        raise InputError(f"{url[:200]}: this is not the address of a YouTube video; give one with watch?v=….")
    return f"https://www.youtube.com/watch?v={name}"


def download_film(
    film: str, part: Path, rules: FetchRules, on_progress: Callable[[int, int | None], None]
) -> tuple[str, Version]:
    """Download a video to `part`, continuing an earlier attempt; returns its file name and size."""
    try:
        import yt_dlp  # an extra
    except ModuleNotFoundError:
        raise MissingExtraError("Downloading a YouTube video", "youtube") from None

    def listen(state: dict[str, Any]) -> None:
        done = int(state.get("downloaded_bytes") or 0)
        if done > rules.most_bytes:
            raise _TooLargeError(done)
        total = state.get("total_bytes")
        on_progress(done, int(total) if total else None)

    logger = logging.Logger("yt-dlp")  # discards the output; errors are raised as exceptions
    logger.addHandler(logging.NullHandler())
    options: dict[str, Any] = {
        "allowed_extractors": ["youtube"],
        "format": FORMATS,
        "outtmpl": {"default": str(part).replace("%", "%%")},
        "noplaylist": True,
        "quiet": True,
        "no_warnings": True,
        "noprogress": True,
        "cachedir": False,
        "overwrites": False,
        "updatetime": False,
        "fixup": "never",
        "socket_timeout": rules.timeout_seconds,
        "retries": rules.attempts,
        "fragment_retries": rules.attempts,
        "progress_hooks": [listen],
        "logger": logger,
    }
    try:
        with yt_dlp.YoutubeDL(options) as client:
            info: dict[str, Any] = client.extract_info(film, download=False)
            if info.get("is_live") or info.get("live_status") in {"is_live", "is_upcoming"}:
                raise InputError(f"{film}: this video is still live; try again after the broadcast.")
            size = info.get("filesize")
            if isinstance(size, int) and size > rules.most_bytes:
                raise _TooLargeError(size)
            client.process_ie_result(info, download=True)
    except _TooLargeError as error:
        for left in part.parent.glob(f"{part.name}*"):
            left.unlink()
        raise InputError(f"{film}: {too_large(int(error.args[0]), rules)}") from None
    except yt_dlp.utils.YoutubeDLError as error:
        cause: Any = error
        while cause := cause.__cause__ or cause.__context__:
            if isinstance(cause, yt_dlp.networking.exceptions.HTTPError):
                cause.close()  # it keeps the connection open
        raise InputError(f"{film}: yt-dlp could not fetch it: {_words(error)}.") from None
    return f"{film[-11:]}.{info.get('ext') or 'mp4'}", Version(bytes=part.stat().st_size)


def _words(error: Exception) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).removeprefix("ERROR: ")
    words = " ".join(text.partition("(caused by")[0].split())
    return (words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]}…").rstrip(".")


class _TooLargeError(Exception):
    """The video is too large; raised from a progress hook to stop a download."""
