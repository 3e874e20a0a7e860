"""The process of a command: streams that take every character, interrupts, and exit."""

from __future__ import annotations

import codecs
import os
import re
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

ESCAPE: Final = "trace-ves-escape"
INTERRUPTED: Final = 130  # the exit status after Ctrl-C
AGAIN_SECONDS: Final = 0.001
SWALLOWING: Final = frozenset({"dump_python", "dump_json", "model_dump", "model_dump_json", "__del__"})
"""Functions, of pydantic and of Python, that do not let through what is raised within them."""


@contextmanager
def noted_interrupts() -> Iterator[threading.Event]:
    """An event that is set once Ctrl-C was pressed, whichever exception follows.

    No interrupt is raised where it would be swallowed: it comes again in a moment, until it is somewhere else.
    """
    event = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        event.set()
        swallowed = _would_swallow(frame)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS if swallowed else 0)
        if not swallowed:
            signal.default_int_handler(number, frame)

    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT)
    if not (is_main and hasattr(signal, "setitimer") and handler is signal.default_int_handler):
        yield event
        return
    signal.signal(signal.SIGALRM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield event
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _would_swallow(frame: FrameType | None) -> bool:
    """Whether an exception raised here would become a warning: pydantic makes one of any that a serializer raises."""
    while frame is not None and frame.f_code.co_name not in SWALLOWING:
        frame = frame.f_back
    return frame is not None


def ignore_interrupts() -> None:
    """Let Ctrl-C do nothing from here on."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def make_streams_tolerant() -> None:
    """Let standard output and error escape what their encoding lacks, as JSON does, instead of failing on it."""
    codecs.register_error(ESCAPE, _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=ESCAPE)


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True)), error.end


def read_text(question: str | None, options: Iterable[str]) -> str | None:
    """The question, from standard input for a dash. An `InputError` if it or an option is not UTF-8."""
    try:
        words = sys.stdin.read() if question == "-" else question
        "".join([words or "", *options]).encode()
    except UnicodeError:
        raise InputError("the question or an option is not UTF-8 text; convert it, for example with iconv.") from None
    return words


def sentence(text: str) -> str:
    """The text without a full stop after another mark, as where one sentence quotes another."""
    return re.sub(r"([.?!…])\.(?=\s|$)", r"\1", text)


def silence_stdout() -> None:
    """Discard further standard output: its reader is gone, or the disk behind it is full."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def leave(code: int, *, at_once: bool) -> None:
    """End the process with this status. `at_once` is false where another program called the command in its process.

    Native code of an abandoned thread aborts the process when the interpreter is taken down under it; with such
    threads, buffers are written here and nothing is taken down.
    """
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    if at_once and any(thread.daemon for thread in others):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    if at_once and not others:
        ignore_interrupts()  # all is done: while the interpreter is taken down, Ctrl-C would only spoil the status
    sys.exit(code)
