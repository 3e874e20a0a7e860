"""Read the subtitles of a video: from a .srt or .vtt file next to it, else from a text track.

Files are hostile input: sizes and numbers are bounded, markup is removed, and a cue with impossible times is left out.
Nothing outside the video's folder is read. The parser is ours because pysubs2 appends notes and names of cues to the
cue before them, and takes a line with two inline times, as YouTube writes them, for the times of a cue.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import av
from av.stream import Discard, Disposition

from trace_ves.core import InputError
from trace_ves.core.subtitles import Cue, Subtitles
from trace_ves.video.container import Deadline, choose_stream, codec_name, open_container

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.subtitles.stream import SubtitleStream

MOST_BYTES: Final = 16 * 1024**2  # subtitles of a long film have 200 kB
MOST_CUES: Final = 20_000
LONGEST_CUE_CHARS: Final = 300  # longer cues are cut
DEADLINE_SECONDS: Final = 60.0
_LONGEST_RAW_CHARS: Final = 4_000
_SUFFIXES: Final = (".srt", ".vtt")
_TEXT_CODECS: Final = frozenset({"ass", "ssa", "subrip", "srt", "mov_text", "webvtt", "text", "stl", "microdvd"})
"""Codecs of text tracks; other tracks contain pictures."""

_TIMING: Final = re.compile(r"\s*([\d:.,]{1,20})\s*-->\s*([\d:.,]{1,20})(?:\s.*)?")
_MOMENT: Final = re.compile(r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,6}))?")
_MARKUP: Final = re.compile(r"</?[\w!][^<>]*>|\{\\[^{}]*\}")  # tags, inline times and ASS overrides; "x < 3" is text
_NOT_SHOWN: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]+"
)
"""Control characters and invisible letters, including those that change the direction of text."""


def read_subtitles(video: Path, duration: float) -> Subtitles | None:
    """The subtitles next to a video or in it; None if it has none, an `InputError` if they are unusable."""
    for file in subtitle_files(video):
        return _require_cues(Subtitles(file.name, *_select(_parse_text(_read_text(file)), duration)), str(file))
    return _read_track(video, duration)


def subtitle_files(video: Path) -> list[Path]:
    """The subtitle files with the name of a video: `film.srt` and `film.vtt`, then those such as `film.en.srt`."""
    try:
        beside = sorted(video.parent.iterdir())
    except OSError:
        return []
    named = [
        file
        for file in beside
        if file.suffix.lower() in _SUFFIXES and file.name.startswith(f"{video.stem}.") and file.is_file()
    ]
    return sorted(named, key=lambda file: (file.stem != video.stem, file.name))


def _read_text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}.") from None
    if len(raw) > MOST_BYTES:
        raise InputError(f"{file}: larger than {MOST_BYTES // 1024**2} MB, too large for subtitles; move it away.")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", errors="replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")  # the encoding of many old files


def _parse_text(text: str) -> Iterator[tuple[float, float, str] | None]:
    """Yield each cue of a .srt or .vtt, or None if its times are invalid. Headers, notes and styles have no times."""
    lines = iter(text.splitlines())
    for line in lines:
        if "-->" not in line:
            continue
        match = _TIMING.fullmatch(line)
        said = list(takewhile(str.strip, lines))
        start, end = (_seconds(match[1]), _seconds(match[2])) if match else (None, None)
        yield None if start is None or end is None else (start, end, "\n".join(said))


def _seconds(moment: str) -> float | None:
    match = _MOMENT.fullmatch(moment)
    if match is None:
        return None
    hours, minutes, seconds, fraction = match.groups()
    return int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")


def _read_track(video: Path, duration: float) -> Subtitles | None:
    """The default text track of a file, else its first text track."""
    deadline = Deadline(video, "reading its subtitles", DEADLINE_SECONDS)
    try:
        with open_container(video, deadline) as container:
            tracks = [track for track in container.streams.subtitles if codec_name(track) in _TEXT_CODECS]
            if not tracks:
                return None
            track = max(tracks, key=lambda each: (bool(each.disposition & Disposition.default), -each.index))
            known = track.language and track.language.isalnum() and track.language != "und"
            source = f"track {track.index}" + (f" ({track.language})" if known else "")
            cues, refused = _select(_decode_cues(container, track, video, deadline), duration)
    except av.FFmpegError as error:
        raise InputError(f"{video}: its subtitles cannot be read: {error}.") from None
    return _require_cues(Subtitles(source, cues, refused), f"{video}, {source}")


def _decode_cues(
    container: InputContainer, track: SubtitleStream, video: Path, deadline: Deadline
) -> Iterator[tuple[float, float, str]]:
    pictures, _ = choose_stream(container, video)  # skips every other stream
    pictures.discard, track.discard = Discard.all, Discard.default
    first = float((pictures.start_time or 0) * (pictures.time_base or 0))  # the first frame is at time 0
    for packet in container.demux(track):
        deadline.check()
        if packet.pts is None or not packet.size:
            continue
        start = float(packet.pts * packet.time_base) - first
        end = start + float((packet.duration or 0) * packet.time_base)
        lines = [getattr(said, "dialogue", b"") or getattr(said, "text", b"") for said in packet.decode()]
        text = b"\n".join(lines).decode("utf-8", errors="replace")
        if text.strip():  # tracks have empty cues between lines
            yield start, end, text.replace("\\N", "\n").replace("\\n", "\n")


def _select(raw_cues: Iterable[tuple[float, float, str] | None], duration: float) -> tuple[tuple[Cue, ...], int]:
    """The valid cues inside the video, sorted by time, and the number of other cues."""
    cues: list[Cue] = []
    refused = 0
    for each in raw_cues:
        text = _clean(each[2]) if each else ""
        if each is None or not text or not 0 <= each[0] < each[1] or each[0] >= duration or len(cues) >= MOST_CUES:
            refused += 1
            continue
        cues.append(Cue(each[0], min(each[1], duration), text))
    return tuple(sorted(cues, key=lambda cue: (cue.start, cue.end))), refused


def _clean(text: str) -> str:
    """The text of a cue on one line, without markup, entities and control characters, cut to the limit."""
    words = _MARKUP.sub(" ", html.unescape(text[:_LONGEST_RAW_CHARS]))
    words = " ".join(_NOT_SHOWN.sub(" ", words.encode("utf-8", "replace").decode("utf-8")).split())
    return words if len(words) <= LONGEST_CUE_CHARS else f"{words[: LONGEST_CUE_CHARS - 1]}…"


def _require_cues(subtitles: Subtitles, where: str) -> Subtitles:
    if not subtitles.cues:
        raise InputError(
            f"{where}: no line of these subtitles can be used ({subtitles.refused} are outside the video or empty)."
        )
    return subtitles
